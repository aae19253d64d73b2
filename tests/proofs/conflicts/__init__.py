"""Pairs of real jobs that meet in every possible way, and the page docs/evidence/conflicts.md."""

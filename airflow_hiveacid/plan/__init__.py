"""Decisions as pure functions: what to scan, merge, compact and clean."""

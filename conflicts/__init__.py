"""Lets two real jobs meet in every way there is, and writes docs/conflicts.md of what was seen."""

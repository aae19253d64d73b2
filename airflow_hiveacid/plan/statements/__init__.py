"""Checks of statements and their parameters, and the text of statements."""

"""Tokens of SQL in Hive's dialect, and pieces of statements."""

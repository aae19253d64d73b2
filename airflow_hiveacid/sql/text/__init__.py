"""Tokens of SQL in Hive's dialect, and spans of statements."""

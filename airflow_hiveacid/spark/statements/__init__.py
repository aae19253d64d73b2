"""Statements as events: expressions, INSERT, UPDATE, DELETE, MERGE."""

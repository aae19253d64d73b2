"""Conversion of statements to events: INSERT, UPDATE, DELETE, MERGE, and others."""

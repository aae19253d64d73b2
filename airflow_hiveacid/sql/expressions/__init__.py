"""Expressions, queries and functions, and the differences between Hive and Spark."""

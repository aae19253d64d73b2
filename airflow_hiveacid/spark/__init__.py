"""Spark applications: read, write, merge, compact, convert and clean tables."""

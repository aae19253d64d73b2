"""Compaction and conversion of tables with Spark."""

"""Compaction, cleaning and conversion of tables."""

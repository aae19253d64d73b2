"""Compaction and cleaning."""

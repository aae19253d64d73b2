"""Compaction and conversion of tables, and proofs of erasures, with Spark."""

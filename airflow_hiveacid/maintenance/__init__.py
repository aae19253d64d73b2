"""Cleaning, and planning of compaction: listings and the metastore, without Spark."""

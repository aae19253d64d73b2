"""Hive's hashes, and the buckets that they select."""

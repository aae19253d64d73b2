"""Hive's hashes, and the buckets they lead to."""

"""The same questions for Hive's own engine and for us, and the answers that may differ."""

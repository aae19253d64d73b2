"""Reads of tables by any engine: locks, snapshots, live files, and scans of them as Arrow data."""

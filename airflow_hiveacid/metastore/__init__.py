"""The Hive metastore: catalog, transactions, locks, heartbeats, compaction queue."""

"""A real Hive metastore on this machine."""

"""The command line; it inspects Hive ACID tables through a metastore or from their files."""

"""The command line, which inspects Hive ACID tables through a metastore or from their files."""

"""Plain records that are stored in a table's directory or received from a metastore."""

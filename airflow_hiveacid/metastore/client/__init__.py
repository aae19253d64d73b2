"""A client of a Hive metastore: a connection, its calls, and checks of the replies."""

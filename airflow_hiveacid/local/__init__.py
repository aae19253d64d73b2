"""Real servers on this machine: a Hive metastore, and optionally its PostgreSQL database.

For the demo, and for tests. Depends only on the standard library. Java and Maven must be installed;
PostgreSQL needs its Debian package.
"""

"""Real servers on this machine: a Hive metastore, and optionally its PostgreSQL database.

Use cases are the demo, our own tests and the tests of users. The package depends only on the
standard library. Java and Maven must be installed. PostgreSQL needs its Debian package.
"""

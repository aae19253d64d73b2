"""Real servers on this machine: a Hive metastore, and PostgreSQL below it where wanted.

For the demo, for this project's tests and for the tests of its users. Standard library only; Java,
Maven and (for PostgreSQL) the Debian package have to be installed.
"""

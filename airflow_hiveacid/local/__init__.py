"""Real servers on this machine: a Hive metastore, and optionally its PostgreSQL database.

The servers are for the demo, and for the tests of this project and of its users. The package
depends only on the standard library. Java and Maven must be installed. PostgreSQL needs its Debian
package.
"""

"""A PostgreSQL server on this machine."""

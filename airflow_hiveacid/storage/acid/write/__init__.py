"""Writing ACID files."""

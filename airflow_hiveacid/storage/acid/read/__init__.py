"""Read ACID directories and files."""

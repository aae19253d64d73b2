"""Reading ACID directories and files."""

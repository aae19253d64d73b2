"""Write ACID files."""

"""Files: listing, ORC reading and writing, footers, staging, hashes."""

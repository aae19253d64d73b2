"""ACID files: rows with identities, and insert and delete events."""

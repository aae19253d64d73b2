"""ACID files: rows with identity, events, and how they merge."""

"""Files of insert-only tables: rows and nothing else, in several formats."""

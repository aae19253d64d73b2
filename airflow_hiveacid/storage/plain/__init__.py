"""Files of insert-only tables: rows without ACID columns, in several formats."""

"""Files of insert-only tables, which contain rows without ACID columns in several formats."""

"""Past versions of tables: their history, and which versions are kept and readable."""

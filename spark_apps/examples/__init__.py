"""Programs that show how tables are changed from a PySpark program of one's own."""

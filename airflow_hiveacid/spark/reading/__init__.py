"""Reading of tables and sources as Spark frames."""

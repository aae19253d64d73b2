"""Tables and sources as Spark frames."""

"""Users' expressions: parsed, checked and resolved, with Hive's functions where Spark's differ."""

"""Users' expressions: parsed, checked and resolved, with Hive's functions if Spark's differ."""

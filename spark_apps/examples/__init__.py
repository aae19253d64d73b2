"""Examples of users' PySpark programs that change tables."""

"""Parquet files in the types of a Hive table."""

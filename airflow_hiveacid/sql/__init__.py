"""The parser that runs in Airflow: from SQL in Hive's dialect to the specs of jobs.

What it refuses, it refuses with a SqlTextError, wherever in this package.
"""

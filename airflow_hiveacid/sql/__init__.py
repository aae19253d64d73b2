"""The parser that runs in Airflow.

The parser converts SQL in Hive's dialect to the specs of jobs.
"""

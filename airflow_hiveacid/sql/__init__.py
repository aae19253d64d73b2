"""The parser that runs in Airflow and converts SQL in Hive's dialect to the specs of jobs."""

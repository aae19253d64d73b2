"""The parser of SQL in Hive's dialect, which runs in Airflow and returns the specs of jobs."""

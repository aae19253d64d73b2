"""The parser that runs in Airflow. It converts SQL in Hive's dialect to the specs of jobs."""

"""The contract between Airflow and Spark: job specs, results, their JSON, default time limits."""

"""The contract between Airflow and Spark: job specs, results, and their JSON form."""

"""Tables for programs in Python, without Airflow and Spark: scans, changes and maintenance."""

"""The pages about Hive tables in a real Airflow, before a headless Chromium."""

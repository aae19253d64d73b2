"""The pages about Hive ACID tables in Airflow's UI: a plugin, its endpoints and its scripts."""

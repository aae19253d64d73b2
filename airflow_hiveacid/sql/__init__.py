"""SQL text in Hive's dialect, read on Airflow's side: text in, job descriptions out."""

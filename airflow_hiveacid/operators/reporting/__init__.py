"""What a task reports to its log, Airflow's pages, assets, OpenLineage and metrics."""

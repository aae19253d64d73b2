"""Applications that spark-submit starts, one `main` per job."""

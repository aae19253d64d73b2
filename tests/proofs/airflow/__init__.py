"""A real Airflow whose components are killed: each job is submitted and committed exactly once."""

"""The contract across the seam between Airflow and Spark."""

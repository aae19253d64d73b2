"""The supported versions of Airflow, each beside the versions that were its pins."""

"""Airflow triggers for this provider's deferrable sensors."""

"""Checks of a job on the worker before Spark starts."""

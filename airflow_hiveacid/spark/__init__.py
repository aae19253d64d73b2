"""Spark applications: read, write, merge, compact, convert and clean tables."""

from __future__ import annotations

from pyspark import __version__

from airflow_hiveacid.supported_versions import PYSPARK

PYSPARK.check(__version__)  # an older one lacks names that other modules import

"""Spark applications: read, write, merge, compact, convert and clean tables."""

from __future__ import annotations

from contextlib import suppress

from airflow_hiveacid.supported_versions import PYSPARK

with suppress(ImportError):  # some modules work without PySpark
    from pyspark import __version__

    PYSPARK.check(__version__)  # an older one lacks names that other modules import

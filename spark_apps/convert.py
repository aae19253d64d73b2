"""Convert a table between flat and transactional, keeping its rows."""

from __future__ import annotations

from airflow_hiveacid.spark.conversions import convert
from airflow_hiveacid.spark.runtime import main

if __name__ == "__main__":
    main("convert", convert)

"""Compact a full-ACID table, or one partition of it."""

from __future__ import annotations

from airflow_hiveacid.spark.maintenance.compact_table import compact_table
from airflow_hiveacid.spark.runtime import main

compact = compact_table


if __name__ == "__main__":
    main("compact", compact)

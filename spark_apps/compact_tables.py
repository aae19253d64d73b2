"""Compact many transactional tables in one job, or report what would be compacted."""

from __future__ import annotations

from airflow_hiveacid.spark.maintenance.compact_tables import compact_tables
from airflow_hiveacid.spark.runtime import main

if __name__ == "__main__":
    main("compact_tables", compact_tables)

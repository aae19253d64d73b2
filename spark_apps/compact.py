"""Compact transactional tables or one partition, or report what would be compacted."""

from __future__ import annotations

from airflow_hiveacid.spark.maintenance.compact_tables import compact_tables
from airflow_hiveacid.spark.runtime import main

compact = compact_tables


if __name__ == "__main__":
    main("compact", compact)

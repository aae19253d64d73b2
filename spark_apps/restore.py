"""Restore the rows of an earlier version of a table, or report what a restore would change."""

from __future__ import annotations

from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.restore import restore

if __name__ == "__main__":
    main("restore", restore)

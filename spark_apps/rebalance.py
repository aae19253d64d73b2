"""Spread the rows of a table or partition evenly over files, or report what would change."""

from __future__ import annotations

from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.rebalance import rebalance

if __name__ == "__main__":
    main("rebalance", rebalance)

"""Write a table's changes since the last run as the next range of a change feed."""

from __future__ import annotations

from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.change_feed import feed_changes

if __name__ == "__main__":
    main("change_feed", feed_changes)

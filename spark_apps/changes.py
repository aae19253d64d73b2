"""Write what was changed in a table since the last time, as the next range of a feed."""

from __future__ import annotations

from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.changes import feed_changes

if __name__ == "__main__":
    main("changes", feed_changes)

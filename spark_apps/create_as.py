"""Run CREATE TABLE ... AS SELECT."""

from __future__ import annotations

from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.creation import create_and_fill

create_as = create_and_fill


if __name__ == "__main__":
    main("create_as", create_as)

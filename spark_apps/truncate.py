"""Truncate a transactional table, or some of its partitions, by writing an empty base."""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import TruncateSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

truncate = statement_job(TruncateSpec)


if __name__ == "__main__":
    main("truncate", truncate)

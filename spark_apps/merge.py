"""Run MERGE INTO a full-ACID table."""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import MergeSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

merge = statement_job(MergeSpec)


if __name__ == "__main__":
    main("merge", merge)

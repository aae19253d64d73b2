"""Run UPDATE on a full-ACID table: set columns in the rows that match the condition."""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import UpdateSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

update = statement_job(UpdateSpec)


if __name__ == "__main__":
    main("update", update)

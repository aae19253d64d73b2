"""Run DELETE on a full-ACID table: write a delete event for each row that matches the condition."""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

delete = statement_job(DeleteSpec)


if __name__ == "__main__":
    main("delete", delete)

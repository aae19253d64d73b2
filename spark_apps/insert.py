"""Run INSERT INTO or INSERT OVERWRITE for a transactional table."""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import InsertSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

insert = statement_job(InsertSpec)


if __name__ == "__main__":
    main("insert", insert)

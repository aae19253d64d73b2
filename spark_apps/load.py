"""Run LOAD DATA for a transactional table: copy existing files into the table unchanged."""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import LoadSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

load = statement_job(LoadSpec)


if __name__ == "__main__":
    main("load", load)

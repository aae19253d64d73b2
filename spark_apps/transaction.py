"""Run statements on several tables in one transaction.

All statements are checked before the first statement starts. Then they run one after another, and
each statement sees the changes of the earlier statements (`spark.writing.work`).
"""

from __future__ import annotations

from airflow_hiveacid.jobs.statements import TransactionSpec
from airflow_hiveacid.spark.runtime import main
from airflow_hiveacid.spark.statements.planned import statement_job

transaction = statement_job(TransactionSpec)


if __name__ == "__main__":
    main("transaction", transaction)

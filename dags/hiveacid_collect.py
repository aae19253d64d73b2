"""Collect the numbers of all Hive ACID tables for the page Browse > Hive ACID tables.

Unpause this DAG to switch the page on. The DAG measures all tables every 15 minutes; the
environment variable HIVEACID_COLLECT_CRON sets a different schedule. The DAG needs the connection
`hive_acid_default`, but no Spark.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_hiveacid.operators import HiveAcidCollectOperator

with DAG(
    "hiveacid_collect",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(
        os.environ.get("HIVEACID_COLLECT_CRON", "*/15 * * * *"), timezone="UTC"
    ),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={
        "owner": "data-platform",
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
    },
    tags=["hive-acid"],
) as dag:
    # A collection measures the current tables, so runs for past dates are not needed.
    dag.allowed_run_types = ["scheduled", "manual"]  # as an argument only since Airflow 3.2
    HiveAcidCollectOperator(task_id="collect")

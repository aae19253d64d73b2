"""Compact `demo.flights` if necessary, then remove files that no reader needs any more.

Every few minutes a sensor checks the table once. The sensor succeeds if a partition has 10 delta
directories, or deltas of at least 10 % of the base's size, unless the table sets other
thresholds. If no partition reaches a threshold, the run is skipped within seconds. Otherwise the
compaction task uses the same thresholds to choose minor or major, and the cleaning task removes the
replaced files. Merges and readers may run at the same time.

Needs the connections `hive_acid_default` and `spark_default`. The environment variable
FLIGHTS_COMPACTION_CRON sets how often the sensor checks.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_hiveacid.operators import HiveAcidCleanOperator, HiveAcidCompactOperator
from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor

TABLE = "demo.flights"

with DAG(
    "flights_compaction",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(
        os.environ.get("FLIGHTS_COMPACTION_CRON", "*/5 * * * *"), timezone="UTC"
    ),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 1, "retry_delay": timedelta(seconds=30)},
    tags=["hive-acid", "demo"],
) as dag:
    # A compaction always works on the current table, so runs for past dates are not needed.
    dag.allowed_run_types = ["scheduled", "manual"]  # as an argument only since Airflow 3.2
    needed = HiveAcidCompactionNeededSensor(
        task_id="needed",
        table=TABLE,
        # One poll per run: the next run polls again.
        timeout=0,
        soft_fail=True,
    )
    compact = HiveAcidCompactOperator(task_id="compact", table=TABLE)
    clean = HiveAcidCleanOperator(task_id="clean", table=TABLE)
    needed >> compact >> clean

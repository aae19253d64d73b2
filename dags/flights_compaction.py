"""Compact `demo.flights` when it needs it, then remove what no reader can need any more.

Every few minutes a sensor measures the table, once: 10 delta directories, or deltas of 10 % of the
base's bytes, in any partition. Below both, the run is skipped within seconds. Above, the compaction
chooses minor or major by the same thresholds, and the cleaning takes away what it has replaced.
Merges and readers may go on meanwhile.

Needs the connections `hive_acid_default` and `spark_default`. The environment variable
FLIGHTS_COMPACTION_CRON changes how often it looks.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from airflow_hiveacid.operators.hive_acid import HiveAcidCleanOperator, HiveAcidCompactOperator
from airflow_hiveacid.sensors.hive_acid import HiveAcidCompactionNeededSensor

TABLE = "demo.flights"
DELTA_COUNT = 10
DELTA_RATIO = 0.1

with DAG(
    "flights_compaction",
    doc_md=__doc__,
    schedule=CronTriggerTimetable(
        os.environ.get("FLIGHTS_COMPACTION_CRON", "*/5 * * * *"), timezone="UTC"
    ),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # A compaction is about the table as it is now: there is no past to make up for.
    allowed_run_types=["scheduled", "manual"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
    tags=["hive-acid", "demo"],
):
    needed = HiveAcidCompactionNeededSensor(
        task_id="needed",
        table=TABLE,
        delta_count=DELTA_COUNT,
        delta_ratio=DELTA_RATIO,
        # One look a run: the next run looks again.
        timeout=0,
        soft_fail=True,
    )
    compact = HiveAcidCompactOperator(
        task_id="compact", table=TABLE, delta_count=DELTA_COUNT, delta_ratio=DELTA_RATIO
    )
    clean = HiveAcidCleanOperator(task_id="clean", table=TABLE)
    needed >> compact >> clean

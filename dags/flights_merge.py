"""Merge each day's flight changes into `demo.flights`, with one transaction per day.

There are two DAGs. `flights_bootstrap` runs only once and loads the first day's schedule.
`flights_merge` runs daily. The batch of day D contains the schedule of day D+1 (inserts), the times
and delays of day D (updates) and the cancellations of day D (deletes). After the bootstrap,
backfill `flights_merge` with

    airflow backfill create --dag-id flights_merge --from-date 2013-01-01 --to-date 2013-01-14 \
        --max-active-runs 2 --reprocess-behavior failed

Each day changes rows that the previous day's merge has inserted, so the order matters.
`depends_on_past` enforces the order, even if a day fails: the next day's run may start early, but
its merge waits. A retry never applies a day twice: the application finds its entry in the table's
ledger and returns the earlier result. A cleared day is merged again. Clear only the last merged
day: the values of an earlier day would overwrite newer values.

Needs the connections `hive_acid_default` and `spark_default`, and the variable `flights_changes`:
the URI of the folder with the batches.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_hiveacid.operators import HiveAcidInsertOperator, HiveAcidMergeOperator

TABLE = "demo.flights"
KEY = ["year", "month", "day", "carrier", "flight", "origin"]
ACTUAL = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum"]
DEFAULTS = {"owner": "data-platform", "retries": 2, "retry_delay": timedelta(seconds=30)}

with DAG(
    "flights_bootstrap",
    doc_md="Load the first day's schedule into `demo.flights`, once.",
    schedule="@once",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    default_args=DEFAULTS,
    tags=["hive-acid", "demo"],
) as bootstrap:
    # The run ID is part of the job key: a second run would be a new job and load the rows again.
    bootstrap.allowed_run_types = ["scheduled"]  # as an argument only since Airflow 3.2
    HiveAcidInsertOperator(
        task_id="load_first_day",
        table=TABLE,
        source={
            "format": "parquet",
            "location": "{{ var.value.flights_changes }}/bootstrap.parquet",
        },
        # By default, a cleared task would insert its rows again.
        on_rerun="skip",
    )

with DAG(
    "flights_merge",
    doc_md=__doc__,
    # In Airflow 3 a plain cron string gives empty data intervals; this timetable spans the day.
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={**DEFAULTS, "depends_on_past": True},
    tags=["hive-acid", "demo"],
):
    HiveAcidMergeOperator(
        task_id="merge",
        table=TABLE,
        source={
            "format": "parquet",
            "location": "{{ var.value.flights_changes }}/{{ data_interval_start | ds }}.parquet",
        },
        keys=KEY,
        # The batch contains flights of two days, so at most two of the twelve partitions are read.
        condition="t.month IN (:months)",
        parameters={
            "months": {
                "type": "int",
                "value": ["{{ data_interval_start.month }}", "{{ data_interval_end.month }}"],
            }
        },
        clauses=[
            {
                "when": "matched",
                "condition": "s.op = 'U'",
                "action": "update",
                "set": {column: f"s.{column}" for column in ACTUAL},
            },
            {"when": "matched", "condition": "s.op = 'D'", "action": "delete"},
            {"when": "not_matched", "condition": "s.op = 'I'", "action": "insert"},
        ],
    )

"""Merge each day's flight changes into `demo.flights`, one transaction a day.

Two DAGs. `flights_bootstrap` runs once, ever, and loads the first day's schedule. `flights_merge`
runs daily: the batch of day D brings the schedule of day D+1 (inserts), the times and delays of day
D (updates) and its cancellations (deletes). Backfill it, after the bootstrap, with

    airflow backfill create --dag-id flights_merge --from-date 2013-01-01 --to-date 2013-01-14 \
        --max-active-runs 2 --reprocess-behavior failed

Each day changes rows that the day before has inserted, so the order counts: `depends_on_past` keeps
it, also when a day fails; the run of the next day may start early, but its merge waits. A retry
never applies a day twice: the application finds its own mark in the table and answers what it did
then. A day that is cleared is merged again; only of the last day are the rows the same afterwards.

Needs the connections `hive_acid_default` and `spark_default`, and the variable `flights_changes`:
the URI of the folder with the batches.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator, HiveAcidMergeOperator

TABLE = "demo.flights"
KEY = ["year", "month", "day", "carrier", "flight", "origin"]
ACTUAL = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum"]
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}

with DAG(
    "flights_bootstrap",
    doc_md="Load the first day's schedule into `demo.flights`, once.",
    schedule="@once",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    # The run's name is part of the job's key: a second run would be another job, and load again.
    allowed_run_types=["scheduled"],
    default_args=RETRIES,
    tags=["hive-acid", "demo"],
):
    HiveAcidInsertOperator(
        task_id="load_first_day",
        table=TABLE,
        source={
            "format": "parquet",
            "location": "{{ var.value.flights_changes }}/bootstrap.parquet",
        },
        # Cleared, an INSERT would insert again.
        on_rerun="skip",
    )

with DAG(
    "flights_merge",
    doc_md=__doc__,
    # A plain cron string gives intervals of no width in Airflow 3; this one spans the day.
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={**RETRIES, "depends_on_past": True},
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
        # Today's flights and tomorrow's: at most two of the twelve partitions are looked at.
        condition="t.month IN ({{ data_interval_start.month }}, {{ data_interval_end.month }})",
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

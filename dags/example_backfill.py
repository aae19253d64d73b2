"""An example of the documentation: sum the changed days on events, and past days by a backfill.

Airflow refuses to backfill `sum_changed_days`, since events start its runs. `sum_days` has the same
task and a cron schedule, so past days can be summed with

    airflow backfill create --dag-id sum_days --from-date 2026-11-01 --to-date 2026-11-14 \
        --max-active-runs 4

Airflow starts runs for changed days since version 3.3; below, only `sum_days` is defined.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow import __version__
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable
from packaging.version import Version

from airflow_hiveacid.assets import partitions_asset
from airflow_hiveacid.operators import HiveAcidSqlOperator, hive_acid_retry_policy

DEFAULTS = {
    "owner": "data-platform",
    # The pool limits the Spark jobs of all DAGs that use it.
    "pool": "hive_acid",
    "retries": 3,
    "retry_policy": hive_acid_retry_policy(),
}


def sum_day(day: str) -> None:
    """Replace the sums of one day, which are one partition."""
    HiveAcidSqlOperator(
        task_id="sum",
        sql="""
            INSERT OVERWRITE TABLE demo.daily_sums PARTITION (day = :day)
            SELECT o.customer, sum(o.amount) FROM demo.orders o
            WHERE o.day = :day
            GROUP BY o.customer
        """,
        parameters={"day": {"type": "date", "value": day}},
    )


if Version(__version__) >= Version("3.3"):
    from airflow.sdk import PartitionedAssetTimetable

    with DAG(
        "sum_changed_days",
        schedule=PartitionedAssetTimetable(assets=partitions_asset("demo.orders")),
        doc_md=__doc__,
        default_args=DEFAULTS,
        tags=["hive-acid", "example"],
    ):
        # If a task changed over 100 days, the key is '*' and this task fails: backfill these days.
        sum_day("{{ dag_run.partition_key.removeprefix('day=') }}")

with DAG(
    "sum_days",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    doc_md=__doc__,
    default_args=DEFAULTS,
    tags=["hive-acid", "example"],
):
    sum_day("{{ data_interval_start | ds }}")

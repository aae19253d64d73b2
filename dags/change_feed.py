"""Keep `demo.flights_copy` equal to `demo.flights` with a change feed.

Trigger the DAG whenever the copy should be updated:

    airflow dags trigger change_feed

Each run writes the net changes since the previous run as Parquet files, and merges them into the
copy. The feed records the end of its last range, so a retry never misses a change. A merged range
is not merged again (`on_rerun="skip"`): merging it after later ranges would restore old values. If
a major compaction has removed the history, the range is the whole table. Rows of the copy that are
not in the range are then deleted.

Needs the table `demo.flights` with the rows of `flights_merge.py`, and the connections
`hive_acid_default` and `spark_default`. The Airflow variable `flights_changes` is the URI of a
folder, in which the feed creates its own folder.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_hiveacid.operators import (
    HiveAcidChangeFeedOperator,
    HiveAcidCreateTableOperator,
    HiveAcidMergeOperator,
)

TABLE = "demo.flights"
COPY = "demo.flights_copy"
KEY = ["year", "month", "day", "carrier", "flight", "origin"]
COLUMNS = {
    "year": "int",
    "day": "int",
    "carrier": "string",
    "flight": "int",
    "origin": "string",
    "dest": "string",
    "sched_dep_time": "int",
    "sched_arr_time": "int",
    "distance": "int",
    "hour": "int",
    "minute": "int",
    "time_hour": "timestamp",
    "dep_time": "int",
    "dep_delay": "int",
    "arr_time": "int",
    "arr_delay": "int",
    "air_time": "int",
    "tailnum": "string",
}
SET = {column: f"s.{column}" for column in COLUMNS if column not in KEY}
OF_CHANGES = [
    {"when": "matched", "condition": "s._change_type = 'delete'", "action": "delete"},
    {"when": "matched", "action": "update", "set": SET},
    {"when": "not_matched", "condition": "s._change_type <> 'delete'", "action": "insert"},
]
OF_ALL = [
    {"when": "matched", "action": "update", "set": SET},
    {"when": "not_matched", "action": "insert"},
    {"when": "not_matched_by_source", "action": "delete"},
]

with DAG(
    "change_feed",
    doc_md=__doc__,
    schedule=None,
    # A range is merged before the next one is written.
    max_active_runs=1,
    default_args={
        "owner": "data-platform",
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "depends_on_past": True,
        "wait_for_downstream": True,
    },
    tags=["hive-acid", "demo"],
):

    @task
    def steps(done: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the arguments for merging each new range; there is at most one."""
        return [
            {
                "source": {
                    "format": "parquet",
                    "location": one["location"],
                    "query": "SELECT * FROM source WHERE _change_type <> 'update_preimage'",
                },
                "clauses": OF_ALL if one["is_whole"] else OF_CHANGES,
            }
            for one in done["details"]["ranges"]
        ]

    make = HiveAcidCreateTableOperator(
        task_id="make", table=COPY, columns=COLUMNS, partition_columns={"month": "int"}
    )
    changes = HiveAcidChangeFeedOperator(
        task_id="changes",
        table=TABLE,
        location="{{ var.value.flights_changes }}/feed",
        keys=KEY,
        net=True,
        # The merge needs only keys; to find old values, the feed might read the whole table.
        pre_images=False,
        when_gone="whole",
    )
    merge = HiveAcidMergeOperator.partial(
        task_id="merge", table=COPY, keys=KEY, on_rerun="skip"
    ).expand_kwargs(steps(changes.output))
    make >> merge

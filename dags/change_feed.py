"""Keep `demo.flights_copy` equal to `demo.flights`, by what was changed in it.

Trigger it as often as the copy shall be up to date:

    airflow dags trigger change_feed

Each run writes what was changed since the run before, net, as Parquet, and merges it into the copy.
The feed remembers where it stopped, so a retry never leaves a change out. A range that is merged is
not merged again (`on_rerun="skip"`): behind later ones it would bring old values back when a run is
cleared. Where a major compaction has taken the history, which the table's compaction is
free to do, the range is the whole table, and rows that it lacks are deleted.

Needs the table, which the DAGs of `flights_merge.py` make, the connections `hive_acid_default` and
`spark_default`, and the variable `flights_changes`: a folder, in which the feed gets its own.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_hiveacid.operators.changes import HiveAcidChangesOperator
from airflow_hiveacid.operators.create_table import HiveAcidCreateTableOperator
from airflow_hiveacid.operators.hive_acid import HiveAcidMergeOperator

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
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "depends_on_past": True,
        "wait_for_downstream": True,
    },
    tags=["hive-acid", "demo"],
):

    @task
    def steps(done: dict[str, Any]) -> list[dict[str, Any]]:
        """How each new range is merged: there is one, or none."""
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
    changes = HiveAcidChangesOperator(
        task_id="changes",
        table=TABLE,
        location="{{ var.value.flights_changes }}/feed",
        keys=KEY,
        net=True,
        # What merges goes by keys; old values would have to be looked for all over the table.
        pre_images=False,
        when_gone="whole",
    )
    merge = HiveAcidMergeOperator.partial(
        task_id="merge", table=COPY, keys=KEY, on_rerun="skip"
    ).expand_kwargs(steps(changes.output))
    make >> merge

"""Compact, clean or plan one table, as the buttons of Browse > Hive ACID tables request it.

Only users who may trigger this DAG can use the buttons. You can also trigger the DAG by hand, with
the same parameters. It needs the connections `hive_acid_default` and `spark_default`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param, task

from airflow_hiveacid.operators import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    hive_acid_retry_policy,
)

TABLE = {
    "table": "{{ params.table }}",
    "partition": "{{ params.partition }}",
    "hive_acid_conn_id": "{{ params.connection }}",
}

with DAG(
    "hiveacid_operations",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # If this DAG were paused, the buttons would have no effect.
    is_paused_upon_creation=False,
    default_args={
        "owner": "data-platform",
        "retries": 1,
        "retry_policy": hive_acid_retry_policy(),
    },
    params={
        "action": Param("plan", enum=["compact", "clean", "plan"]),
        "table": Param("demo.customers", type="string", pattern=r"^\S+\.\S+$"),
        "partition": Param("", type="string", description="Such as month=1; empty: all"),
        "choice": Param(
            "auto",
            enum=["auto", "minor", "major"],
            description="The kind of compaction; auto: by the thresholds",
        ),
        "connection": Param("hive_acid_default", type="string"),
    },
    tags=["hive-acid"],
):

    @task.branch
    def choose(action: str) -> str:
        """Return the task that does the requested action."""
        return action

    choose("{{ params.action }}") >> [
        HiveAcidCompactOperator(task_id="compact", choice="{{ params.choice }}", **TABLE),
        HiveAcidCleanOperator(task_id="clean", **TABLE),
        HiveAcidCompactOperator(
            task_id="plan", choice="{{ params.choice }}", plan_only=True, **TABLE
        ),
    ]

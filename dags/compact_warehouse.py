"""Compact all tables of a warehouse at night, then remove files that no reader needs any more.

The run begins at one o'clock. It plans the partitions of all matching tables, and compacts those
that are due with one Spark driver. A table parameter of Hive may set the thresholds of its table
(docs/how-to/compact-a-table.md); by default, 10 deltas or 10 % of the base are due. Then the run
cleans these tables. If nothing is due, it ends without Spark. To see what a run would do, trigger
the DAG with `plan_only`.

Needs the connections `hive_acid_default` and `spark_default`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import (
    DAG,
    CronTriggerTimetable,
    ExceptionRetryPolicy,
    Param,
    RetryAction,
    RetryRule,
    TriggerRule,
)
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_hiveacid.operators import (
    HiveAcidCleanTablesOperator,
    HiveAcidCompactTablesOperator,
    hive_acid_retry_policy,
)

# A retry after a time-out would use up the rest of the night, and the tables would not be cleaned.
RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=AirflowTaskTimeout, action=RetryAction.FAIL, reason="the night is over"
        ),
        *hive_acid_retry_policy().rules,
    ]
)
TABLES = "{{ params.tables | join(', ') }}"
PLAN_ONLY = "{{ params.plan_only }}"

with DAG(
    "compact_warehouse",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 1 * * *", timezone="Europe/Zurich"),
    catchup=False,
    max_active_runs=1,
    # Compactions work on the tables as they are now, so a backfill of earlier nights does nothing.
    allowed_run_types=["scheduled", "manual"],
    params={
        "tables": Param(
            ["sales.*"],
            type="array",
            items={"type": "string"},
            minItems=1,
            description="Names or patterns, such as sales.* or demo.orders",
        ),
        "max_bytes": Param(
            1024**4, type="integer", minimum=1, description="The most bytes that a night reads"
        ),
        "retention_hours": Param(
            0, type="number", minimum=0, description="How long replaced files are kept"
        ),
        "plan_only": Param(default=False, type="boolean"),
    },
    # Retries end here, too.
    dagrun_timeout=timedelta(hours=5),
    default_args={
        "owner": "data-platform",
        "retries": 3,
        "retry_policy": RETRY_POLICY,
    },
    tags=["hive-acid", "example"],
):
    compact = HiveAcidCompactTablesOperator(
        task_id="compact",
        tables=TABLES,
        max_bytes="{{ params.max_bytes }}",
        plan_only=PLAN_ONLY,
        # The time-out ends the work before the day begins. Each partition has its own transaction:
        # partitions that are committed stay compacted, and the next night compacts the others.
        execution_timeout=timedelta(hours=4),
    )
    clean = HiveAcidCleanTablesOperator(
        task_id="clean",
        tables=TABLES,
        retention_s="{{ params.retention_hours * 3600 }}",
        plan_only=PLAN_ONLY,
        # What this task has removed stays removed; the next night removes the rest.
        execution_timeout=timedelta(hours=1),
        trigger_rule=TriggerRule.ALL_DONE,
    )
    compact >> clean
    # One table that cannot be compacted must not keep the others from being cleaned. The last task
    # lets the run fail nevertheless.
    [compact, clean] >> EmptyOperator(task_id="both_succeeded")

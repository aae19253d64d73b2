"""Compact all tables of a warehouse at night, then remove files that no reader needs any more.

The run begins at one o'clock, except on black-out days. Its compactions end at five. It plans the
partitions of all matching tables, and compacts those that are due: in the task's process, or with
one Spark driver if there is much to read. A table parameter of Hive may set the thresholds of its
table (docs/how-to/compact-a-table.md); by default, 10 deltas or 10 % of the base are due. Then the
run cleans these tables. To see what a run would do, trigger the DAG with `plan_only`.

Needs the connections `hive_acid_default` and `spark_default`.
"""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TriggerRule, get_current_context, task
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_hiveacid.operators import (
    HiveAcidCleanTablesOperator,
    HiveAcidCompactTablesOperator,
    hive_acid_retry_policy,
)

ZONE = "Europe/Zurich"
TABLES = "{{ params.tables | join(', ') }}"
PLAN_ONLY = "{{ params.plan_only }}"

with DAG(
    "compact_warehouse",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 1 * * *", timezone=ZONE),
    catchup=False,
    max_active_runs=1,
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
        "until": Param(
            f"05:00 {ZONE}", type="string", description="When the compactions of a night end"
        ),
        "blackout_days": Param(
            [], type="array", items={"type": "string", "format": "date"}, description="Do nothing"
        ),
        "retention_hours": Param(
            0, type="number", minimum=0, description="How long replaced files are kept"
        ),
        "plan_only": Param(default=False, type="boolean"),
    },
    # The cleaning and its retries end here.
    dagrun_timeout=timedelta(hours=5),
    default_args={
        "owner": "data-platform",
        "retries": 3,
        "retry_policy": hive_acid_retry_policy(),
    },
    tags=["hive-acid", "example"],
) as dag:
    # Compactions work on the tables as they are now, so a backfill of earlier nights does nothing.
    dag.allowed_run_types = ["scheduled", "manual"]  # as an argument only since Airflow 3.2

    @task.short_circuit
    def is_open() -> bool:
        """Skip the run if it begins on a black-out day."""
        context = get_current_context()
        day = context["dag_run"].run_after.astimezone(ZoneInfo(ZONE)).date()
        return day.isoformat() not in context["params"]["blackout_days"]

    compact = HiveAcidCompactTablesOperator(
        task_id="compact",
        tables=TABLES,
        max_bytes="{{ params.max_bytes }}",
        plan_only=PLAN_ONLY,
        # Each partition has its own transaction: partitions that are committed stay compacted, and
        # the next night compacts the others.
        until="{{ params.until }}",
        at_end="stop",
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
    is_open() >> compact >> clean
    # One table that cannot be compacted must not keep the others from being cleaned. The last task
    # lets the run fail nevertheless.
    [compact, clean] >> EmptyOperator(task_id="both_succeeded")

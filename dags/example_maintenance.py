"""An example of the documentation: compact a table at night, and rewrite it only after approval.

The run begins at one o'clock, compacts deltas, and plans a major compaction. Then a person approves
or rejects that plan in Airflow. If no person answers within two hours, the run only cleans the
table.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_hiveacid.operators import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    hive_acid_retry_policy,
)

TABLE = "{{ params.table }}"

with DAG(
    "maintain_orders",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 1 * * *", timezone="Europe/Zurich"),
    catchup=False,
    max_active_runs=1,
    params={
        "table": Param("demo.orders", type="string", pattern=r"^\w+\.\w+$"),
        "keep_days": Param(1, type="integer", minimum=0, maximum=30),
    },
    # The triggerer sends this e-mail if the run is not finished at five o'clock.
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=4),
        callback=AsyncCallback(
            SmtpNotifier,
            kwargs={
                "to": "data-platform@example.com",
                "subject": "The nightly compaction is late",
                "html_content": "Its DAG is maintain_orders.",
            },
        ),
    ),
    default_args={
        "owner": "data-platform",
        # The pool limits the Spark jobs of all DAGs that use it.
        "pool": "hive_acid",
        "retries": 3,
        "retry_policy": hive_acid_retry_policy(),
    },
    tags=["hive-acid", "example"],
) as dag:
    # A compaction works on the table as it is now, so a backfill of earlier nights does nothing.
    dag.allowed_run_types = ["scheduled", "manual"]  # as an argument only since Airflow 3.2
    minor = HiveAcidCompactOperator(task_id="minor", table=TABLE, choice="minor")
    plan = HiveAcidCompactOperator(task_id="plan", table=TABLE, choice="major", plan_only=True)
    approve = ApprovalOperator(
        task_id="approve",
        subject="Rewrite {{ params.table }}?",
        body="""
{% for one in ti.xcom_pull("plan")["details"]["compactions"] -%}
* {{ one["partition"] or "the table" }}: {{ one["kind"] }}, {{ one["why"] }}
{% endfor %}
""",
        defaults="Reject",
        response_timeout=timedelta(hours=2),
    )
    major = HiveAcidCompactOperator(task_id="major", table=TABLE, choice="major")
    clean = HiveAcidCleanOperator(
        task_id="clean",
        table=TABLE,
        retention_s="{{ params.keep_days * 86_400 }}",
        trigger_rule="none_failed",
    )
    minor >> plan >> approve >> major >> clean

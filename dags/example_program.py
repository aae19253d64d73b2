"""An example of the documentation: a user's own PySpark program, which runs in one transaction."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidPySparkOperator

with DAG(
    "merge_orders",
    schedule=None,
    doc_md=__doc__,
    default_args={"owner": "data-platform"},
    tags=["hive-acid", "example"],
):
    HiveAcidPySparkOperator(
        task_id="merge",
        application="merge_orders.py",
        application_args=["{{ dag_run.run_after | ds }}"],
        reads=["demo.orders"],
        changes=["demo.customers"],
        inserts=["demo.audit"],
    )

"""An example of the README: a PySpark program of one's own, as one transaction."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator

with DAG("merge_orders", schedule=None):
    HiveAcidPySparkOperator(
        task_id="merge",
        application="merge_orders.py",
        application_args=["{{ ds }}"],
        reads=["demo.orders"],
        changes=["demo.customers"],
        inserts=["demo.audit"],
    )

"""The example of the README: update the customers that are there, insert those that are not."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.operators.hive_acid import HiveAcidMergeOperator

with DAG("merge_customers", schedule=None):
    HiveAcidMergeOperator(
        task_id="merge",
        table="demo.customers",
        source={"columns": ["id", "name"], "values": [[1, "Ada"], [2, "Grace"]]},
        keys=["id"],
        clauses=[
            {"when": "matched", "action": "update"},
            {"when": "not_matched", "action": "insert"},
        ],
    )

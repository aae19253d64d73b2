"""An example of the documentation: create a table, and merge two customers into it."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.assets import hive_asset
from airflow_hiveacid.operators import HiveAcidCreateTableOperator, HiveAcidMergeOperator

with DAG(
    "merge_customers",
    schedule=None,
    doc_md=__doc__,
    default_args={"owner": "data-platform"},
    tags=["hive-acid", "example"],
):
    create = HiveAcidCreateTableOperator(
        task_id="create",
        table="demo.customers",
        columns={"id": "bigint", "name": "string"},
        create_database=True,
    )
    merge = HiveAcidMergeOperator(
        task_id="merge",
        table="demo.customers",
        source={"columns": ["id", "name"], "values": [[1, "Ada"], [2, "Grace"]]},
        keys=["id"],
        clauses=[
            {"when": "matched", "action": "update"},
            {"when": "not_matched", "action": "insert"},
        ],
        outlets=[hive_asset("demo.customers")],
    )
    create >> merge

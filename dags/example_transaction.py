"""An example of the documentation: two tables that change together or not at all."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidTransactionOperator

with DAG(
    "settle_orders",
    schedule=None,
    doc_md=__doc__,
    default_args={"owner": "data-platform"},
    tags=["hive-acid", "example"],
):
    HiveAcidTransactionOperator(
        task_id="settle",
        statements=[
            {
                "merge": {
                    "table": "demo.customers",
                    "source": {"table": "demo.arrivals"},
                    "keys": ["id"],
                    "clauses": [
                        {"when": "matched", "action": "update"},
                        {"when": "not_matched", "action": "insert"},
                    ],
                }
            },
            "DELETE FROM demo.arrivals WHERE id IN (SELECT c.id FROM demo.customers c)",
        ],
    )

"""An example of the documentation: change a table with statements in Hive's SQL."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.assets import hive_asset
from airflow_hiveacid.operators import HiveAcidSqlOperator

with DAG(
    "change_customers",
    schedule=None,
    doc_md=__doc__,
    default_args={"owner": "data-platform"},
    tags=["hive-acid", "example"],
):
    HiveAcidSqlOperator(
        task_id="change",
        sql="""
            MERGE INTO demo.customers AS c
            USING (SELECT id, upper(name) AS name FROM demo.customers WHERE id <= 2) AS n
            ON c.id = n.id
            WHEN MATCHED THEN UPDATE SET name = concat(n.name, :tail)
            WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.name);

            DELETE FROM demo.customers WHERE name LIKE 'GRACE%';
        """,
        parameters={"tail": " {{ dag_run.run_after | ds }}"},
        outlets=[hive_asset("demo.customers")],
    )

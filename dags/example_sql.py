"""The third example of the README: the same table, changed by statements in Hive's SQL."""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from airflow_hiveacid.operators.sql import HiveAcidSqlOperator

with DAG("merge_customers_sql", schedule=None):
    HiveAcidSqlOperator(
        task_id="merge",
        database="demo",
        sql="""
            MERGE INTO customers c
            USING (SELECT id, upper(name) AS name FROM customers WHERE id <= 2) n
            ON c.id = n.id
            WHEN MATCHED THEN UPDATE SET name = concat(n.name, '!')
            WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.name);

            DELETE FROM customers WHERE name LIKE 'GRACE%' AND id < {{ 1 + 2 }};
        """,
        outlets=[Asset("demo.customers")],
    )

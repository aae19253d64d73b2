"""The tables that the example DAGs expect, which a user of the examples has already."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.assets import partitions_asset
from airflow_hiveacid.operators import HiveAcidSqlOperator

with DAG("fill_orders", schedule=None):
    HiveAcidSqlOperator(
        task_id="create",
        database="demo",
        sql="""
            CREATE TABLE orders (id bigint, customer bigint, amount bigint)
                PARTITIONED BY (day date);
            CREATE TABLE daily_sums (customer bigint, amount bigint) PARTITIONED BY (day date);
            CREATE TABLE arrivals (id bigint, name string);
            CREATE TABLE audit (
                day string, new_customers bigint, old_customers bigint, rich bigint
            );
        """,
    ) >> HiveAcidSqlOperator(
        task_id="fill",
        database="demo",
        sql="""
            INSERT INTO arrivals VALUES (1, 'Ada Lovelace'), (3, 'Barbara');
            INSERT INTO orders PARTITION (day)
                VALUES (1, 1, 900, DATE '2026-11-01'), (2, 3, 1200, :today);
        """,
        parameters={"today": {"type": "date", "value": "{{ dag_run.run_after | ds }}"}},
        outlets=[partitions_asset("demo.orders")],
    )

with DAG("add_totals", schedule=None):
    HiveAcidSqlOperator(
        task_id="add",
        sql="""
            ALTER TABLE demo.customers ADD COLUMNS (total bigint);
            UPDATE demo.customers SET total = 0;
        """,
    )

# Each update adds a delta and a delete delta, so each partition reaches 10.
with DAG("add_order_deltas", schedule=None):
    HiveAcidSqlOperator(
        task_id="update",
        sql="UPDATE demo.orders SET amount = amount;" * 5,
        outlets=[partitions_asset("demo.orders")],
    )
with DAG("add_deltas", schedule=None):
    HiveAcidSqlOperator(task_id="update", sql="UPDATE demo.customers SET total = total;" * 5)
with DAG("add_flight_deltas", schedule=None):
    HiveAcidSqlOperator(task_id="update", sql="UPDATE demo.flights SET distance = distance;" * 5)
# Deltas without deletes: a minor compaction of both kinds would become a major one.
with DAG("add_orders", schedule=None):
    HiveAcidSqlOperator(
        task_id="insert",
        sql="INSERT INTO demo.orders PARTITION (day) VALUES (9, 9, 9, DATE '2026-11-02');" * 3,
    )
with DAG("fill_sales", schedule=None):
    HiveAcidSqlOperator(
        task_id="fill",
        sql="""
            CREATE DATABASE IF NOT EXISTS sales;
            CREATE TABLE IF NOT EXISTS sales.items (id bigint, amount bigint);
            CREATE TABLE IF NOT EXISTS sales.refunds (id bigint, amount bigint)
                PARTITIONED BY (day date);
            INSERT INTO sales.items VALUES (1, 900), (2, 1200);
            INSERT INTO sales.refunds PARTITION (day) VALUES (1, 9, DATE '2026-11-01');
        """
        + "UPDATE sales.items SET amount = amount;" * 5,
    )
with DAG("create_clicks", schedule=None):
    HiveAcidSqlOperator(task_id="create", sql="CREATE TABLE demo.clicks (id bigint, page string);")

"""Count the flights of each carrier in `demo.flights` into `demo.carriers`, in Hive's SQL.

Trigger the DAG after days have been merged:

    airflow dags trigger flights_carriers

The first run creates the table. Each run replaces the rows of the previous run atomically. Readers
of both tables are not interrupted, and merges and compactions of `demo.flights` may run at the same
time.

Needs the connections `hive_acid_default` and `spark_default`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidSqlOperator

with DAG(
    "flights_carriers",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["hive-acid", "demo"],
):
    HiveAcidSqlOperator(
        task_id="count",
        database="demo",
        sql="""
            CREATE TABLE IF NOT EXISTS carriers (
                carrier string COMMENT 'its code of two letters',
                flights bigint,
                flown bigint COMMENT 'of these, until now',
                late bigint COMMENT 'of these, by more than a quarter of an hour'
            );

            INSERT OVERWRITE TABLE carriers
            SELECT f.carrier, count(*), count(f.dep_time),
                sum(CASE WHEN f.dep_delay > 15 THEN 1 ELSE 0 END)
            FROM flights f
            GROUP BY f.carrier;
        """,
    )

"""An example of the README: after each change, compact what is due, and clean.

The sensor answers with the partitions that have reached a threshold; below it the run is skipped.
Each of them is compacted by a task of its own; the cleaning then removes what they replaced.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from airflow_hiveacid.operators.hive_acid import HiveAcidCleanOperator, HiveAcidCompactOperator
from airflow_hiveacid.operators.retries import hive_acid_retry_policy
from airflow_hiveacid.sensors.hive_acid import HiveAcidCompactionNeededSensor

with DAG(
    "compact_customers",
    schedule=[Asset("demo.customers")],
    max_active_runs=1,
    default_args={"retries": 3, "retry_policy": hive_acid_retry_policy()},
):
    needed = HiveAcidCompactionNeededSensor(
        task_id="needed",
        table="demo.customers",
        delta_count=10,
        delta_ratio=0.1,
        timeout=0,
        soft_fail=True,
    )
    compact = HiveAcidCompactOperator.partial(task_id="compact", table="demo.customers").expand(
        partition=needed.output.map(lambda found: found["partition"])
    )
    clean = HiveAcidCleanOperator(task_id="clean", table="demo.customers")
    compact >> clean

"""An example of the documentation: after each change of a table, compact and clean it if necessary.

The sensor returns the partitions that have reached a threshold; if there are none, the run is
skipped. A separate task compacts each of these partitions; the cleaning then removes obsolete
files.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from airflow_hiveacid.operators import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    hive_acid_retry_policy,
)
from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor

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

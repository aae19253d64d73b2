"""An example of the documentation: compact and clean a table as soon as it needs compaction.

The triggerer polls the metastore once a minute. Airflow starts a run when a partition has 10
deltas, or when its deltas reach 10 % of its base's size, unless the table sets other thresholds.
Writes of Hive, Trino and Spark count, too.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.assets import compaction_asset
from airflow_hiveacid.operators import (
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    hive_acid_retry_policy,
)

with DAG(
    "compact_customers",
    schedule=[compaction_asset("demo.customers")],
    max_active_runs=1,
    doc_md=__doc__,
    default_args={
        "owner": "data-platform",
        "retries": 3,
        "retry_policy": hive_acid_retry_policy(),
    },
    tags=["hive-acid", "example"],
):
    compact = HiveAcidCompactOperator(task_id="compact", table="demo.customers")
    clean = HiveAcidCleanOperator(task_id="clean", table="demo.customers")
    compact >> clean

"""An example of the documentation: start one run for each partition that a task has changed.

The DAG that changes the table lists `partitions_asset("demo.orders")` in its task's `outlets`. Each
changed partition is then the key of an event, and Airflow starts a run with that key. Events have
keys since Airflow 3.3; below, this file defines no DAG.
"""

from __future__ import annotations

from airflow import __version__
from airflow.sdk import DAG
from packaging.version import Version

from airflow_hiveacid.assets import partitions_asset
from airflow_hiveacid.operators import HiveAcidCompactOperator

if Version(__version__) >= Version("3.3"):
    from airflow.sdk import PartitionedAssetTimetable

    with DAG(
        "compact_changed_partitions",
        schedule=PartitionedAssetTimetable(assets=partitions_asset("demo.orders")),
        max_active_runs=2,
        doc_md=__doc__,
        default_args={"owner": "data-platform"},
        tags=["hive-acid", "example"],
    ):
        # The key is '*' if the table is not partitioned, or if a task changed over 100 partitions.
        HiveAcidCompactOperator(
            task_id="compact",
            table="demo.orders",
            partition="{{ '' if dag_run.partition_key == '*' else dag_run.partition_key }}",
        )

"""An example of the documentation: a change feed, which delivers changes range by range.

The Airflow variable `feeds` is the URI of a folder, in which the feed creates its own folder.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidChangeFeedOperator

with DAG(
    "orders_feed",
    schedule=None,
    max_active_runs=1,
    doc_md=__doc__,
    default_args={"owner": "data-platform"},
    tags=["hive-acid", "example"],
):
    HiveAcidChangeFeedOperator(
        task_id="changes",
        table="demo.orders",
        location="{{ var.value.feeds }}/orders",
        keys=["id"],
        net=True,
    )

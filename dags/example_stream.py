"""An example of the documentation: a stream of files into a table, by a loop on the worker."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidStreamOperator

with DAG(
    "stream_clicks",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    doc_md=__doc__,
    default_args={"owner": "data-platform"},
    tags=["hive-acid", "example"],
):
    HiveAcidStreamOperator(
        task_id="stream",
        batches="clicks.batches",
        stream="clicks from files",
        inserts=["demo.clicks"],
        run_for="55 minutes",
    )

"""Jobs on a simulated YARN: tasks that wait in the triggerer, and one that waits in a worker."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidDeleteOperator


def _delete(name: str, *, deferrable: bool) -> HiveAcidDeleteOperator:
    return HiveAcidDeleteOperator(
        task_id=name,
        table=f"kills.{name}",
        where="id = 1",
        engine="spark",
        deferrable=deferrable,
        retries=3,
        retry_delay=timedelta(seconds=1),
    )


with DAG("three", schedule=None):
    for number in (1, 2, 3):
        _delete(f"deferred_{number}", deferrable=True)

with DAG("one", schedule=None):
    _delete("deferred", deferrable=True)

with DAG("waiting", schedule=None):
    _delete("waiting", deferrable=False)

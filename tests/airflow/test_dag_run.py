"""Whole DAG runs in Airflow's own task runner: templates, XCom, outlets, deferral, retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.models.dagrun import DagRun

    from airflow_support import FakeSpark, Warehouse

_DAG = """
from datetime import timedelta
from airflow.sdk import DAG, Asset
from airflow_hiveacid.operators.hive_acid import HiveAcidCompactOperator, HiveAcidDeleteOperator
from airflow_hiveacid.sensors.hive_acid import HiveAcidCompactionNeededSensor

with DAG("{dag_id}", schedule=None):
    delete = HiveAcidDeleteOperator(
        task_id="delete", table="{table}", where="day = '{{{{ run_id }}}}'",
        spark_bin_dir="{bin_dir}", outlets=[Asset(name="{dag_id}", uri="hive://hms:10000/db/{dag_id}")],
        retries=1, retry_delay=timedelta(0),
    )
    due = HiveAcidCompactionNeededSensor(
        task_id="due", table="{table}", delta_count=1, deferrable=True, poke_interval=1, timeout=60
    )
    compact = HiveAcidCompactOperator.partial(
        task_id="compact", table="{table}", spark_bin_dir="{bin_dir}"
    ).expand(partition=due.output.map(lambda found: found["partition"]))
    delete >> due
"""


def _run(airflow_home: Path, dag_id: str, **parts: str) -> DagRun:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db  # noqa: PLC0415

    file = airflow_home / "dags" / f"{dag_id}.py"
    file.write_text(_DAG.format(dag_id=dag_id, **parts))
    bag = DagBag(dag_folder=str(file), bundle_path=file.parent, bundle_name="dags-folder")
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "dags-folder", None)
    return bag.dags[dag_id].test(run_after=None)


def _states(run: DagRun) -> dict[tuple[str, int], str]:
    return {(ti.task_id, ti.map_index): str(ti.state) for ti in run.get_task_instances()}


def _xcom(run: DagRun, task_id: str, map_index: int = -1) -> Any:  # noqa: ANN401
    ti = run.get_task_instance(task_id, map_index=map_index)
    return ti.xcom_pull(task_ids=task_id, map_indexes=map_index)


@pytest.fixture
def partitioned(warehouse: Warehouse) -> str:
    table = warehouse.table("t", partitioned=True)
    warehouse.delta(table, 1, "month=1")
    warehouse.delta(table, 1, "month=2")
    return str(table.ref)


def test_a_run_returns_results_maps_over_findings_and_emits_the_write_id(
    airflow_home: Path, spark: FakeSpark, partitioned: str
) -> None:
    run = _run(airflow_home, "whole", table=partitioned, bin_dir=str(spark.bin_dir))
    assert set(_states(run).values()) == {"success"}
    assert _xcom(run, "delete")["rows"] == {"inserted": 1, "updated": 2, "deleted": 0}
    assert [f["partition"] for f in _xcom(run, "due")] == ["month=1", "month=2"]
    keys = {call["spec"]["job_key"]: call["spec"]["job"].get("partition") for call in spark.calls}
    assert keys == {
        f"whole/{run.run_id}/delete/-1": None,
        f"whole/{run.run_id}/compact/0": "month=1",
        f"whole/{run.run_id}/compact/1": "month=2",
    }
    assert spark.calls[0]["spec"]["job"]["where"] == f"day = '{run.run_id}'"

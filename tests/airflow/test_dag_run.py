"""Whole DAG runs in Airflow's own task runner: templates, XCom, outlets, deferral, retries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from sqlalchemy import Select, select

from tests.support.airflow_support import Connections, FakeSpark, Warehouse
from tests.support.cluster_tasks import APP
from tests.support.pretended_yarn import ResourceManager

_DAG = """
from datetime import timedelta
from airflow.sdk import DAG, Asset
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
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
        task_id="compact", table="{table}", delta_count=1, engine="auto", spark_bin_dir="{bin_dir}"
    ).expand(partition=due.output.map(lambda found: found["partition"]))
    delete >> due
"""


_NOTHING_DONE = """
from airflow.sdk import DAG, Asset
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator

with DAG("{dag_id}", schedule=None):
    HiveAcidDeleteOperator.partial(
        task_id="mapped", table="db.t", spark_bin_dir="{bin_dir}",
        outlets=[Asset(name="{dag_id}", uri="hive://hms:10000/db/{dag_id}")],
    ).expand(where=["a = 1"])
    HiveAcidDeleteOperator(
        task_id="plain", table="db.t", where="a = 1", spark_bin_dir="{bin_dir}",
        outlets=[Asset(name="{dag_id}", uri="hive://hms:10000/db/{dag_id}")],
    )
"""

_WRONG_TABLE = """
from datetime import timedelta
from airflow.sdk import DAG
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.sensors.hive_acid import HiveAcidCompactionNeededSensor

with DAG("{dag_id}", schedule=None, default_args=dict(retries=2, retry_delay=timedelta(0))):
    for name, more in dict(poke=dict(), reschedule=dict(mode="reschedule"), deferrable=dict(
        deferrable=True
    )).items():
        HiveAcidCompactionNeededSensor(
            task_id=name, table="{table}", soft_fail=True, timeout=60, **more
        )
    HiveAcidCompactionNeededSensor(
        task_id="connection", table="{table}", soft_fail=True, hive_acid_conn_id="nowhere"
    )
    HiveAcidDeleteOperator(task_id="operator", table="db.t", hive_acid_conn_id="nowhere")
"""

_DEFERRED = """
from airflow.sdk import DAG
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator

with DAG("{dag_id}", schedule=None):
    HiveAcidDeleteOperator(
        task_id="one", table="db.t", where="a = 1", spark_bin_dir="{bin_dir}"
    ) >> HiveAcidSqlOperator(
        task_id="two", sql="DELETE FROM db.t WHERE a = 1; DELETE FROM db.t WHERE a = 2",
        spark_bin_dir="{bin_dir}",
    )
"""


def _run(
    airflow_home: Path, dag_id: str, *, source: str = _DAG, fails: bool = False, **parts: str
) -> DagRun:
    """Run a DAG with `airflow dags test`: a process of its own, Airflow's own task runner."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - reads the environment of conftest
    from airflow.utils.session import create_session  # noqa: PLC0415

    (airflow_home / "dags" / f"{dag_id}.py").write_text(source.format(dag_id=dag_id, **parts))
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "test", dag_id],
        check=False,
        capture_output=True,
        text=True,
    )
    assert bool(done.returncode) is fails, done.stdout[-5000:] + done.stderr[-5000:]
    with create_session() as session:
        run = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)).one()
        session.expunge_all()
    return run


def _rows(statement: Select[Any]) -> list[Any]:
    from airflow.utils.session import create_session  # noqa: PLC0415

    with create_session() as session:
        return list(session.execute(statement).all())


def _states(run: DagRun) -> dict[tuple[str, int], str]:
    from airflow.models.taskinstance import TaskInstance as Row  # noqa: PLC0415

    found = _rows(select(Row.task_id, Row.map_index, Row.state).where(Row.run_id == run.run_id))
    return {(task_id, map_index): str(state) for task_id, map_index, state in found}


def _xcom(run: DagRun, task_id: str) -> Any:  # noqa: ANN401
    from airflow.models.xcom import XComModel as Row  # noqa: PLC0415

    ((value,),) = _rows(
        select(Row.value).where(
            Row.run_id == run.run_id, Row.task_id == task_id, Row.key == "return_value"
        )
    )
    return json.loads(value) if isinstance(value, str) else value


def _event_extra(dag_id: str) -> Any:  # noqa: ANN401
    from airflow.models.asset import AssetEvent as Row  # noqa: PLC0415

    ((extra,),) = _rows(select(Row.extra).where(Row.source_dag_id == dag_id))
    return extra


@pytest.fixture
def partitioned(warehouse: Warehouse) -> str:
    table = warehouse.table("t", partitioned=True)
    warehouse.delta(table, 1, "month=1")
    warehouse.delta(table, 1, "month=2")
    return str(table.ref)


@pytest.mark.promise("A8", "A9")
def test_a_dag_run_returns_results_maps_tasks_over_findings_and_emits_the_write_id(
    airflow_home: Path, spark: FakeSpark, partitioned: str
) -> None:
    run = _run(airflow_home, "whole", table=partitioned, bin_dir=str(spark.bin_dir))
    assert set(_states(run).values()) == {"success"}
    extra = _event_extra("whole")
    assert (extra["write_id"], extra["txn_id"], extra["status"]) == (3, 7, "committed")
    assert _xcom(run, "delete")["rows"] == {"inserted": 1, "updated": 2, "deleted": 0}
    assert [f["partition"] for f in _xcom(run, "due")] == ["month=1", "month=2"]
    keys = {call["spec"]["job_key"]: call["spec"]["job"].get("partition") for call in spark.calls}
    assert keys == {
        f"whole/{run.run_id}/delete/-1": None,
        f"whole/{run.run_id}/compact/0": "month=1",
        f"whole/{run.run_id}/compact/1": "month=2",
    }
    assert spark.calls[0]["spec"]["job"]["where"] == f"day = '{run.run_id}'"


def test_with_soft_fail_a_wrong_table_or_connection_still_fails_without_retries(
    airflow_home: Path, warehouse: Warehouse
) -> None:
    run = _run(
        airflow_home,
        "wrong_table",
        source=_WRONG_TABLE,
        fails=True,
        table=f"{warehouse.db}.nowhere",
    )
    names = ("poke", "reschedule", "deferrable", "connection", "operator")
    assert _states(run) == {(name, -1): "failed" for name in names}
    # Two retries were left: the default policy knows that they could not help.
    assert _tries(run) == dict.fromkeys(names, 1)


def _tries(run: DagRun) -> dict[str, int]:
    from airflow.models.taskinstance import TaskInstance as Row  # noqa: PLC0415

    return dict(_rows(select(Row.task_id, Row.try_number).where(Row.run_id == run.run_id)))


def test_a_task_that_changed_nothing_sends_no_asset_event(
    airflow_home: Path,
    connections: Connections,  # noqa: ARG001 - sets the environment
    spark: FakeSpark,
) -> None:
    from airflow.models.asset import AssetEvent as Row  # noqa: PLC0415

    spark.tell(status="nothing_to_do")
    run = _run(airflow_home, "quiet", source=_NOTHING_DONE, bin_dir=str(spark.bin_dir))
    assert set(_states(run).values()) == {"success"}
    assert _rows(select(Row.id).where(Row.source_dag_id == "quiet")) == []


@pytest.mark.usefixtures("on_yarn")
def test_with_default_deferrable_every_driver_in_a_cluster_is_tracked_by_the_triggerer(
    airflow_home: Path, spark: FakeSpark, yarn: ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    run = _run(airflow_home, "deferred", source=_DEFERRED, bin_dir=str(spark.bin_dir))
    assert set(_states(run).values()) == {"success"}
    assert [one["status"] for one in _xcom(run, "two")["statements"]] == ["committed"] * 2
    # The trigger sees that the driver has ended, and then the task does.
    assert yarn.asked == [APP] * 6
    assert len(spark.calls) == 3

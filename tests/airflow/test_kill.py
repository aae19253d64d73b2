from __future__ import annotations

import asyncio
import time

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.ids import AttemptId, TxnId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.locks import LockRequest, TableAccess, components_for
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions import fencing
from airflow_hiveacid.metastore.transactions.fencing import FencingToken
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.submission import kill
from airflow_hiveacid.operators.submission.deferral import DriverNote
from airflow_hiveacid.operators.submission.trigger import ApplicationTrigger
from tests.support.airflow_support import Connections, FakeSpark, Warehouse, context_of, run_task
from tests.support.cluster_tasks import APP, connect_yarn, killed_once
from tests.support.pretended_yarn import RUNNING, ResourceManager

_JOB_KEY = "dag/scheduled__2013-01-02/task/-1"
_EARLIER, _LATER = AttemptId(0, "0" * 12), AttemptId(2, "2" * 12)


def _lock(
    warehouse: Warehouse, table: TableInfo, job_key: str, attempt: AttemptId = _EARLIER
) -> TxnId:
    """What a driver of this job holds while it works."""
    txn_id = warehouse.client.open_txn()
    access = TableAccess(table=table, operations=frozenset({DataOperation.DELETE}))
    warehouse.client.lock(
        LockRequest(
            txn_id=txn_id,
            components=components_for([], [access], MetastoreGeneration.V4),
            agent_info=FencingToken(
                job_key=job_key, attempt=attempt, first_txn_id=txn_id
            ).agent_info,
        )
    )
    return txn_id


def _is_open(warehouse: Warehouse, txn_id: TxnId) -> bool:
    return any(
        t.txn_id == txn_id and t.state is TxnState.OPEN for t in warehouse.client.open_txns_info()
    )


@pytest.mark.promise("A6")
def test_killing_a_task_aborts_only_its_own_transaction(
    spark: FakeSpark, warehouse: Warehouse
) -> None:
    table = warehouse.table("t")
    mine = _lock(warehouse, table, _JOB_KEY)
    other = _lock(warehouse, table, "dag/scheduled__2013-01-02/task/0")
    later = _lock(warehouse, table, _JOB_KEY, _LATER)  # the order to kill may come late
    spark.tell(hangs=True)
    task = HiveAcidDeleteOperator(task_id="task", table=str(table.ref))
    hanging = spark.directory / "hanging.json"
    took_s = killed_once(task, context_of(), hanging.exists)
    assert not _is_open(warehouse, mine)
    assert _is_open(warehouse, other)
    assert _is_open(warehouse, later)
    assert {lock.txn_id for lock in warehouse.client.show_locks(table.ref)} == {other, later}
    # Airflow sends SIGKILL five seconds later.
    assert took_s < 5
    warehouse.client.abort_txn(other)
    warehouse.client.abort_txn(later)


@pytest.mark.promise("A6")
def test_killing_a_deferred_task_aborts_its_transaction_and_kills_its_application(
    warehouse: Warehouse, connections: Connections, yarn: ResourceManager
) -> None:
    connect_yarn(connections, yarn, "cluster")
    yarn.app = dict(RUNNING)
    table = warehouse.table("t")
    mine = _lock(warehouse, table, _JOB_KEY)
    other = _lock(warehouse, table, "dag/scheduled__2013-01-02/task/0")
    note = DriverNote(
        application_id=APP,
        attempt="1-0123456789ab",
        job_key=_JOB_KEY,
        targets=(str(table.ref),),
        result_uri="file:/nowhere/result.json",
        began_s=0,
        since_s=0,
    )
    trigger = ApplicationTrigger(
        note=note.to_json(),
        hive_acid_conn_id="hive_acid_default",
        spark_conn_id="spark_default",
        client={},
        start_timeout_s=60,
        shows_log=True,
    )
    asyncio.run(trigger.on_kill())
    assert not _is_open(warehouse, mine)
    assert _is_open(warehouse, other)
    assert yarn.killed == [APP]
    warehouse.client.abort_txn(other)


@pytest.mark.promise("A6")
@pytest.mark.usefixtures("spark")
def test_the_transaction_is_aborted_even_if_the_driver_cannot_be_killed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("t")
    mine = _lock(warehouse, table, _JOB_KEY)
    task = HiveAcidDeleteOperator(task_id="task", table=str(table.ref))
    run_task(task)

    def stuck(_: object) -> None:
        raise RuntimeError("YARN does not answer")

    monkeypatch.setattr(SparkSubmitHook, "on_kill", stuck)
    with pytest.raises(RuntimeError):
        task.on_kill()
    assert not _is_open(warehouse, mine)


@pytest.mark.usefixtures("spark")
def test_the_driver_is_killed_even_if_the_metastore_does_not_respond(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = HiveAcidDeleteOperator(task_id="task", table=str(warehouse.table("t").ref))
    run_task(task)
    ended: list[object] = []

    def end(_: object) -> None:
        ended.append(task)

    monkeypatch.setattr(SparkSubmitHook, "on_kill", end)
    monkeypatch.setattr(kill, "_ABORT_S", 0.2)
    monkeypatch.setattr(fencing, "abort_job", lambda *_: time.sleep(2) or ())
    task.on_kill()
    assert ended == [task]


@pytest.mark.usefixtures("spark")
def test_killing_a_task_whose_transaction_has_ended_logs_no_error(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    table = warehouse.table("t")
    task = HiveAcidDeleteOperator(task_id="task", table=str(table.ref))
    run_task(task)
    task.on_kill()
    assert caplog.text == ""

"""Operators with a real `spark-submit` of the other environment, against a real metastore."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from airflow_hiveacid.format.errors import TableNotFoundError, UnknownColumnError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator, HiveAcidInsertOperator
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from tests.support.airflow_support import (
    Connections,
    TaskLog,
    Warehouse,
    context_of,
    killed_when,
    napping,
    run_task,
)
from tests.support.short_jvms import ENVIRONMENT
from tests.support.yarn_tasks import ids_of, insertion, wait_for_lock

_SPARK: Final = Path(__file__).resolve().parents[2] / ".venv-spark" / "bin"
_SMALL: Final[dict[str, Any]] = {
    "spark_bin_dir": str(_SPARK),
    "driver_memory": "768m",
    "conf": {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
    },
}


@pytest.fixture
def table(
    warehouse: Warehouse, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TableInfo]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    connections.add("spark_default", "spark", host="local[1]")
    yield warehouse.table("t")
    assert warehouse.client.show_locks() == ()


def _insert(table: TableInfo, *ids: int, **source: Any) -> HiveAcidInsertOperator:  # noqa: ANN401
    return insertion(table.ref, ids, source=source, **_SMALL)


@pytest.mark.promise("A14")
def test_rows_are_inserted_deleted_and_compacted_and_a_retry_repeats_nothing(
    warehouse: Warehouse, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metastore and a local Spark suffice: no HiveServer runs."""
    with monkeypatch.context() as patch:
        log = TaskLog.of_tasks(patch)
        inserted = run_task(_insert(table, 1, 2, 3), context_of("insert"))
    assert len(log.lines) <= 30
    assert "INFO SparkContext" not in "\n".join(log.lines)
    assert "prepare  lock  work  publish  commit" in log.lines[-2]
    assert inserted["status"] == "committed"
    assert inserted["rows"]["inserted"] == 3
    assert inserted["write_ids"] == {str(table.ref): 1}
    assert inserted["spark_app_id"].startswith("local-")
    assert ids_of(warehouse.client, table) == [1, 2, 3]

    # The same task again, as a retry after a lost answer: done already, and it says so.
    again = run_task(_insert(table, 1, 2, 3), context_of("insert", try_number=2))
    assert (again["status"], again["rows"]) == ("already_done", inserted["rows"])
    assert ids_of(warehouse.client, table) == [1, 2, 3]

    delete = HiveAcidDeleteOperator(
        task_id="delete", table=str(table.ref), where="id = {{ 1 + 1 }}", **_SMALL
    )
    assert run_task(delete, context_of("delete"))["rows"]["deleted"] == 1
    assert ids_of(warehouse.client, table) == [1, 3]

    compact = HiveAcidCompactOperator(
        task_id="compact", table=str(table.ref), choice="major", **_SMALL
    )
    assert run_task(compact, context_of("compact"))["status"] == "committed"
    assert ids_of(warehouse.client, table) == [1, 3]


@pytest.mark.long
def test_a_retry_of_several_statements_skips_the_committed_ones(
    warehouse: Warehouse, table: TableInfo
) -> None:
    def task(condition: str) -> HiveAcidSqlOperator:
        text = f"INSERT INTO t VALUES (1), (2), (3); DELETE FROM t WHERE {condition}"
        return HiveAcidSqlOperator(task_id="change", sql=text, database=warehouse.db, **_SMALL)

    with pytest.raises(UnknownColumnError, match="idd"):
        run_task(task("idd = 2"), context_of("change"))
    assert ids_of(warehouse.client, table) == [1, 2, 3]
    again = run_task(
        task("id IN (SELECT x.id FROM t x) AND id = 2"), context_of("change", try_number=2)
    )
    assert [one["status"] for one in again["statements"]] == ["already_done", "committed"]
    assert ids_of(warehouse.client, table) == [1, 3]


def test_the_task_raises_the_typed_error_of_its_driver(
    warehouse: Warehouse, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT", "False")
    task = HiveAcidDeleteOperator(task_id="delete", table=f"{warehouse.db}.nowhere", **_SMALL)
    with pytest.raises(TableNotFoundError, match="does not exist in the metastore"):
        run_task(task, context_of("delete"))
    assert ids_of(warehouse.client, table) == []


@pytest.fixture
def napping_allowed(warehouse: Warehouse, connections: Connections) -> None:
    """Texts may call Java: a query takes its time so."""
    connections.metastore(warehouse.uri, allow_unsafe_expressions=True)


def _alive_after(timeout_s: float, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Wait for processes; return those still at work, not those that only wait to be reaped."""
    give_up_s = time.monotonic() + timeout_s
    while alive := [p for p in processes if _is_at_work(p)]:
        if time.monotonic() > give_up_s:
            break
        time.sleep(0.1)
    return alive


def _is_at_work(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.usefixtures("napping_allowed")
@pytest.mark.promise("A7")
def test_the_retry_after_a_killed_worker_applies_the_change_once(
    warehouse: Warehouse, table: TableInfo
) -> None:
    task = _insert(table, 1, query=napping(600))
    shot = os.fork()
    if shot == 0:
        try:
            run_task(task, context_of("insert"))
        finally:
            os._exit(0)
    wait_for_lock(warehouse.client, table.ref)
    orphans = psutil.Process(shot).children(recursive=True)
    os.kill(shot, signal.SIGKILL)
    os.waitpid(shot, 0)
    assert {p.name() for p in orphans if p.is_running()} >= {"java", "python3"}

    again = run_task(_insert(table, 1, query=napping(1)), context_of("insert", try_number=2))
    assert (again["status"], again["rows"]["inserted"]) == ("committed", 1)
    # The first driver lives on, hears that it may not commit, and leaves its work.
    assert _alive_after(400, orphans) == []  # it naps for longer; machines may be busy
    assert ids_of(warehouse.client, table) == [1]


@pytest.mark.usefixtures("napping_allowed")
@pytest.mark.promise("A6")
def test_killing_a_running_task_leaves_no_process_row_or_open_transaction(
    warehouse: Warehouse, table: TableInfo
) -> None:
    task = _insert(table, 1, query=napping(120))
    running: dict[psutil.Process, str] = {}

    def runs() -> None:
        wait_for_lock(warehouse.client, table.ref)
        submit = psutil.Process(task._submitter.process.pid)
        running.update({p: p.name() for p in (submit, *submit.children(recursive=True))})

    killed_when(task, context_of("insert"), runs)
    assert {"java", "python3"} <= set(running.values())
    assert _alive_after(10, running) == []
    assert ids_of(warehouse.client, table) == []
    open_txns = [t for t in warehouse.client.open_txns_info() if t.state is TxnState.OPEN]
    assert open_txns == []

"""Operators on a real YARN, with tables on a real HDFS and a real metastore.

What must hold at exact borders is in test_yarn_tracking.py, with a resource manager that pretends.
`make test` runs the short lives; `make clusters` all of them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid.format.errors import ApplicationNotStartedError, JobFailedError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator
from airflow_hiveacid.operators.yarn_run import YarnRun
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_support import StateStore, Warehouse, context_of, run_task
from contract.stores.mini_hdfs import MiniHdfs
from mini_yarn import NARROW_QUEUE, MiniYarn
from short_jvms import ENVIRONMENT, SHORT_LIVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.local.metastore import LocalMetastore
    from airflow_support import Connections

pytestmark = pytest.mark.server

_SPARK: Final = Path(__file__).resolve().parents[2] / ".venv-spark"
_SMALL: Final[dict[str, Any]] = {
    "spark_bin_dir": str(_SPARK / "bin"),
    "driver_memory": "512m",
    "executor_memory": "512m",
    "executor_cores": 1,
    "num_executors": 1,
}
_DEADLINE_S: Final = 300
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.yarn.am.memory": "256m",
    "spark.yarn.am.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    with MiniHdfs.started(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory, hdfs: MiniHdfs) -> Iterator[MiniYarn]:
    with MiniYarn.started(tmp_path_factory.mktemp("yarn"), hdfs.uri) as server:
        yield server


@pytest.fixture
def warehouse(
    yarn: MiniYarn,
    hdfs: MiniHdfs,
    hive_metastore: LocalMetastore,
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Warehouse]:
    """A database on HDFS, and connections that lead to all of these servers."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    monkeypatch.setenv("HADOOP_USER_NAME", "root")
    for name, value in {**ENVIRONMENT, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        extra={"uris": hive_metastore.uri, "result_dir": f"{hdfs.uri}/results"},
    )
    for mode in ("client", "cluster"):
        connections.add(f"yarn_{mode}", "spark", host="yarn", extra={"deploy-mode": mode})
    db = f"yarn_{uuid.uuid4().hex[:12]}"
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        client.create_database(db, f"{hdfs.uri}/{db}.db")
        yield Warehouse(client=client, uri=hive_metastore.uri, db=db)
        assert client.show_locks() == ()


@pytest.fixture
def table(warehouse: Warehouse) -> TableInfo:
    return warehouse.table("t")


def _rows(warehouse: Warehouse, table: TableInfo) -> list[int]:
    txns = warehouse.client.valid_txns()
    write_ids = warehouse.client.valid_write_ids([table.ref], txns)[table.ref]
    batches = scan(table.location, table.columns, write_ids, txns)
    return sorted(row["id"] for batch in batches for row in batch.to_pylist())


def _insert(table: TableInfo, mode: str, *ids: int, **more: Any) -> HiveAcidInsertOperator:  # noqa: ANN401
    python = str(_SPARK / "bin" / "python")
    jars = next(_SPARK.glob("lib/python3*/site-packages/pyspark/jars"))
    own = {"spark.yarn.jars": f"local:{jars}/*", "spark.pyspark.python": python}
    if mode == "cluster":
        own["spark.driver.extraJavaOptions"] = SHORT_LIVED
    source = {"values": [[i] for i in ids], "columns": ["id"], **more.pop("source", {})}
    return HiveAcidInsertOperator(
        task_id="insert",
        table=str(table.ref),
        conn_id=f"yarn_{mode}",
        source=source,
        conf=_CONF | own | more.pop("conf", {}),
        **_SMALL,
        **more,
    )


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_rows_are_inserted_by_a_driver_on_yarn(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo, mode: str
) -> None:
    store = StateStore()
    query = "SELECT id FROM source DISTRIBUTE BY id"
    done = run_task(
        _insert(table, mode, 1, 2, 3, source={"query": query}),
        context_of("insert", task_state_store=store),
    )
    assert (done["status"], done["rows"]["inserted"]) == ("committed", 3)
    assert _rows(warehouse, table) == [1, 2, 3]
    (app,) = [app for app in yarn.applications() if app["id"] == done["spark_app_id"]]
    assert (app["state"], app["finalStatus"]) == ("FINISHED", "SUCCEEDED")


def _napping(seconds: int) -> str:
    """A query that takes so long in an executor, and then gives the source's rows."""
    nap = f"reflect('java.lang.Thread', 'sleep', {seconds}000L)"
    return f"SELECT id FROM (SELECT id, {nap} AS nap FROM source) WHERE nap = 'null'"


def _wait_for_lock(warehouse: Warehouse, table: TableInfo) -> None:
    """Return when the driver is in the middle of its transaction."""
    deadline = time.monotonic() + _DEADLINE_S
    with warehouse.client.clone() as client:
        while not client.show_locks(table.ref):
            assert time.monotonic() < deadline
            time.sleep(0.2)


def _killed_when(task: HiveAcidInsertOperator, context: dict[str, Any], ready: Any) -> None:  # noqa: ANN401
    """Run a task, and kill it as Airflow does once something has come."""

    def send() -> None:
        try:
            ready()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(JobFailedError, match="the task was killed"):
            run_task(task, context)
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)


def _lost_when(task: HiveAcidInsertOperator, context: dict[str, Any], ready: Any) -> None:  # noqa: ANN401
    """Run a task, and lose its worker once something has come: nothing is said to anybody."""
    is_lost = threading.Event()
    threading.Thread(target=lambda: (ready(), is_lost.set()), daemon=True).start()

    def pause(*_: object) -> None:
        if is_lost.wait(1):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(YarnRun, "_pause", pause)
        with pytest.raises(KeyboardInterrupt):
            run_task(task, context)


@pytest.mark.clusters
def test_a_retry_finds_the_driver_of_a_lost_worker_and_its_kill_ends_it(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """One application: found again, and ended when the retry is killed."""
    store, task = StateStore(), _insert(table, "cluster", 1, source={"query": _napping(600)})
    _lost_when(
        task, context_of("insert", task_state_store=store), lambda: _wait_for_lock(warehouse, table)
    )
    (app,) = [app for app in yarn.applications() if app["state"] == "RUNNING"]
    assert store["spark_job_id"] == app["id"]
    before = len(yarn.applications())
    again = _insert(table, "cluster", 1, source={"query": _napping(600)})
    _killed_when(
        again,
        context_of("insert", try_number=2, task_state_store=store),
        lambda: time.sleep(2),
    )
    assert len(yarn.applications()) == before
    assert yarn.wait_for("KILLED")["id"] == app["id"]
    assert _rows(warehouse, table) == []


@pytest.mark.clusters
def test_what_stands_in_a_queue_is_told_bounded_and_ended(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """A queue without room: once the wait is over, and once the task is killed before."""

    class UntilItQueues:
        silence_s, poll_s = 600.0, 1.0

        @property
        def start_s(self) -> float:
            return 0 if any(app["state"] == "ACCEPTED" for app in yarn.applications()) else 3600

    late = _insert(table, "client", 1, yarn_queue=NARROW_QUEUE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HiveAcidInsertOperator, "_bounds", lambda _: UntilItQueues())
        with pytest.raises(ApplicationNotStartedError, match=rf"queue root\.{NARROW_QUEUE}"):
            run_task(late, context_of("insert"))
    first = yarn.wait_for("KILLED")
    assert first["queue"].endswith(NARROW_QUEUE)
    killed = _insert(table, "cluster", 1, yarn_queue=NARROW_QUEUE)
    _killed_when(killed, context_of("insert"), lambda: yarn.wait_for("ACCEPTED"))
    assert yarn.wait_for("KILLED")["id"] > first["id"]
    assert _rows(warehouse, table) == []


@pytest.mark.clusters
def test_what_yarn_has_forgotten_the_metastore_still_knows(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """The driver commits, its worker is lost, YARN is started anew: the retry writes nothing."""
    store = StateStore()
    done = run_task(_insert(table, "cluster", 1), context_of("insert", task_state_store=store))
    # As it is noted before anybody has read the result; the file itself is gone by now.
    store = StateStore(spark_job_id=done["spark_app_id"])
    yarn.forget()
    again = run_task(
        _insert(table, "cluster", 1), context_of("insert", try_number=2, task_state_store=store)
    )
    assert (again["status"], again["rows"]) == ("already_done", done["rows"])
    assert _rows(warehouse, table) == [1]


@pytest.mark.clusters
def test_a_driver_that_dies_is_not_started_again_by_yarn(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """Killed in the middle of its transaction; YARN would start a second one by itself."""
    store = StateStore()
    task = _insert(
        table, "cluster", 1, conf={"spark.yarn.appMasterEnv.HIVEACID_STOP_AT": "published"}
    )
    with pytest.raises(JobFailedError):
        run_task(task, context_of("insert", task_state_store=store))
    app = yarn.applications()[-1]
    assert (app["id"], app["finalStatus"]) == (store["spark_job_id"], "FAILED")
    attempts = yarn.get(f"apps/{app['id']}/appattempts")["appAttempts"]["appAttempt"]
    assert len(attempts) == 1
    again = run_task(
        _insert(table, "cluster", 1), context_of("insert", try_number=2, task_state_store=store)
    )
    assert again["status"] == "committed"
    assert _rows(warehouse, table) == [1]

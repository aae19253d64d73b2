"""Operators on a real YARN, with tables on a real HDFS and a real metastore.

What must hold at exact borders is in test_yarn_tracking.py, with a resource manager that pretends.
`make test` runs the short lives; `make clusters` all of them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hiveacid.cli.spark_environment import pack
from airflow_hiveacid.format.errors import ApplicationNotStartedError, JobFailedError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator
from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.support.airflow_support import (
    Connections,
    StateStore,
    TaskLog,
    Warehouse,
    beside,
    context_of,
    killed_when,
    napping,
    run_task,
)
from tests.support.cluster_tasks import counting
from tests.support.mini_yarn import NARROW_QUEUE, MiniYarn
from tests.support.s3_lab import KEYS, MotoS3, machine
from tests.support.short_jvms import ENVIRONMENT
from tests.support.yarn_tasks import (
    SPARK,
    environment_in,
    ids_of,
    insert,
    insert_and_delete,
    kill_containers,
    lost_when,
    small,
    wait_for_lock,
    wait_until,
)

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    with MiniHdfs.started(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory, hdfs: MiniHdfs) -> Iterator[MiniYarn]:
    folder = tmp_path_factory.mktemp("yarn")
    with MiniYarn.started(folder, hdfs.uri, variables=KEYS) as server:
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
        extra={
            "uris": hive_metastore.uri,
            "result_dir": f"{hdfs.uri}/results",
            "allow_unsafe_expressions": True,  # a query that takes its time calls Java
        },
    )
    for mode in ("client", "cluster"):
        connections.add(f"yarn_{mode}", "spark", host="yarn", extra={"deploy-mode": mode})
    db = f"yarn_{uuid.uuid4().hex[:12]}"
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        client.create_database(db, f"{hdfs.uri}/{db}.db")
        yield Warehouse(client=client, uri=hive_metastore.uri, db=db)
        assert client.show_locks() == ()


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.long_cases("client")
def test_an_insert_runs_on_yarn_for_a_table_on_hdfs(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo, mode: str
) -> None:
    store = StateStore()
    query = "SELECT id FROM source DISTRIBUTE BY id"
    done = run_task(
        insert(table.ref, mode, 1, 2, 3, source={"query": query}),
        context_of("insert", task_state_store=store),
    )
    assert (done["status"], done["rows"]["inserted"]) == ("committed", 3)
    assert ids_of(warehouse.client, table) == [1, 2, 3]
    (app,) = [app for app in yarn.applications() if app["id"] == done["spark_app_id"]]
    assert (app["state"], app["finalStatus"]) == ("FINISHED", "SUCCEEDED")


@pytest.mark.clusters
def test_killing_a_retry_after_a_lost_worker_ends_the_driver_of_the_first_try(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """One application: found again, and ended when the retry is killed."""
    store, task = StateStore(), insert(table.ref, "cluster", 1, source={"query": napping(600)})
    lost_when(
        task,
        context_of("insert", task_state_store=store),
        lambda: wait_for_lock(warehouse.client, table.ref),
    )
    (app,) = [app for app in yarn.applications() if app["state"] == "RUNNING"]
    assert store["spark_job_id"] == app["id"]
    before = len(yarn.applications())
    again = insert(table.ref, "cluster", 1, source={"query": napping(600)})
    killed_when(
        again,
        context_of("insert", try_number=2, task_state_store=store),
        lambda: time.sleep(2),
    )
    assert len(yarn.applications()) == before
    assert yarn.wait_for("KILLED")["id"] == app["id"]
    assert ids_of(warehouse.client, table) == []


@pytest.mark.clusters
def test_an_application_that_waits_in_a_queue_is_reported_and_killed_after_the_limit(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """A queue without room: once the wait is over, and once the task is killed before."""

    class UntilItQueues:
        silence_s, poll_s = 600.0, 1.0

        @property
        def start_s(self) -> float:
            return 0 if any(app["state"] == "ACCEPTED" for app in yarn.applications()) else 3600

    late = insert(table.ref, "client", 1, yarn_queue=NARROW_QUEUE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HiveAcidInsertOperator, "_bounds", lambda _: UntilItQueues())
        with pytest.raises(ApplicationNotStartedError, match=rf"queue root\.{NARROW_QUEUE}"):
            run_task(late, context_of("insert"))
    first = yarn.wait_for("KILLED")
    assert first["queue"].endswith(NARROW_QUEUE)
    killed = insert(table.ref, "cluster", 1, yarn_queue=NARROW_QUEUE)
    killed_when(killed, context_of("insert"), lambda: yarn.wait_for("ACCEPTED"))
    assert yarn.wait_for("KILLED")["id"] > first["id"]
    assert ids_of(warehouse.client, table) == []


@pytest.mark.clusters
def test_the_retry_finds_its_commit_even_if_yarn_has_forgotten_the_application(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """The driver commits, its worker is lost, YARN is started anew: the retry writes nothing."""
    store = StateStore()
    done = run_task(insert(table.ref, "cluster", 1), context_of("insert", task_state_store=store))
    # As it is noted before anybody has read the result; the file itself is gone by now.
    store = StateStore(spark_job_id=done["spark_app_id"])
    yarn.forget()
    again = run_task(
        insert(table.ref, "cluster", 1), context_of("insert", try_number=2, task_state_store=store)
    )
    assert (again["status"], again["rows"]) == ("already_done", done["rows"])
    assert ids_of(warehouse.client, table) == [1]


@pytest.mark.clusters
def test_yarn_does_not_restart_a_driver_that_died(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of its transaction; YARN would start a second one by itself."""
    store, log = StateStore(), TaskLog.of_tasks(monkeypatch)
    task = insert(
        table.ref, "cluster", 1, conf={"spark.yarn.appMasterEnv.HIVEACID_STOP_AT": "published"}
    )
    with pytest.raises(JobFailedError):
        run_task(task, context_of("insert", task_state_store=store))
    app = yarn.applications()[-1]
    assert (app["id"], app["finalStatus"]) == (store["spark_job_id"], "FAILED")
    attempts = yarn.get(f"apps/{app['id']}/appattempts")["appAttempts"]["appAttempt"]
    assert len(attempts) == 1
    published = [line for line in log.lines if line.endswith("published directories=1")]
    assert len(published) == 1  # the driver's own line, which its node has kept
    again = run_task(
        insert(table.ref, "cluster", 1), context_of("insert", try_number=2, task_state_store=store)
    )
    assert again["status"] == "committed"
    assert ids_of(warehouse.client, table) == [1]


@pytest.mark.clusters
def test_the_tasks_log_has_each_line_of_the_driver_while_the_driver_runs(
    yarn: MiniYarn, table: TableInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, states = TaskLog.of_tasks(monkeypatch), []
    task = HiveAcidPySparkOperator(
        task_id="count",
        application=counting(tmp_path),
        inserts=[str(table.ref)],
        **small("cluster"),
    )

    def watch() -> None:
        wait_until(lambda: "number 0" in log.lines)
        states.append(yarn.applications()[-1]["state"])

    with beside(watch), pytest.raises(JobFailedError, match="no more numbers"):
        run_task(task, context_of("count", task_state_store=StateStore()))
    assert states == ["RUNNING"]
    assert [line for line in log.lines if line.startswith("number ")] == [
        f"number {number}" for number in range(10)
    ]
    assert "::group::Spark driver's last lines (stderr)" in log.lines
    assert "::group::Spark driver's last lines (stdout)" not in log.lines


@pytest.mark.clusters
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_after_the_kill_of_an_executor_each_row_is_written_once(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo, mode: str
) -> None:
    """YARN gives another container, and Spark does the task there again."""
    killed: list[int] = []
    names: list[str] = []

    def kill() -> None:
        wait_for_lock(warehouse.client, table.ref)
        app = yarn.applications()[-1]["id"]
        names.append(app)
        wait_until(lambda: yarn.get(f"apps/{app}")["app"]["runningContainers"] > 1)
        time.sleep(5)  # it is in the query's nap now
        killed.append(kill_containers(yarn, app, driver=False))

    task = insert(table.ref, mode, 1, 2, 3, source={"query": napping(8)})
    with beside(kill):
        done = run_task(task, context_of("insert", task_state_store=StateStore()))
    assert killed[0] > 0
    assert (done["status"], done["rows"]["inserted"]) == ("committed", 3)
    assert names == [done["spark_app_id"]]
    assert ids_of(warehouse.client, table) == [1, 2, 3]


@pytest.mark.clusters
def test_the_retry_after_a_killed_driver_applies_the_change_once(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """Its whole container goes, its Python as well as its JVM."""
    store = StateStore()

    def task() -> HiveAcidInsertOperator:
        return insert(table.ref, "cluster", 1, source={"query": napping(20)})

    def kill() -> None:
        wait_for_lock(warehouse.client, table.ref)
        assert kill_containers(yarn, yarn.applications()[-1]["id"], driver=True) > 0

    with beside(kill), pytest.raises(JobFailedError) as caught:
        run_task(task(), context_of("insert", task_state_store=store))
    assert "left no result" in str(caught.value)
    assert yarn.applications()[-1]["finalStatus"] == "FAILED"
    done = run_task(task(), context_of("insert", try_number=2, task_state_store=store))
    assert done["status"] == "committed"
    assert ids_of(warehouse.client, table) == [1]


@pytest.mark.clusters
def test_killing_a_retry_ends_an_earlier_driver_that_runs_a_later_statement(
    yarn: MiniYarn, warehouse: Warehouse, table: TableInfo
) -> None:
    """Which would commit otherwise, after the task was killed."""
    one = warehouse.table("one")
    # 8 billion rows take minutes. Hive's dialect refuses `reflect`, which `napping` calls.
    words = "explode(split(space(2000), ' '))"
    views = " ".join(f"LATERAL VIEW {words} {view} AS {view}_word" for view in ("a", "b", "c"))
    slow = f"SELECT max(id) FROM {one.ref} {views}"
    run_task(insert(one.ref, "client", 7), context_of("one", task_state_store=StateStore()))
    script = f"DELETE FROM {table.ref} WHERE id = 1; INSERT INTO {table.ref} (id) {slow}"
    store = StateStore()

    def task() -> HiveAcidSqlOperator:
        return HiveAcidSqlOperator(task_id="script", sql=script, engine="spark", **small("cluster"))

    before = len(yarn.applications())

    def second_runs() -> None:
        wait_until(lambda: len(yarn.applications()) == before + 2)
        wait_until(lambda: yarn.applications()[-1]["state"] == "RUNNING")
        wait_for_lock(warehouse.client, table.ref)

    lost_when(task(), context_of("script", task_state_store=store), second_runs)
    second = yarn.applications()[-1]["id"]
    assert store["spark_job_id"] == second

    def first_is_submitted() -> None:
        wait_until(lambda: len(yarn.applications()) == before + 3)

    context = context_of("script", try_number=2, task_state_store=store)
    killed_when(task(), context, first_is_submitted)
    assert yarn.get(f"apps/{second}")["app"]["state"] == "KILLED"
    assert yarn.wait_for("KILLED")["id"] != second
    assert len(yarn.applications()) == before + 3
    assert ids_of(warehouse.client, table) == []
    context = context_of("script", try_number=3, task_state_store=store)
    done = run_task(task(), context)["statements"]
    assert [one["status"] for one in done][-1] == "committed"
    assert ids_of(warehouse.client, table) == [7]


@pytest.mark.clusters
def test_nodes_get_python_libraries_from_the_archive_of_the_spark_environment_command(
    hdfs: MiniHdfs, warehouse: Warehouse, table: TableInfo, tmp_path: Path
) -> None:
    home, archive = environment_in(tmp_path / "environment"), tmp_path / "environment.tar.gz"
    list(pack(str(home), str(archive)))
    fs, path = open_location(f"{hdfs.uri}/apps/{archive.name}")
    write_bytes(fs, path, archive.read_bytes())
    done = run_task(
        insert(
            table.ref,
            "cluster",
            1,
            source={"query": "SELECT id FROM source DISTRIBUTE BY id"},
            archives=f"{hdfs.uri}/apps/{archive.name}#environment",
            conf={"python": False, "spark.pyspark.python": "./environment/bin/python"},
        ),
        context_of("insert", task_state_store=StateStore()),
    )
    assert done["status"] == "committed"
    assert ids_of(warehouse.client, table) == [1]


# ---- where else tables lie -----------------------------------------------------------------------


def _lives(warehouse: Warehouse, mode: str, **conf: str) -> None:
    """Rows by an executor's Python, then a change of what is there, each a driver of its own."""
    table = warehouse.table("t")
    query = "SELECT id FROM source DISTRIBUTE BY id"
    task = insert(table.ref, mode, 1, 2, 3, source={"query": query}, conf=conf)
    insert_and_delete(task, **small(mode, **conf))
    assert ids_of(warehouse.client, table) == [1, 3]


@pytest.mark.clusters
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_insert_and_a_delete_run_on_yarn_for_a_table_on_a_shared_disk(
    warehouse: Warehouse, connections: Connections, tmp_path: Path, mode: str
) -> None:
    """As the one node's own does; on several nodes it has to be one that is mounted on each."""
    extra = {"uris": warehouse.uri, "result_dir": f"file:{tmp_path}/results"}
    connections.add("hive_acid_default", "hive_acid_metastore", extra=extra)
    db = f"{warehouse.db}_disk"
    warehouse.client.create_database(db, f"file:{tmp_path}/{db}.db")
    _lives(Warehouse(client=warehouse.client, uri=warehouse.uri, db=db), mode)


@pytest.mark.clusters
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_insert_and_a_delete_run_on_yarn_for_a_table_on_s3(
    warehouse: Warehouse,
    connections: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """So do results; Spark has S3A's jars, and nodes have keys where AWS's tools look."""
    with (
        MotoS3.beside(SPARK / "bin" / "python", tmp_path / "s3.log") as s3,
        s3.metastore(tmp_path / "metastore") as metastore,
        connect(MetastoreEndpoint(uris=(metastore.uri,))) as client,
    ):
        for name, value in {**s3.environment, **machine()}.items():
            monkeypatch.setenv(name, value)
        extra = {"uris": metastore.uri, "result_dir": f"s3a://{s3.bucket}/results"}
        connections.add("hive_acid_default", "hive_acid_metastore", extra=extra)
        client.create_database(warehouse.db, f"s3a://{s3.bucket}/{warehouse.db}.db")
        lake = Warehouse(client=client, uri=metastore.uri, db=warehouse.db)
        _lives(lake, mode, **s3.spark_settings)
        assert client.show_locks() == ()

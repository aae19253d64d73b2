"""Operators on a Kubernetes whose API server pretends, and whose pods are processes: whole jobs.

Spark itself submits, asks for executors and watches them. What must hold at exact borders is in
test_kubernetes_tracking.py. `make clusters` runs these.
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
from airflow_hiveacid.operators.cluster_run import ClusterRun
from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator
from airflow_hiveacid.operators.kubernetes import LABEL
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_support import StateStore, Warehouse, context_of, killed_when, run_task
from kubelet import NO_IMAGE
from kubernetes_cluster import SPACE, KubernetesCluster
from secret_search import command_lines_with, files_with
from short_jvms import ENVIRONMENT, SHORT_LIVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.local.metastore import LocalMetastore
    from airflow_support import Connections

pytestmark = [pytest.mark.server, pytest.mark.clusters]

_SPARK: Final = Path(__file__).resolve().parents[2] / ".venv-spark"
_DEADLINE_S: Final = 300
_SMALL: Final[dict[str, Any]] = {
    "spark_bin_dir": str(_SPARK / "bin"),
    "driver_memory": "512m",
    "executor_memory": "512m",
    "executor_cores": 1,
    "num_executors": 1,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    (home,) = _SPARK.glob("lib/python3*/site-packages/pyspark")
    folder, python = tmp_path_factory.mktemp("kubernetes"), _SPARK / "bin" / "python"
    with KubernetesCluster.started(folder, home, python) as found:
        yield found


@pytest.fixture
def warehouse(
    cluster: KubernetesCluster,
    hive_metastore: LocalMetastore,
    connections: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Warehouse]:
    """A database on a disk that all pods share, and connections that lead to all of these."""
    for name, value in {**ENVIRONMENT, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        extra={"uris": hive_metastore.uri, "result_dir": f"file:{tmp_path}/results"},
    )
    for mode in ("client", "cluster"):
        extra = {"deploy-mode": mode, "namespace": SPACE}
        host = cluster.master
        connections.add(f"k8s_{mode}", "spark", host=host, extra=extra)
    db = f"kubernetes_{uuid.uuid4().hex[:12]}"
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        client.create_database(db)
        yield Warehouse(client=client, uri=hive_metastore.uri, db=db)
        assert client.show_locks() == ()
    for pod in cluster.pods():
        cluster.server.objects.delete("pods", SPACE, pod["metadata"]["name"])


@pytest.fixture
def table(warehouse: Warehouse) -> TableInfo:
    return warehouse.table("t")


def _rows(warehouse: Warehouse, table: TableInfo) -> list[int]:
    txns = warehouse.client.valid_txns()
    write_ids = warehouse.client.valid_write_ids([table.ref], txns)[table.ref]
    batches = scan(table.location, table.columns, write_ids, txns)
    return sorted(row["id"] for batch in batches for row in batch.to_pylist())


def _insert(
    cluster: KubernetesCluster,
    table: TableInfo,
    mode: str,
    *ids: int,
    **more: Any,  # noqa: ANN401 - of the operator
) -> HiveAcidInsertOperator:
    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        **cluster.settings(),
    }
    if mode == "client":
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        conf |= {"spark.driver.extraJavaOptions": SHORT_LIVED}
    source = {"values": [[i] for i in ids], "columns": ["id"], **more.pop("source", {})}
    return HiveAcidInsertOperator(
        task_id="insert",
        table=str(table.ref),
        conn_id=f"k8s_{mode}",
        source=source,
        conf=conf | more.pop("conf", {}),
        **_SMALL,
        **more,
    )


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_rows_are_inserted_by_pods(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo, tmp_path: Path, mode: str
) -> None:
    """With a token that is exchanged meanwhile, and is found nowhere but in its file."""
    secrets, before = [cluster.renew().encode()], len(cluster.server.objects.events)
    seen: set[str] = set()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.2):
            seen.update(command_lines_with(secrets))
            if mode == "cluster" and cluster.pods("executor") and len(secrets) == 1:
                secrets.append(cluster.renew().encode())

    looking = threading.Thread(target=look)
    looking.start()
    query = "SELECT id FROM source DISTRIBUTE BY id"
    task = _insert(cluster, table, mode, 1, 2, 3, source={"query": query})
    try:
        done = run_task(task, context_of("insert", task_state_store=StateStore()))
    except JobFailedError as error:
        error.add_note(cluster.said())
        raise
    finally:
        is_over.set()
        looking.join()
    assert (done["status"], done["rows"]["inserted"]) == ("committed", 3)
    assert _rows(warehouse, table) == [1, 2, 3]
    labels = [one["metadata"]["labels"] for one in cluster.made(before)]
    roles = ["executor"] if mode == "client" else ["driver", "executor"]
    assert [one["spark-role"] for one in labels] == roles
    assert all(LABEL in one for one in labels)
    if mode == "cluster":
        assert cluster.pods() == []  # what has succeeded is not kept, and owns its executors
        assert list((tmp_path / "results").iterdir()) == []  # nor what was uploaded for it
        assert len(secrets) == 2
    assert seen == set()
    assert files_with(cluster.folder, secrets) == ["token"]
    assert files_with(tmp_path, secrets) == []
    assert not any(secret.decode() in str(cluster.server.objects.events) for secret in secrets)


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


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_retry_finds_the_pod_of_a_lost_worker_and_its_kill_ends_it(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo
) -> None:
    """One pod: found again, and deleted with its executors when the retry is killed."""
    store = StateStore()
    is_lost = threading.Event()
    task = _insert(cluster, table, "cluster", 1, source={"query": _napping(600)})
    ready = threading.Thread(
        target=lambda: (_wait_for_lock(warehouse, table), is_lost.set()), daemon=True
    )
    ready.start()

    def pause(*_: object) -> None:
        if is_lost.wait(1):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterRun, "_pause", pause)
        with pytest.raises(KeyboardInterrupt):
            run_task(task, context_of("insert", task_state_store=store))
    (driver,) = cluster.pods("driver")
    assert store["spark_job_id"] == f"{SPACE}:{driver['metadata']['name']}"
    store.delete("spark_job_id")  # as if the worker had gone before it could note that
    again = _insert(cluster, table, "cluster", 1, source={"query": _napping(600)})
    context = context_of("insert", try_number=2, task_state_store=store)
    killed_when(again, context, lambda: time.sleep(2))
    _until(lambda: cluster.pods() == [])
    _until(lambda: all(one.poll() is not None for one in cluster.kubelet.processes.values()))
    assert _rows(warehouse, table) == []


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_killed_task_leaves_no_pod(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo, mode: str
) -> None:
    task = _insert(cluster, table, mode, 1, source={"query": _napping(600)})
    context = context_of("insert", task_state_store=StateStore())
    killed_when(task, context, lambda: _wait_for_lock(warehouse, table))
    _until(lambda: cluster.pods() == [])
    assert _rows(warehouse, table) == []


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"spark.kubernetes.container.image": NO_IMAGE}, "ImagePullBackOff"),
        ({"spark.kubernetes.node.selector.disk": "ssd"}, "Unschedulable"),
    ],
)
def test_what_is_never_started_is_told_bounded_and_deleted(
    cluster: KubernetesCluster,
    warehouse: Warehouse,
    table: TableInfo,
    conf: dict[str, str],
    words: str,
    mode: str,
) -> None:
    class UntilItWaits:
        silence_s, poll_s = 600.0, 1.0

        @property
        def start_s(self) -> float:
            told = [one["status"] for one in cluster.pods()]
            return 0.0 if any(words in str(status) for status in told) else 3600.0

    task = _insert(cluster, table, mode, 1, conf=conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HiveAcidInsertOperator, "_bounds", lambda _: UntilItWaits())
        with pytest.raises(ApplicationNotStartedError, match=words):
            run_task(task, context_of("insert", task_state_store=StateStore()))
    _until(lambda: cluster.pods() == [])
    assert _rows(warehouse, table) == []


def test_a_driver_that_is_killed_by_its_node_says_so_and_the_retry_writes_once(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo
) -> None:
    """Out of memory in the middle of its transaction, with files already in place."""
    store = StateStore()
    stop = {"spark.kubernetes.driverEnv.HIVEACID_STOP_AT": "published"}
    task = _insert(cluster, table, "cluster", 1, conf=stop)
    with pytest.raises(JobFailedError) as caught:
        run_task(task, context_of("insert", task_state_store=store))
    assert "exit code" in str(caught.value.__cause__)
    (driver,) = cluster.pods("driver")  # it stays, for its log
    assert driver["status"]["phase"] == "Failed"
    again = run_task(
        _insert(cluster, table, "cluster", 1),
        context_of("insert", try_number=2, task_state_store=store),
    )
    assert again["status"] == "committed"
    assert _rows(warehouse, table) == [1]


def test_executors_that_are_killed_are_made_anew(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo
) -> None:
    """The one that runs the task goes in the middle of it; its rows are written once."""
    task = _insert(cluster, table, "cluster", 1, 2, source={"query": _napping(4)})

    def shoot() -> None:
        _wait_for_lock(warehouse, table)
        (pod, *_) = cluster.pods("executor")
        os.killpg(cluster.kubelet.processes[pod["metadata"]["uid"]].pid, signal.SIGKILL)

    shooter = threading.Thread(target=shoot)
    shooter.start()
    try:
        done = run_task(task, context_of("insert", task_state_store=StateStore()))
    finally:
        shooter.join()
    assert done["status"] == "committed"
    assert _rows(warehouse, table) == [1, 2]
    last = cluster.made()[-1]["metadata"]["labels"]
    assert (last["spark-role"], int(last["spark-exec-id"]) > 1) == ("executor", True)

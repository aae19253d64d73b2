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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ApplicationNotStartedError, JobFailedError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator
from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator
from airflow_hiveacid.operators.submission.kubernetes import LABEL
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
from tests.support.kubelet import NO_IMAGE
from tests.support.kubernetes_cluster import SPACE, KubernetesCluster
from tests.support.kubernetes_tasks import connect as connect_kubernetes, insert, small, spark_home
from tests.support.pretended_kubernetes import MissingError
from tests.support.s3_lab import MotoS3, machine
from tests.support.secret_search import command_lines_with, files_with
from tests.support.short_jvms import ENVIRONMENT
from tests.support.yarn_tasks import (
    SPARK,
    ids_of,
    insert_and_delete,
    lost_when,
    wait_for_lock,
    wait_until,
)

pytestmark = [pytest.mark.server, pytest.mark.clusters]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    folder, python = tmp_path_factory.mktemp("kubernetes"), SPARK / "bin" / "python"
    with KubernetesCluster.started(folder, spark_home(), python) as found:
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
        extra={
            "uris": hive_metastore.uri,
            "result_dir": f"file:{tmp_path}/results",
            "allow_unsafe_expressions": True,  # a query that takes its time calls Java
        },
    )
    connect_kubernetes(connections, cluster, SPACE)
    db = f"kubernetes_{uuid.uuid4().hex[:12]}"
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        client.create_database(db)
        yield Warehouse(client=client, uri=hive_metastore.uri, db=db)
        assert client.show_locks() == ()
    for pod in cluster.pods():
        with suppress(MissingError):  # the pod's driver was deleted meanwhile, and the pod with it
            cluster.server.objects.delete("pods", SPACE, pod["metadata"]["name"])


@pytest.mark.clusters
def test_the_tasks_log_has_each_line_of_the_driver_while_its_pod_runs(
    cluster: KubernetesCluster, table: TableInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, phases = TaskLog.of_tasks(monkeypatch), []
    task = HiveAcidPySparkOperator(
        task_id="count",
        application=counting(tmp_path),
        inserts=[str(table.ref)],
        **small(cluster, "cluster"),
    )

    def watch() -> None:
        wait_until(lambda: "number 0" in log.lines)
        phases.append(cluster.pods("driver")[-1]["status"]["phase"])

    with beside(watch), pytest.raises(JobFailedError, match="no more numbers"):
        run_task(task, context_of("count", task_state_store=StateStore()))
    assert phases == ["Running"]
    assert [line for line in log.lines if line.startswith("number ")] == [
        f"number {number}" for number in range(10)
    ]
    assert not any("Spark driver's last lines" in line for line in log.lines)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_insert_runs_in_pods_and_the_api_token_is_only_in_its_file(
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
    task = insert(cluster, table.ref, mode, 1, 2, 3, source={"query": query})
    try:
        done = run_task(task, context_of("insert", task_state_store=StateStore()))
    except JobFailedError as error:
        error.add_note(cluster.said())
        raise
    finally:
        is_over.set()
        looking.join()
    assert (done["status"], done["rows"]["inserted"]) == ("committed", 3)
    assert ids_of(warehouse.client, table) == [1, 2, 3]
    labels = [one["metadata"]["labels"] for one in cluster.made(before)]
    roles = ["executor"] if mode == "client" else ["driver", "executor"]
    assert [one["spark-role"] for one in labels] == roles
    assert all(LABEL in one for one in labels)
    if mode == "cluster":
        assert cluster.pods() == []  # what has succeeded is not kept, and owns its executors
        assert list((tmp_path / "results").iterdir()) == []  # nor what was uploaded for it
        assert len(secrets) == 2
        assert secrets[1].decode() in {shown for _, _, shown in cluster.server.requests}
    assert seen == set()
    assert files_with(cluster.folder, secrets) == ["token"]
    assert files_with(tmp_path, secrets) == []
    assert not any(secret.decode() in str(cluster.server.objects.events) for secret in secrets)


def test_killing_a_retry_after_a_lost_worker_deletes_the_pods_of_the_first_try(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo
) -> None:
    """One pod: found again, and deleted with its executors when the retry is killed."""
    store = StateStore()
    task = insert(cluster, table.ref, "cluster", 1, source={"query": napping(600)})
    lost_when(
        task,
        context_of("insert", task_state_store=store),
        lambda: wait_for_lock(warehouse.client, table.ref),
    )
    (driver,) = cluster.pods("driver")
    assert store["spark_job_id"] == f"{SPACE}:{driver['metadata']['name']}"
    store.delete("spark_job_id")  # as if the worker had gone before it could note that
    again = insert(cluster, table.ref, "cluster", 1, source={"query": napping(600)})
    context = context_of("insert", try_number=2, task_state_store=store)
    killed_when(again, context, lambda: time.sleep(2))
    wait_until(lambda: cluster.pods() == [])
    wait_until(lambda: all(one.poll() is not None for one in cluster.kubelet.processes.values()))
    assert ids_of(warehouse.client, table) == []


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_killed_task_leaves_no_pods(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo, mode: str
) -> None:
    task = insert(cluster, table.ref, mode, 1, source={"query": napping(600)})
    context = context_of("insert", task_state_store=StateStore())
    killed_when(task, context, lambda: wait_for_lock(warehouse.client, table.ref))
    wait_until(lambda: cluster.pods() == [])
    assert ids_of(warehouse.client, table) == []


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"spark.kubernetes.container.image": NO_IMAGE}, "ImagePullBackOff"),
        ({"spark.kubernetes.node.selector.disk": "ssd"}, "Unschedulable"),
    ],
)
def test_pods_that_do_not_start_raise_an_error_with_the_reason_and_are_deleted(
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

    task = insert(cluster, table.ref, mode, 1, conf=conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HiveAcidInsertOperator, "_bounds", lambda _: UntilItWaits())
        with pytest.raises(ApplicationNotStartedError, match=words):
            run_task(task, context_of("insert", task_state_store=StateStore()))
    wait_until(lambda: cluster.pods() == [])
    assert ids_of(warehouse.client, table) == []


def test_a_driver_killed_by_its_node_is_reported_and_the_retry_applies_the_change_once(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo
) -> None:
    """Out of memory in the middle of its transaction, with files already in place."""
    store = StateStore()
    stop = {"spark.kubernetes.driverEnv.HIVEACID_STOP_AT": "published"}
    task = insert(cluster, table.ref, "cluster", 1, conf=stop)
    with pytest.raises(JobFailedError) as caught:
        run_task(task, context_of("insert", task_state_store=store))
    assert "exit code" in str(caught.value)
    (driver,) = cluster.pods("driver")  # it stays, for its log
    assert driver["status"]["phase"] == "Failed"
    again = run_task(
        insert(cluster, table.ref, "cluster", 1),
        context_of("insert", try_number=2, task_state_store=store),
    )
    assert again["status"] == "committed"
    assert ids_of(warehouse.client, table) == [1]


def test_spark_replaces_a_killed_executor_and_each_row_is_written_once(
    cluster: KubernetesCluster, warehouse: Warehouse, table: TableInfo
) -> None:
    """The one that runs the task goes in the middle of it; its rows are written once."""
    task = insert(cluster, table.ref, "cluster", 1, 2, source={"query": napping(4)})

    def shoot() -> None:
        wait_for_lock(warehouse.client, table.ref)
        (pod, *_) = cluster.pods("executor")
        os.killpg(cluster.kubelet.processes[pod["metadata"]["uid"]].pid, signal.SIGKILL)

    with beside(shoot):
        done = run_task(task, context_of("insert", task_state_store=StateStore()))
    assert done["status"] == "committed"
    assert ids_of(warehouse.client, table) == [1, 2]
    last = cluster.made()[-1]["metadata"]["labels"]
    assert (last["spark-role"], int(last["spark-exec-id"]) > 1) == ("executor", True)


# ---- where tables lie ----------------------------------------------------------------------------


def _lives(cluster: KubernetesCluster, warehouse: Warehouse, mode: str, **conf: str) -> None:
    """Rows by an executor's Python, then a change of what is there, each a driver of its own."""
    table = warehouse.table("t")
    query = "SELECT id FROM source DISTRIBUTE BY id"
    task = insert(cluster, table.ref, mode, 1, 2, 3, source={"query": query}, conf=conf)
    try:
        insert_and_delete(task, **small(cluster, mode, **conf))
    except JobFailedError as error:
        error.add_note(cluster.said())
        raise
    assert ids_of(warehouse.client, table) == [1, 3]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_insert_and_a_delete_run_in_pods_for_a_table_on_hdfs(
    cluster: KubernetesCluster,
    warehouse: Warehouse,
    connections: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """Results and uploads lie there, too."""
    monkeypatch.setenv("HADOOP_USER_NAME", "root")
    monkeypatch.setitem(cluster.kubelet.environment, "HADOOP_USER_NAME", "root")
    (tmp_path / "hdfs").mkdir()
    with MiniHdfs.started(tmp_path / "hdfs") as hdfs:
        extra = {"uris": warehouse.uri, "result_dir": f"{hdfs.uri}/results"}
        connections.add("hive_acid_default", "hive_acid_metastore", extra=extra)
        db = f"{warehouse.db}_hdfs"
        warehouse.client.create_database(db, f"{hdfs.uri}/{db}.db")
        _lives(cluster, Warehouse(client=warehouse.client, uri=warehouse.uri, db=db), mode)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_insert_and_a_delete_run_in_pods_for_a_table_on_s3(
    cluster: KubernetesCluster,
    warehouse: Warehouse,
    connections: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """So do results and uploads; the image has S3A's jars, and keys where AWS's tools look."""
    for name, value in machine().items():
        monkeypatch.setitem(cluster.kubelet.environment, name, value)
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
        _lives(cluster, lake, mode, **s3.spark_settings)
        assert client.show_locks() == ()
        assert [key for key in s3.objects() if key.startswith("results/")] == []

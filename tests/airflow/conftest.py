"""A fresh Airflow of its own for these tests.

Airflow reads its home when it is imported, so the home is made here, before any test module is.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from tests.support.airflow_support import Connections, FakeSpark, TaskLog, Warehouse
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import ResourceManager

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.local.server import LocalMetastore

_HOME: Final = Path(tempfile.mkdtemp(prefix="hiveacid-airflow-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": str(_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(_HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    # No server answers at the default connection of most tests.
    "AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}
for _name in [n for n in os.environ if n.startswith("AIRFLOW_CONN_")]:
    del os.environ[_name]


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """The home, with a database in it."""
    from airflow.utils.db import initdb  # noqa: PLC0415 - reads the environment set above

    (_HOME / "dags").mkdir(exist_ok=True)
    initdb()
    return _HOME


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """A metastore that nobody answers for, and a local Spark, which runs every job."""
    made = Connections(monkeypatch=monkeypatch)
    made.metastore()
    made.add("spark_default", "spark", host="local[1]")
    return made


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """A pretending Spark, told to succeed, which every task submits with by default."""
    fake = FakeSpark(directory=tmp_path / "spark")
    fake.install()
    monkeypatch.setenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR", str(fake.bin_dir))
    return fake


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> TaskLog:
    """What tasks write into their logs."""
    return TaskLog.of_tasks(monkeypatch)


@pytest.fixture
def warehouse(hive_metastore: LocalMetastore, connections: Connections) -> Iterator[Warehouse]:
    """A fresh database on a real 4.0.1, to which the default connection leads."""
    connections.metastore(hive_metastore.uri)
    connections.monkeypatch.delenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT")
    db = f"airflow_{uuid.uuid4().hex[:12]}"
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        client.create_database(db)
        yield Warehouse(client=client, uri=hive_metastore.uri, db=db)


@pytest.fixture
def table(warehouse: Warehouse) -> TableInfo:
    """A table without rows."""
    return warehouse.table("t")


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Attempts whose transactions were aborted."""
    found: list[str] = []
    monkeypatch.setattr(
        "airflow_hiveacid.operators.spark_app.abort_attempt",
        lambda spec: found.append(spec.attempt),
    )
    return found


@pytest.fixture
def yarn() -> Iterator[ResourceManager]:
    """A resource manager that pretends."""
    with ResourceManager.started() as server:
        yield server


@pytest.fixture
def on_yarn(
    yarn: ResourceManager, connections: Connections, tmp_path: Path, spark: FakeSpark
) -> Connections:
    """A driver in the cluster of that resource manager."""
    from tests.support.cluster_tasks import APP, connect_yarn, keep_results  # noqa: PLC0415 - imports Airflow

    connect_yarn(connections, yarn, "cluster")
    keep_results(connections, tmp_path)
    spark.tell(says=f"Submitted application {APP}")
    return connections


@pytest.fixture
def api() -> Iterator[KubernetesServer]:
    """An API server of Kubernetes that pretends."""
    with KubernetesServer.started() as server:
        yield server


@pytest.fixture
def on_kubernetes(
    api: KubernetesServer,
    connections: Connections,
    tmp_path: Path,
    spark: FakeSpark,  # noqa: ARG001 - what a task submits with
    monkeypatch: pytest.MonkeyPatch,
) -> Connections:
    """A driver in the cluster of that API server, and nobody's kubeconfig."""
    from tests.support.cluster_tasks import connect_kubernetes, keep_results  # noqa: PLC0415 - imports Airflow

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    connect_kubernetes(connections, api, "cluster")
    keep_results(connections, tmp_path)
    return connections


@pytest.fixture
def submits(api: KubernetesServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What becomes of a driver's pod once `spark-submit` has ended; none is made if it is empty.

    What it uploads lies where it is told.
    """
    from airflow.providers.apache.spark.hooks import spark_submit as provider  # noqa: PLC0415 - as above

    from airflow_hiveacid.operators.submission.kubernetes import LABEL  # noqa: PLC0415 - as above
    from tests.support.cluster_tasks import SUCCEEDED, put_pod  # noqa: PLC0415 - as above

    status: dict[str, Any] = dict(SUCCEEDED)
    submit = provider.SparkSubmitHook.submit

    def submitted(hook: Any, *given: Any, **more: Any) -> Any:  # noqa: ANN401 - the provider's
        answer = submit(hook, *given, **more)
        tag = hook._conf[f"spark.kubernetes.executor.label.{LABEL}"]
        if place := hook._conf.get("spark.kubernetes.file.upload.path"):
            (Path(place.removeprefix("file:")) / "spark-upload-a").mkdir(parents=True)
        if status:
            put_pod(api, tag, **status)
        return answer

    monkeypatch.setattr(provider.SparkSubmitHook, "submit", submitted)
    return status

"""Operators on a real YARN, with tables on a real HDFS and a real metastore.

What must hold at exact borders is in test_yarn_tracking.py, with a resource manager that pretends.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_support import StateStore, Warehouse, context_of, run_task
from contract.stores.mini_hdfs import MiniHdfs
from mini_yarn import MiniYarn

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
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.yarn.am.memory": "256m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
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
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
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

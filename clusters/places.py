"""Where jobs run: one change of a table with each master, at each door, on each store.

What more holds there is in the other areas. A driver is started by `spark-submit` on this machine;
those in the cluster are for operators to start (`kubernetes`, `yarn`).
"""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.storage.acid.read.scan import scan
from clusters.cells import FAILED, RAN, Cell
from clusters.overview import Place
from contract.stores.mini_hdfs import MiniHdfs
from door_cases import CASES
from door_lab import V4, DoorLab, environ
from kubernetes_cluster import KubernetesCluster
from s3_lab import MotoS3, machine
from short_jvms import ENVIRONMENT
from spark_cluster import standalone_cluster
from spark_submit import SPARK_HOME, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_AREA: Final = "Where jobs run"
_DOORS: Final = {
    "Kerberos": "Kerberos by keytab, auth-conf",
    "token": "token, auth-conf",
    "password": "password of LDAP in TLS",
    "JWT": "HTTPS by JWT",
}
_WAIT_S: Final = 240.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spark:
    """A master, and what `spark-submit` is told for it."""

    master: str
    settings: dict[str, str] = field(default_factory=dict)
    said: Callable[[], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """What a place has beside a Spark: a login, a store, and where these are.

    `uri` is where databases go, None to the metastore's own warehouse; `settings` are Spark's.
    """

    login: str
    store: str
    endpoint: MetastoreEndpoint
    uri: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Each place whose name has the words, as a job has run there."""
    for name in ("doors", "hdfs"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        sparks = {
            "local": _Spark(master="local[2]"),
            "standalone, client": stack.enter_context(_standalone(folder)),
            "Kubernetes, client": stack.enter_context(_kubernetes(folder)),
        }
        lab = stack.enter_context(DoorLab(folder / "doors"))
        hdfs = stack.enter_context(MiniHdfs.started(folder / "hdfs"))
        plain = lab.endpoint("plain", V4, None)
        for store, uri in (("disk", None), ("HDFS", hdfs.uri)):
            door = _Door(login="none", store=store, endpoint=plain, uri=uri)
            yield from _tried(folder, sparks, door, only)
        lab.end("plain", V4)
        yield from _on_s3(folder, sparks, only)
        for login, name in _DOORS.items():
            (case,) = [case for case in CASES if case.name == name]
            with environ(lab.environment):
                endpoint = lab.endpoint(case.kind, V4, case.login(lab, V4))
                door = _Door(login=login, store="disk", endpoint=endpoint)
                yield from _tried(folder, sparks, door, only)


def _on_s3(folder: Path, sparks: dict[str, _Spark], only: str) -> Iterator[Cell]:
    with (
        MotoS3.beside(Path(sys.executable), folder / "s3.log") as s3,
        s3.metastore(folder / "metastore-on-s3") as metastore,
        patch.dict(os.environ, s3.environment),
    ):
        door = _Door(
            login="none",
            store="S3",
            endpoint=MetastoreEndpoint(uris=(metastore.uri,)),
            settings=s3.spark_settings,
        )
        yield from _tried(folder, sparks, door, only)


def _tried(folder: Path, sparks: dict[str, _Spark], door: _Door, only: str) -> Iterator[Cell]:
    for name, spark in sparks.items():
        place = Place(name, door.login, door.store)
        combination = "; ".join((place.spark, f"login: {place.login}", place.store))
        if only not in combination:
            continue
        outcome, note = RAN, ""
        try:
            _insert(folder / "jobs", spark, door)
        except Exception as error:  # noqa: BLE001 - it is told in the table
            outcome, note = FAILED, f"{type(error).__name__}: {str(error)[-600:]}"
        yield Cell(
            area=_AREA,
            combination=combination,
            version=V4,
            outcome=outcome,
            note=note,
            place=place,
        )


def _insert(folder: Path, spark: _Spark, door: _Door) -> None:
    """Rows go through executors into a new table, and come back by its metastore and files."""
    db = f"places_{os.getpid()}_{next(_numbers)}"
    ref = TableRef(db, "t")
    query = "SELECT id FROM source DISTRIBUTE BY id"
    source = SourceSpec(values=((1,), (2,), (3,)), columns=("id",), query=query)
    with connect(door.endpoint) as client:
        client.create_database(db, None if door.uri is None else f"{door.uri}/{db}.db")
        columns = (Column(name="id", type="bigint"),)
        table = client.create_table(NewTable(ref=ref, columns=columns))
        done = submit(
            folder,
            door.endpoint,
            InsertSpec(target=str(ref), source=source),
            job_key=db,
            master=spark.master,
            settings={**spark.settings, **door.settings},
            environment=machine(),
            start_timeout_s=_WAIT_S,
        )
        if done.code or done.result is None or done.result.status is not JobStatus.COMMITTED:
            raise AssertionError(f"{done.log[-3000:]}\n{spark.said()}")
        txns = client.valid_txns()
        write_ids = client.valid_write_ids([ref], txns)[ref]
        batches = scan(table.location, table.columns, write_ids, txns)
        rows = sorted(row["id"] for batch in batches for row in batch.to_pylist())
        if rows != [1, 2, 3]:
            raise AssertionError(f"{rows} came back")


@contextmanager
def _standalone(folder: Path) -> Iterator[_Spark]:
    work = folder / "standalone"
    work.mkdir()
    environment = {
        **os.environ,
        **ENVIRONMENT,
        **machine(),
        "PYSPARK_PYTHON": sys.executable,
    }
    with standalone_cluster(SPARK_HOME, work, environment) as url:
        yield _Spark(master=url)


@contextmanager
def _kubernetes(folder: Path) -> Iterator[_Spark]:
    python = Path(sys.executable)
    with KubernetesCluster.started(folder / "kubernetes", SPARK_HOME, python) as cluster:
        cluster.kubelet.environment |= machine()
        settings = {**cluster.settings(), "spark.executor.instances": "1"}
        yield _Spark(master=cluster.master, settings=settings, said=cluster.said)

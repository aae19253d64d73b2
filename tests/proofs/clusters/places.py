"""The places of jobs: one change of a table with each master, with each login, on each store.

Other areas test more for each of them. `spark-submit` starts a driver on this machine; operators
start those in the cluster (`kubernetes`, `yarn`).
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.proofs.clusters.cells import Cell, Place, Trial, tried
from tests.support import kubernetes_cluster, login_cases, s3_lab, short_jvms, spark_cluster
from tests.support.login_lab import V4, LoginLab, environ
from tests.support.spark_submit import SPARK_HOME, submit

_AREA: Final = "Where jobs run"
_LOGINS: Final = {
    "Kerberos": "Kerberos by keytab, auth-conf",
    "token": "token, auth-conf",
    "password": "LDAP password within TLS",
    "JWT": "HTTPS by JWT",
}
_WAIT_S: Final = 240.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spark:
    """A master, and the settings of `spark-submit` for it."""

    master: str
    settings: dict[str, str] = field(default_factory=dict)
    said: Callable[[], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    """The rest of a place: a login, a store, and their addresses.

    `uri` is the parent of databases; None uses the metastore's warehouse. `settings` are Spark's.
    """

    login: str
    store: str
    endpoint: MetastoreEndpoint
    uri: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each place with the words in its name, after running a job there."""
    for name in ("logins", "hdfs"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        sparks = {
            "local": _Spark(master="local[2]"),
            "standalone, client": stack.enter_context(_standalone(folder)),
            "Kubernetes, client": stack.enter_context(_kubernetes(folder)),
        }
        lab = stack.enter_context(LoginLab(folder / "logins"))
        hdfs = stack.enter_context(MiniHdfs.started(folder / "hdfs"))
        plain = lab.endpoint("plain", V4, None)
        for store, uri in (("disk", None), ("HDFS", hdfs.uri)):
            access = _Access(login="none", store=store, endpoint=plain, uri=uri)
            yield from _with_each(folder, sparks, access, only)
        lab.end("plain", V4)
        yield from _on_s3(folder, sparks, only)
        for login, name in _LOGINS.items():
            (case,) = [case for case in login_cases.CASES if case.name == name]
            with environ(lab.environment):
                endpoint = lab.endpoint(case.kind, V4, case.login(lab, V4))
                access = _Access(login=login, store="disk", endpoint=endpoint)
                yield from _with_each(folder, sparks, access, only)


def _on_s3(folder: Path, sparks: dict[str, _Spark], only: str) -> Iterator[Cell]:
    with (
        s3_lab.MotoS3.beside(Path(sys.executable), folder / "s3.log") as s3,
        s3.metastore(folder / "metastore-on-s3") as metastore,
        patch.dict(os.environ, s3.environment),
    ):
        access = _Access(
            login="none",
            store="S3",
            endpoint=MetastoreEndpoint(uris=(metastore.uri,)),
            settings=s3.spark_settings,
        )
        yield from _with_each(folder, sparks, access, only)


def _with_each(
    folder: Path, sparks: dict[str, _Spark], access: _Access, only: str
) -> Iterator[Cell]:
    for name, spark in sparks.items():
        place = Place(name, access.login, access.store)
        combination = "; ".join((place.spark, f"login: {place.login}", place.store))
        do = partial(_insert, folder / "jobs", spark, access)
        yield from tried(
            [Trial(area=_AREA, version=V4, name=combination, do=do, place=place)], only
        )


def _insert(folder: Path, spark: _Spark, access: _Access) -> str:
    """Insert rows through executors into a new table, and read them by its metastore and files."""
    db = f"places_{os.getpid()}_{next(_numbers)}"
    ref = TableRef(db, "t")
    query = "SELECT id FROM source DISTRIBUTE BY id"
    source = SourceSpec(values=((1,), (2,), (3,)), columns=("id",), query=query)
    with connect(access.endpoint) as client:
        client.create_database(db, None if access.uri is None else f"{access.uri}/{db}.db")
        columns = (Column(name="id", type="bigint"),)
        table = client.create_table(NewTable(ref=ref, columns=columns))
        done = submit(
            folder,
            access.endpoint,
            InsertSpec(target=str(ref), source=source),
            job_key=db,
            master=spark.master,
            settings={**spark.settings, **access.settings},
            environment=s3_lab.machine(),
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
    return ""


@contextmanager
def _standalone(folder: Path) -> Iterator[_Spark]:
    work = folder / "standalone"
    work.mkdir()
    environment = {
        **os.environ,
        **short_jvms.ENVIRONMENT,
        **s3_lab.machine(),
        "PYSPARK_PYTHON": sys.executable,
    }
    with spark_cluster.standalone_cluster(SPARK_HOME, work, environment) as url:
        yield _Spark(master=url)


@contextmanager
def _kubernetes(folder: Path) -> Iterator[_Spark]:
    python = Path(sys.executable)
    with kubernetes_cluster.KubernetesCluster.started(
        folder / "kubernetes", SPARK_HOME, python
    ) as cluster:
        cluster.kubelet.environment |= s3_lab.machine()
        settings = {**cluster.settings(), "spark.executor.instances": "1"}
        yield _Spark(master=cluster.master, settings=settings, said=cluster.said)

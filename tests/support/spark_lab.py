"""A laboratory for the Spark tier: real metastores, one Spark session, tables made and read in one
line."""

from __future__ import annotations

import itertools
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import HiveAcidError, InputError
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import Column, FileFormat, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import maintenance, statements
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.local import server as metastore_server
from airflow_hiveacid.local.distribution import SPARK_S3A
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.operators.submission.table_checks import check_tables
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.session import AT_START, UTC_OPTION, open_session
from airflow_hiveacid.spark.maintenance.prove_erasure import prove_erasure
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.spark.statements.change_feed import feed_changes
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.versions.losses import noted_drop
from spark_apps.clean import clean
from spark_apps.compact import compact
from spark_apps.convert import convert
from spark_apps.create_as import create_as
from spark_apps.delete import delete
from spark_apps.insert import insert
from spark_apps.load import load
from spark_apps.merge import merge
from spark_apps.rebalance import rebalance
from spark_apps.restore import restore
from spark_apps.transaction import transaction
from spark_apps.truncate import truncate
from spark_apps.update import update
from tests.support.documents import ROOT
from tests.support.short_jvms import CLASSES, ENVIRONMENT, SHORT_LIVED
from tests.support.spark_cluster import standalone_cluster
from tests.support.spark_submit import SPARK_HOME
from tests.support.terms import job_terms


def native_files(rows: DataFrame) -> list[str]:
    """The data files of a table that Spark's own reader reads for a frame of it."""
    return [name for name in rows.inputFiles() if "/delete_delta_" not in name]


JOB_FUNCTIONS = {
    "insert": insert,
    "update": update,
    "delete": delete,
    "merge": merge,
    "truncate": truncate,
    "load": load,
    "transaction": transaction,
    "restore": restore,
    "rebalance": rebalance,
    "compact": compact,
    "compact_tables": compact,
    "clean": clean,
    "clean_tables": clean,
    "convert": convert,
    "prove_erasure": prove_erasure,
    "change_feed": feed_changes,
    "create_as": create_as,
}
Row = tuple[object, ...]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """See `small_session`; one for all, on the master that $HIVEACID_SPARK_MASTER chooses.

    The metastores that start after it wait for no disk, since no test ends the machine: a job makes
    a dozen commits, each of which takes Derby some milliseconds otherwise.
    """
    flags = (*metastore_server._JVM_FLAGS, "-Dderby.system.durability=test")
    with pytest.MonkeyPatch.context() as patch, _chosen_master(tmp_path_factory) as master:
        patch.setattr(metastore_server, "_JVM_FLAGS", flags)
        session = small_session(master=master)
        yield session
        session.stop()


@contextmanager
def _chosen_master(folders: pytest.TempPathFactory) -> Iterator[str]:
    if os.environ.get("HIVEACID_SPARK_MASTER", "local") == "local":
        yield "local[2]"
        return
    # Executors have their own working directories, and tasks run functions of tests, too.
    modules = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": modules}
    work = folders.mktemp("session-cluster")
    with standalone_cluster(SPARK_HOME, work, environment, workers=2) as url:
        yield url


def small_session(driver_memory: str = "1g", master: str = "local[2]") -> SparkSession:
    """A session with two threads, or executors of one each, as small as it gets."""
    # The default is the first python3 on the path, which lacks our libraries.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_SUBMIT_OPTS", CLASSES)
    builder = SparkSession.builder.master(master)
    s3a = os.pathsep.join(map(str, SPARK_S3A.fetch()))
    for key, value in {
        **AT_START,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark describes each plan, at length by default, for pages that are off here.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # Many tests make plans of the same code, and Spark keeps 100 compiled ones.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A JVM's class path is what it was at its start, and this one serves all tests.
        "spark.driver.extraClassPath": s3a,
        **({} if master.startswith("local") else _of_executors(s3a)),
    }.items():
        builder = builder.config(key, value)
    builder.getOrCreate()
    session = open_session("hiveacid-tests")
    session.sparkContext.setLogLevel("ERROR")
    # PySpark asks for these at each column, and Java searches every archive in vain first.
    jvm = session.sparkContext._jvm
    vars(jvm).update({name: getattr(jvm, name) for name in ("PythonUtils", "functions")})
    return session


def _of_executors(class_path: str) -> dict[str, str]:
    return {
        "spark.executor.extraClassPath": class_path,
        "spark.executor.extraJavaOptions": f"{SHORT_LIVED} {UTC_OPTION}",
        "spark.executor.memory": "512m",
    }


@contextmanager
def with_settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Have a session's settings so until the block ends."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def refusal_of(client: MetastoreClient, job: Job) -> InputError | None:
    """The error of the checks before the start of Spark."""
    try:
        check_tables(client, job)
    except HiveAcidError as error:
        return error if isinstance(error, InputError) else None
    return None


@dataclass(frozen=True)
class Lab:
    """One database on one metastore, and verbs on its tables."""

    spark: SparkSession
    endpoint: MetastoreEndpoint
    client: MetastoreClient
    db: str
    keys: Iterator[int] = field(default_factory=itertools.count)

    def table(
        self,
        name: str,
        columns: Mapping[str, str],
        *,
        partition: Mapping[str, str] | None = None,
        buckets: tuple[str, int] | None = None,
        kind: TransactionalKind = TransactionalKind.FULL_ACID,
        format_: FileFormat = FileFormat.ORC,
        sort: tuple[str, ...] = (),
        bucketing_version: int = 2,
        parameters: Mapping[str, str] | None = None,
    ) -> TableInfo:
        return self.client.create_table(
            NewTable(
                ref=TableRef(self.db, name),
                columns=tuple(Column(name=n, type=t) for n, t in columns.items()),
                partition_columns=tuple(
                    Column(name=n, type=t) for n, t in (partition or {}).items()
                ),
                kind=kind,
                format=format_,
                bucket_columns=tuple(buckets[0].split(",")) if buckets else (),
                num_buckets=buckets[1] if buckets else 0,
                sort_columns=sort,
                bucketing_version=bucketing_version,
                parameters=parameters or {},
            )
        )

    def run(
        self,
        job: Job,
        *,
        job_key: str | None = None,
        on_step: Callable[[str], None] = lambda _step: None,
        lock_timeout_s: float = 20.0,
        heartbeat_s: float | None = None,
        conflict_policy: ConflictPolicy | None = None,
        generation: int = 0,
        allow_unsafe_expressions: bool = False,
    ) -> JobResult:
        """Run a job in this process, as its application would.

        If the driver accepts the job, the checks before the start of Spark must accept it, too.
        """
        spec = JobSpec(
            job_key=job_key or f"test/{uuid.uuid4().hex}/{next(self.keys)}",
            metastore=self.endpoint,
            job=job,
            lock_timeout_s=lock_timeout_s,
            heartbeat_s=heartbeat_s,
            conflict_policy=conflict_policy,
            generation=generation,
            allow_unsafe_expressions=allow_unsafe_expressions,
        )
        with connect(self.endpoint) as client, typed_failures():
            refusal = refusal_of(client, job)
            context = JobContext.of(self.spark, spec, client, on_step)
            result = JOB_FUNCTIONS[spec.kind](context)
            assert refusal is None, refusal
            return result

    def refusal(self, job: Job) -> InputError | None:
        """The error with which a worker refuses a job before it starts Spark."""
        with connect(self.endpoint) as client:
            return refusal_of(client, job)

    def script(self, text: str, **options: object) -> list[JobResult]:
        """Run statements of SQL text, as the operator would have them run."""
        done = []
        for statement in read_script(text, self.db):
            if isinstance(statement.job, MetastoreStatement):
                terms = job_terms(None, lock_timeout_s=20.0)
                run_statement(self.client, statement.job, terms, around_drop=noted_drop)
            else:
                done.append(self.run(statement.job, **options))  # type: ignore[arg-type]
        return done

    def insert(
        self, name: str, rows: Sequence[Row], columns: Sequence[str] = (), **options: object
    ) -> JobResult:
        source = statements.SourceSpec(values=tuple(rows), columns=tuple(columns))  # type: ignore[arg-type]
        return self.run(
            statements.InsertSpec(
                target=f"{self.db}.{name}", source=source, columns=tuple(columns)
            ),
            **options,
        )  # type: ignore[arg-type]

    def overwrite(
        self, name: str, rows: Sequence[Row], columns: Sequence[str] = (), **spec: object
    ) -> JobResult:
        source = statements.SourceSpec(values=tuple(rows), columns=tuple(columns))  # type: ignore[arg-type]
        return self.run(
            statements.InsertSpec(
                target=f"{self.db}.{name}",
                source=source,
                columns=tuple(columns),
                mode=statements.InsertMode.OVERWRITE,
                **spec,  # type: ignore[arg-type]
            )
        )

    def delete(self, name: str, where: str | None = None, **options: object) -> JobResult:
        return self.run(statements.DeleteSpec(target=f"{self.db}.{name}", where=where), **options)  # type: ignore[arg-type]

    def truncate(
        self, name: str, partition: Mapping[str, str | None] | None = None, **options: object
    ) -> JobResult:
        spec = statements.TruncateSpec(target=f"{self.db}.{name}", partition=partition or {})
        return self.run(spec, **options)  # type: ignore[arg-type]

    def restore(
        self, name: str, version: int | str, *, plan_only: bool = False, **options: object
    ) -> JobResult:
        spec = maintenance.RestoreSpec(
            target=f"{self.db}.{name}",
            version=VersionSpec.meant_by(version).text(),
            plan_only=plan_only,
        )
        return self.run(spec, **options)  # type: ignore[arg-type]

    def rebalance(self, name: str, **spec: object) -> JobResult:
        return self.run(maintenance.RebalanceSpec(target=f"{self.db}.{name}", **spec))  # type: ignore[arg-type]

    def load(self, name: str, location: str, **spec: object) -> JobResult:
        found = statements.LoadSpec(target=f"{self.db}.{name}", location=location, **spec)  # type: ignore[arg-type]
        return self.run(found)

    def update(
        self, name: str, assign: Mapping[str, str], where: str | None = None, **options: object
    ) -> JobResult:
        return self.run(
            statements.UpdateSpec(target=f"{self.db}.{name}", set=assign, where=where), **options
        )  # type: ignore[arg-type]

    def merge(
        self,
        name: str,
        rows: Sequence[Row],
        columns: Sequence[str],
        keys: Sequence[str],
        clauses: Sequence[statements.MergeClause],
        condition: str | None = None,
        **options: object,
    ) -> JobResult:
        source = statements.SourceSpec(values=tuple(rows), columns=tuple(columns))  # type: ignore[arg-type]
        spec = statements.MergeSpec(
            target=f"{self.db}.{name}",
            source=source,
            keys=tuple(keys),
            clauses=tuple(clauses),
            condition=condition,
        )
        return self.run(spec, **options)  # type: ignore[arg-type]

    def compact(
        self,
        name: str,
        choice: maintenance.CompactionChoice = maintenance.CompactionChoice.AUTO,
        partition: str | None = None,
        **options: object,
    ) -> JobResult:
        spec = maintenance.CompactSpec.of_table(
            f"{self.db}.{name}", choice=choice, partition=partition
        )
        return self.run(spec, **options)  # type: ignore[arg-type]

    def clean(self, name: str, **spec: object) -> JobResult:
        return self.run(maintenance.CleanSpec.of_table(f"{self.db}.{name}", **spec))  # type: ignore[arg-type]

    def info(self, name: str) -> TableInfo:
        return self.client.get_table(TableRef(self.db, name))

    def snapshot(self, name: str) -> Snapshot:
        txns = self.client.valid_txns()
        ref = TableRef(self.db, name)
        return Snapshot(txn_id=None, txns=txns, tables=self.client.valid_write_ids([ref], txns))

    def frame(self, name: str) -> DataFrame:
        table = self.info(name)
        return resolve_target(self.spark, self.client, table, self.snapshot(name)).rows()

    def rows(self, name: str) -> list[Row]:
        """All rows now, sorted."""
        found = [tuple(row) for row in self.frame(name).collect()]
        return sorted(found, key=lambda row: tuple((v is not None, str(type(v)), v) for v in row))

    def check(self, rows: list[Row]) -> None:
        """Check the rows of `t` as Spark's reader reads them, and the first two columns as ours."""
        info = self.info("t")
        target = resolve_target(self.spark, self.client, info, self.snapshot("t"))
        assert self.rows("t") == sorted(rows)
        by_arrow = target.read_with_arrow(info.column_names).collect()
        assert sorted(tuple(row)[1:3] for row in by_arrow) == sorted(row[:2] for row in rows)

    def directories(self, name: str, partition: str = "") -> list[str]:
        """Visible directories on disk."""
        root = Path(self.info(name).location.removeprefix("file:")) / partition
        return sorted(p.name for p in root.iterdir() if not p.name.startswith("_"))

    def root(self, name: str) -> Path:
        return Path(self.info(name).location.removeprefix("file:"))


@pytest.fixture(scope="session", params=["4.0.1", "3.1.3"])
def server(request: pytest.FixtureRequest) -> LocalMetastore:
    """Each of the two metastores in turn."""
    name = {"4.0.1": "hive_metastore", "3.1.3": "hive_metastore_3"}[request.param]
    server: LocalMetastore = request.getfixturevalue(name)
    return server


@pytest.fixture
def lab(spark: SparkSession, server: LocalMetastore) -> Iterator[Lab]:
    """A fresh database on each of the metastores."""
    yield from make_lab(spark, server)


@pytest.fixture
def lab4(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Lab]:
    """A fresh database on 4.0.1."""
    yield from make_lab(spark, hive_metastore)


@pytest.fixture
def lab3(spark: SparkSession, hive_metastore_3: LocalMetastore) -> Iterator[Lab]:
    """A fresh database on 3.1.3."""
    yield from make_lab(spark, hive_metastore_3)


def make_lab(spark: SparkSession, server: LocalMetastore) -> Iterator[Lab]:
    endpoint = MetastoreEndpoint(uris=(server.uri,))
    db = f"lab_{uuid.uuid4().hex[:12]}"
    with connect(endpoint) as client:
        client.create_database(db)
        yield Lab(spark=spark, endpoint=endpoint, client=client, db=db)

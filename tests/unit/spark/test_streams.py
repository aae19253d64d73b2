"""Micro-batches of Spark, each exactly once: the function of `foreachBatch`, without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow.job import run_statements
from airflow_hiveacid.arrow.statements import planned
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    FencedError,
    OtherOwnerError,
    TaskKilledError,
)
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import (
    JobResult,
    JobStatus,
    OnRerun,
    RowCounts,
    StreamSpec,
)
from airflow_hiveacid.jobs.statements import StreamTable
from airflow_hiveacid.lake import session, statements
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.spark import streams
from airflow_hiveacid.spark.acid import Task
from airflow_hiveacid.spark.streams import BatchSink
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.writing.restarts import RestartState
from airflow_hiveacid.writing.streams import Progress
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_spec, job_terms
from tests.unit.spark.test_acid import Session

APPEND = (StreamTable(table="default.t"),)
CHECKPOINT = "file:/checkpoint/"


class Frame:
    """A frame of some IDs, which says whether its rows are kept, and its plan in the checkpoint."""

    def __init__(self, *ids: int, plan: str = "v1") -> None:
        self.ids, self.is_kept, self.plan = ids, False, plan
        self.sparkSession = Session()
        self.sparkSession.read = SimpleNamespace(text=self.text)

    def text(self, uri: str) -> SimpleNamespace:
        assert re.fullmatch(r"file:/checkpoint/offsets/\d+", uri)
        return SimpleNamespace(collect=lambda: [SimpleNamespace(value=self.plan)])

    def persist(self) -> Frame:
        self.is_kept = True
        return self

    def unpersist(self) -> None:
        self.is_kept = False

    def count(self) -> int:
        assert self.is_kept
        return len(self.ids)


def write(job: JobContext, rows: Any) -> JobResult:  # noqa: ANN401 - a frame
    """Write a batch with the engine in one process."""
    assert rows.is_kept
    target = job.with_constraints(job.insertable_table("default.t"))
    values = pa.table({"id": pa.array(rows.ids, pa.int64())})
    statement = statements.insertion(target, values, overwrites=False)
    return run_statements(job, [planned(statement.spec, statement.work, job.client)])


@dataclass(frozen=True)
class Home:
    """A table, and the drivers of streams into it."""

    server: FakeMetastore
    table: TableInfo
    clock: ManualClock

    def context(self, on_rerun: OnRerun = OnRerun.APPLY) -> JobContext:
        spark: Any = Session()
        job = StreamSpec(application="clicks.py", inserts=("default.t",))
        spec = job_spec(job, on_rerun=on_rerun, lock_timeout_s=5.0)
        terms = job_terms(spec.job_key, attempt=AttemptId.new(), clock=self.clock)
        return JobContext(spark=spark, spec=spec, client=FakeClient(self.server), terms=terms)

    def sink(self, query_id: str = "q-1", on_rerun: OnRerun = OnRerun.APPLY) -> BatchSink:
        """The sink of a new driver, whose query continues from a checkpoint."""
        job = self.context(on_rerun)
        made = BatchSink(job, APPEND, CHECKPOINT, write, Progress(self.clock))
        made.name(query_id)
        return made

    @property
    def ids(self) -> list[int]:
        endpoint = MetastoreEndpoint(uris=("thrift://h:1",))
        reader = session.Session(
            client=FakeClient(self.server), endpoint=endpoint, clock=self.clock
        )
        with Lake(reader) as lake:
            found = lake.table(str(self.table.ref)).scan(["id"]).to_arrow()["id"]
            return sorted(found.to_pylist())


@pytest.fixture
def home(server: FakeMetastore, table: TableInfo, clock: ManualClock) -> Home:
    return Home(server, table, clock)


def test_a_batch_that_a_new_driver_repeats_is_applied_once(home: Home) -> None:
    first = home.sink()
    first(Frame(1, 2), 0)
    first(Frame(3), 1)
    second = home.sink()
    repeated = Frame(3)
    second(repeated, 1)
    second(Frame(4), 2)
    assert (home.ids, repeated.is_kept) == ([1, 2, 3, 4], False)


def test_a_batch_that_a_restored_checkpoint_plans_with_other_rows_is_refused(home: Home) -> None:
    home.sink()(Frame(1), 0)
    second = home.sink()
    with pytest.raises(FencedError):
        second(Frame(1, 2, plan="v1 later"), 0)
    second(Frame(1), 0)
    assert home.ids == [1]


def test_a_driver_ends_if_a_copy_of_its_checkpoint_had_rows_where_it_had_none(home: Home) -> None:
    one, other = home.sink(), home.sink()
    one(Frame(1), 0)
    other(Frame(2), 1)
    one(Frame(), 1)
    with pytest.raises(FencedError):
        one(Frame(2, 3), 2)
    assert home.ids == [1, 2]


def test_a_suspended_driver_changes_nothing_when_it_goes_on(home: Home) -> None:
    old = home.sink()
    old(Frame(1), 0)
    new = home.sink()
    new(Frame(2), 1)
    old(Frame(2), 1)  # the same checkpoint fixes the batch's rows
    new(Frame(3), 2)
    with pytest.raises(FencedError):
        old(Frame(2), 1)
    assert isinstance(old.failure, FencedError)
    new(Frame(4), 3)
    assert home.ids == [1, 2, 3, 4]


@pytest.mark.parametrize("on_rerun", OnRerun)
def test_what_the_task_does_if_it_is_cleared_is_not_for_its_batches(
    home: Home, on_rerun: OnRerun
) -> None:
    one = home.sink(on_rerun=on_rerun)
    one(Frame(1), 0)
    one(Frame(2), 1)
    assert home.ids == [1, 2]


def test_another_checkpoint_is_another_stream(home: Home) -> None:
    home.sink()(Frame(1), 0)
    home.sink("q-2")(Frame(2), 0)
    assert home.ids == [1, 2]


def test_a_stream_of_a_cloned_metastore_does_not_start_and_writes_no_batch(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.sink()(Frame(1), 0)
    home.server.metastore_id = "clone"
    with pytest.raises(OtherOwnerError):
        home.sink("q-2")(Frame(2), 0)
    job = home.context()
    monkeypatch.setattr(job.spark, "createDataFrame", lambda *_: None, raising=False)
    monkeypatch.setattr(streams, "changes_of", lambda *_: [SimpleNamespace(table=home.table)])
    rows: Any = SimpleNamespace(schema=None)  # it has no query to start
    with pytest.raises(OtherOwnerError):
        streams.stream(rows, "default.t", Task(job, RestartState()), checkpoint=CHECKPOINT)


def test_an_empty_batch_opens_no_transaction(home: Home) -> None:
    home.sink()(Frame(), 0)
    assert not home.server.txns


def test_a_batch_after_the_end_is_refused_so_that_spark_does_not_record_it(home: Home) -> None:
    one = home.sink()
    one(Frame(1), 0)
    one.end()
    with pytest.raises(TaskKilledError):
        one(Frame(2), 1)
    assert one.failure is None
    assert home.ids == [1]


def test_progress_is_reported_each_minute(clock: ManualClock) -> None:
    reports: list[Any] = []
    progress = Progress(clock, reports.append)
    done: Any = SimpleNamespace(status=JobStatus.COMMITTED, rows=RowCounts(inserted=90, updated=30))
    clock.sleep(4.0)
    progress.add(done, arrived_s=clock.monotonic() - 3.0)
    progress.tick()
    assert reports == []
    clock.sleep(56.0)
    progress.tick()
    (report,) = reports
    assert (report.batches, report.rows, report.rows_per_s) == (1, 120, 2.0)
    assert (report.lag_s, report.idle_s) == (3.0, 56.0)
    progress.tick(is_last=True)
    assert (reports[1].batches, reports[1].rows, reports[1].lag_s) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": "default.u"}, "does not declare this: add the table to inserts"),
        ({"mode": "merge", "keys": "id"}, "add the table to changes"),
        ({"select": {"default.u": lambda rows: rows}}, "select has default.u"),
        ({"mode": "merge"}, "'merge' with keys"),
    ],
)
def test_a_stream_with_unfit_arguments_does_not_start(
    home: Home, arguments: dict[str, Any], message: str
) -> None:
    task = Task(home.context(), RestartState())
    rows: Any = SimpleNamespace()
    given = {"tables": "default.t", "checkpoint": "file:/nowhere", **arguments}
    with pytest.raises(ConfigurationError, match=message):
        streams.stream(rows, task=task, **given)
    assert not home.server.txns

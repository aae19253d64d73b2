"""A write whose transaction is lost after its work: what is done again, and what is not.

Rows are made by a stand-in that counts how often; how a file gets another write ID is the affair of
`storage.acid.write.reissue`, for which a stand-in writes down who asked.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    TransactionAbortedError,
    UnsupportedFileError,
    WriteConflictError,
)
from airflow_hiveacid.format.policies import ConflictPolicy
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs import InsertSpec, JobSpec, SourceSpec
from airflow_hiveacid.metastore import transaction
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.spark.events import Events
from airflow_hiveacid.spark.failures import carried
from airflow_hiveacid.spark.writing import second_try
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.job import Rank, begun, run_changes
from airflow_hiveacid.spark.writing.table_write import TableWrite
from airflow_hiveacid.spark.writing.work import Change
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.job_ledger import HIDDEN_DIRECTORY
from contract.fake_client import FakeClient
from one_row import CONTEXT, OneRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.storage.acid.write.reissue import Reissue
    from contract.fake_metastore import FakeMetastore
    from contract.manual_clock import ManualClock

_, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
PATIENCE_S = 20.0  # the server's


@dataclass(kw_only=True)
class Statement:
    """A statement of one row; `at` says what happens at a step of its first beginning. Mutable."""

    server: FakeMetastore
    table: TableInfo
    operation: DataOperation = INSERT
    source: SourceSpec = field(default_factory=SourceSpec)
    policy: ConflictPolicy = ConflictPolicy.HIVE
    at: dict[str, Callable[[], object]] = field(default_factory=dict)
    made: int = 0

    @property
    def job(self) -> JobContext:
        def on_step(name: str) -> None:
            self.at.pop(name, lambda: None)()

        spec = JobSpec(
            job_key="dag/run/task/-1",
            metastore=MetastoreEndpoint(uris=("thrift://h:1",)),
            job=InsertSpec(target=str(self.table.ref), source=SourceSpec()),
            attempt=str(AttemptId(1, "1" * 12)),
            lock_timeout_s=5.0,
            conflict_policy=self.policy,
        )
        spark: Any = SimpleNamespace(sparkContext=CONTEXT)
        return JobContext(spark=spark, spec=spec, client=FakeClient(self.server), on_step=on_step)

    def run(self) -> JobResult:
        def make(_target: object, _source: object) -> Events:
            self.made += 1
            rows: Any = OneRow()
            return Events(frame=lambda: rows)

        job = self.job
        change = Change(
            kind="insert",
            table=job.client.get_table(self.table.ref),
            operations=frozenset({self.operation}),
            make_events=make,
            source=self.source,
        )
        return run_changes(job, [change])


@pytest.fixture
def reissued(monkeypatch: pytest.MonkeyPatch) -> list[Reissue]:
    """What was asked for; the rows go into the new file as they are."""
    found: list[Reissue] = []

    def copy(work: Reissue) -> int:
        found.append(work)
        source, target = (Path(p.removeprefix("file:")) for p in (work.source, work.target))
        with file_errors("read", str(source)):
            content = source.read_bytes()
        target.parent.mkdir(parents=True)
        target.write_bytes(content + b"!")
        return len(content) + 1

    monkeypatch.setattr(second_try, "reissue", copy)
    return found


@pytest.fixture
def statement(
    server: FakeMetastore,
    table: TableInfo,
    clock: ManualClock,
    reissued: list[Reissue],
    monkeypatch: pytest.MonkeyPatch,
) -> Statement:
    del reissued
    monkeypatch.setattr(transaction, "SystemClock", lambda: clock)
    return Statement(server=server, table=table)


def place(table: TableInfo) -> Path:
    return Path(table.location.removeprefix("file:"))


def directories(table: TableInfo) -> set[str]:
    return {p.name for p in place(table).iterdir() if p.name != HIDDEN_DIRECTORY}


def foreign(server: FakeMetastore, table: TableInfo, name: str) -> Callable[[], WriteId]:
    """An engine that takes no lock and commits a directory of this name, `{}` for its write ID."""

    def write() -> WriteId:
        client = FakeClient(server)
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, table.ref)
        folder = place(table) / name.format(f"{write_id:07d}")
        folder.mkdir()
        (folder / "bucket_00000").write_text("foreign")
        client.commit_txn(txn_id)
        return write_id

    return write


def silence(clock: ManualClock) -> Callable[[], None]:
    """The metastore hears nothing for longer than it bears."""
    return lambda: clock.advance(PATIENCE_S + 5)


@pytest.mark.promise("O4")
def test_an_insert_that_an_overwrite_hides_is_published_above_it_and_not_made_again(
    statement: Statement, server: FakeMetastore, table: TableInfo, reissued: list[Reissue]
) -> None:
    statement.at["registered"] = foreign(server, table, "base_{}")
    result = statement.run()
    assert statement.made == 1
    assert result.write_ids == {str(table.ref): 3}
    assert result.rows.inserted == 1
    assert result.size_bytes == len("row!")
    assert result.details["retried"]["how"] == "metadata"  # type: ignore[index,call-overload]
    assert directories(table) == {"base_0000002", "delta_0000003_0000003_0000"}
    assert [(w.old, w.new, w.is_delete) for w in reissued] == [(1, 3, False)]
    assert (place(table) / "delta_0000003_0000003_0000" / "bucket_00000").read_text() == "row!"


@pytest.mark.promise("O4")
@pytest.mark.parametrize("step", ["registered", "verified", "noted", "published"])
@pytest.mark.parametrize("operation", [INSERT, UPDATE])
def test_a_write_that_the_metastore_gave_up_for_its_silence_is_not_made_again(
    statement: Statement,
    table: TableInfo,
    clock: ManualClock,
    operation: DataOperation,
    step: str,
) -> None:
    statement.operation = operation
    statement.at[step] = silence(clock)
    result = statement.run()
    assert result.status is JobStatus.COMMITTED
    assert statement.made == 1
    assert directories(table) == {"delta_0000002_0000002_0000"}


def test_who_is_ended_by_an_order_stays_ended(
    statement: Statement, server: FakeMetastore, table: TableInfo
) -> None:
    def kill() -> None:
        client = FakeClient(server)
        (txn_id,) = client.valid_txns().open
        client.abort_txn(txn_id)

    statement.at["published"] = kill
    with pytest.raises(TransactionAbortedError):
        statement.run()
    assert statement.made == 1
    assert directories(table) == set()


def killed(server: FakeMetastore) -> None:
    client = FakeClient(server)
    for txn_id in client.valid_txns().open:
        client.abort_txn(txn_id)


@pytest.mark.parametrize("step", ["allocated", "snapshot"])
def test_who_is_ended_by_an_order_before_it_has_taken_over_stays_ended(
    statement: Statement, server: FakeMetastore, table: TableInfo, clock: ManualClock, step: str
) -> None:
    """What an earlier beginning has staged is no reason to go on."""

    def meanwhile() -> None:
        silence(clock)()
        statement.at[step] = lambda: killed(server)

    statement.at["published"] = meanwhile
    with pytest.raises(TransactionAbortedError):
        statement.run()
    assert statement.made == 1
    assert directories(table) == set()


def test_who_is_ended_by_an_order_and_then_overtaken_stays_ended(
    statement: Statement, server: FakeMetastore, table: TableInfo
) -> None:
    """No heartbeat has heard it yet; its locks are gone, and somebody has overwritten."""
    write = foreign(server, table, "base_{}")

    def meanwhile() -> None:
        killed(server)
        write()

    statement.at["registered"] = meanwhile
    with pytest.raises(TransactionAbortedError):
        statement.run()
    assert statement.made == 1
    assert directories(table) == {"base_0000002"}


def test_taking_back_for_long_is_no_silence(
    statement: Statement,
    server: FakeMetastore,
    table: TableInfo,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_back = TableWrite.take_back

    def slowly(part: TableWrite) -> None:
        take_back(part)
        clock.advance(PATIENCE_S + 5)

    monkeypatch.setattr(TableWrite, "take_back", slowly)
    statement.at["published"] = lambda: killed(server)
    with pytest.raises(TransactionAbortedError):
        statement.run()
    assert statement.made == 1
    assert directories(table) == set()


@pytest.mark.parametrize("name", ["delta_{}_0000009_0000", "delta_0000001_0000009", "base_{}"])
def test_a_change_whose_rows_may_be_others_by_now_is_made_again(
    statement: Statement, server: FakeMetastore, table: TableInfo, clock: ManualClock, name: str
) -> None:
    write = foreign(server, table, name)

    def meanwhile() -> None:
        silence(clock)()
        write()

    statement.operation, statement.at["published"] = UPDATE, meanwhile
    result = statement.run()
    assert statement.made == 2
    assert result.details["retried"]["how"] == "in full"  # type: ignore[index,call-overload]
    assert "holds what it has not seen" in result.details["retried"]["why"]  # type: ignore[index,call-overload]


@pytest.mark.parametrize("name", ["delta_0000000_0000000", "000000_0"])
def test_a_change_of_rows_that_were_truncated_without_a_write_id_is_made_again(
    statement: Statement, table: TableInfo, clock: ManualClock, name: str
) -> None:
    """As 3.1 does it."""
    seen = place(table) / name
    seen.mkdir(parents=True)

    def meanwhile() -> None:
        silence(clock)()
        seen.rmdir()

    statement.operation, statement.at["published"] = UPDATE, meanwhile
    result = statement.run()
    assert statement.made == 2
    assert "is gone, which it has seen" in result.details["retried"]["why"]  # type: ignore[index,call-overload]


def test_an_insert_does_not_mind_what_others_have_done(
    statement: Statement, server: FakeMetastore, table: TableInfo, clock: ManualClock
) -> None:
    write = foreign(server, table, "delta_{0}_{0}_0000")

    def meanwhile() -> None:
        silence(clock)()
        write()

    statement.at["published"] = meanwhile
    statement.run()
    assert statement.made == 1
    assert directories(table) == {"delta_0000002_0000002_0000", "delta_0000003_0000003_0000"}


@pytest.mark.parametrize(
    ("operation", "source"),
    [(OVERWRITE, SourceSpec()), (INSERT, SourceSpec(table="default.t"))],
)
def test_what_may_come_out_otherwise_is_made_again(
    statement: Statement,
    clock: ManualClock,
    operation: DataOperation,
    source: SourceSpec,
) -> None:
    statement.operation, statement.source = operation, source
    statement.at["published"] = silence(clock)
    with pytest.raises(TransactionAbortedError):
        statement.run()
    assert statement.made == 1


def test_what_cannot_be_reissued_is_made_again(
    statement: Statement,
    table: TableInfo,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(work: Reissue) -> int:
        raise UnsupportedFileError(path=work.source, reason="it is not ours")

    monkeypatch.setattr(second_try, "reissue", refuse)
    statement.at["published"] = silence(clock)
    result = statement.run()
    assert statement.made == 2
    assert "it is not ours" in result.details["retried"]["why"]  # type: ignore[index,call-overload]
    assert directories(table) == {"delta_0000002_0000002_0000"}


def test_what_a_worker_cannot_reissue_is_made_again(
    statement: Statement, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of a worker a typed error comes as text in one of Spark's."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(carried(UnsupportedFileError(path="f", reason="it is not ours")))

    monkeypatch.setattr(second_try, "_FEW_FILES", 0)
    monkeypatch.setattr(second_try, "run_tasks", refuse)
    statement.at["published"] = silence(clock)
    result = statement.run()
    assert statement.made == 2
    assert "it is not ours" in result.details["retried"]["why"]  # type: ignore[index,call-overload]


@pytest.mark.promise("O4")
def test_what_was_taken_over_may_be_lost_and_taken_over_again(
    statement: Statement, table: TableInfo, clock: ManualClock, reissued: list[Reissue]
) -> None:
    times = 3

    def once_more() -> None:
        nonlocal times
        silence(clock)()
        times -= 1
        if times:
            statement.at["published"] = once_more

    statement.at["published"] = once_more
    statement.run()
    assert statement.made == 1
    assert [(w.old, w.new) for w in reissued] == [(1, 2), (2, 3), (3, 4)]
    assert directories(table) == {"delta_0000004_0000004_0000"}


@pytest.mark.parametrize("name", ["base_{}", "delta_{0}_{0}_0000"])
def test_who_has_lost_to_a_rival_by_the_strict_policy_does_not_try_again_by_itself(
    statement: Statement, server: FakeMetastore, table: TableInfo, name: str
) -> None:
    """Also where the rival has nothing recorded, as an insert of Hive's."""
    statement.policy = ConflictPolicy.STRICT
    statement.at["registered"] = foreign(server, table, name)
    with pytest.raises(WriteConflictError, match=r"_?0000002(_0000)? was committed") as lost:
        statement.run()
    assert (lost.value.winner.write_id, lost.value.winner.job_key) == (2, None)
    assert "no ledger here knows" in "".join(lost.value.__notes__)
    assert statement.made == 1
    assert directories(table) == {name.format("0000002")}


def test_a_list_that_ends_early_makes_no_rival_of_whoever_was_first_long_ago(
    statement: Statement, server: FakeMetastore, table: TableInfo
) -> None:
    """What the server remembers is an aborted write ID alone, and its list ends there."""
    client = FakeClient(server)
    early, late = client.open_txn(), client.open_txn()
    client.allocate_write_id(late, table.ref)
    client.allocate_write_id(early, table.ref)
    (place(table) / "delta_0000002_0000002_0000").mkdir()
    client.commit_txn(early)
    client.abort_txn(late)
    server.clean_write_ids()
    short = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
    assert short.high_watermark == 1
    statement.policy = ConflictPolicy.STRICT
    assert statement.run().status is JobStatus.COMMITTED


def test_who_begins_anew_has_begun_when_it_did_so_first(
    statement: Statement, server: FakeMetastore, table: TableInfo
) -> None:
    statement.policy = ConflictPolicy.STRICT
    access = TableAccess(table=table, operations=frozenset({UPDATE}))
    rank, job = Rank(), statement.job
    with begun(job, [access], [], rank) as write:
        first = write.txn.began[table.ref]
        write.txn.abandon()
    foreign(server, table, "delta_{0}_{0}_0000")()
    with begun(job, [access], [], rank) as write:
        assert write.txn.began[table.ref] == first
        with pytest.raises(WriteConflictError):
            write.look_ahead()
        write.txn.abandon()


def test_a_store_that_cannot_put_back_what_was_published_leaves_nothing(
    statement: Statement, table: TableInfo, clock: ManualClock
) -> None:
    def meanwhile() -> None:
        silence(clock)()
        (staging,) = place(table).glob("_tmp_hiveacid_*")
        shutil.rmtree(staging)
        staging.write_text("in the way")

    statement.at["published"] = meanwhile
    result = statement.run()
    assert statement.made == 2
    assert result.status is JobStatus.COMMITTED
    found = directories(table)
    assert {name for name in found if not name.startswith("_tmp")} == {"delta_0000002_0000002_0000"}

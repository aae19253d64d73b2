"""A write that is overtaken after its work: what is repeated, and what is not.

A write stops if its transaction was aborted from outside, even after a long loss of connection.

A stand-in makes the rows and counts its calls. A second stand-in, for `storage.acid.write.reissue`,
records which files were to get a new write ID.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation
from airflow_hiveacid.format.ids import AttemptId, WriteId
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.reading import table_view
from airflow_hiveacid.spark.engine.failures import carried
from airflow_hiveacid.spark.reading.events import Events
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.writing import work
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import CheckedStatement, run_changes
from airflow_hiveacid.storage.acid.write.reissue import Reissue
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.writing import overtaking, restarts
from airflow_hiveacid.writing.restarts import RestartState, begun
from airflow_hiveacid.writing.table_write import TableWrite
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.one_row import CONTEXT, OneRow
from tests.support.steps import act_before, raises
from tests.support.tables import id_table
from tests.support.terms import job_spec

_, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
KEY, ATTEMPT = "dag/run/task/-1", AttemptId(1, "1" * 12)
MONTH = PartitionName.parse("month=1")
PATIENCE_S = 20.0  # the server's


@dataclass(kw_only=True)
class Statement:
    """A statement of one row; `at` says what happens when a step is reached next. Mutable."""

    server: FakeMetastore
    table: TableInfo
    clock: ManualClock
    operation: DataOperation = INSERT
    source: SourceSpec = field(default_factory=SourceSpec)
    policy: ConflictPolicy = ConflictPolicy.HIVE
    partition: str = "[]"
    at: dict[str, Callable[[], object]] = field(default_factory=dict)
    made: int = 0
    reads: bool = False
    lock_timeout_s: float = 5.0

    @property
    def job(self) -> JobContext:
        def on_step(name: str) -> None:
            self.at.pop(name, lambda: None)()

        spec = job_spec(
            InsertSpec(target=str(self.table.ref), source=SourceSpec()),
            KEY,
            attempt=str(ATTEMPT),
            lock_timeout_s=self.lock_timeout_s,
            conflict_policy=self.policy,
        )
        spark: Any = SimpleNamespace(sparkContext=CONTEXT)
        return JobContext(
            spark=spark,
            spec=spec,
            client=FakeClient(self.server),
            terms=replace(JobTerms.of(spec, on_step=on_step), clock=self.clock),
        )

    def run(self) -> JobResult:
        def make(seen: Target, _source: object) -> Events:
            self.made += 1
            if self.reads:
                assert seen.states
            rows: Any = OneRow(self.partition)
            return Events(frame=lambda: rows)

        job = self.job
        change = CheckedStatement(
            spec=job.spec.job,
            table=job.client.get_table(self.table.ref),
            operations=frozenset({self.operation}),
            make_events=make,
            source=self.source,
        )
        return run_changes(job, [change])

    @property
    def place(self) -> Path:
        return Path(self.table.location.removeprefix("file:"))

    def foreign(self, name: str, root: Path | None = None) -> Callable[[], WriteId]:
        """An engine without locks that commits a directory of this name, `{}` for its write ID."""

        def write() -> WriteId:
            client = FakeClient(self.server)
            txn_id = client.open_txn()
            write_id = client.allocate_write_id(txn_id, self.table.ref)
            folder = (root or self.place) / name.format(f"{write_id:07d}")
            folder.mkdir()
            (folder / "bucket_00000").write_text("foreign")
            client.commit_txn(txn_id)
            return write_id

        return write

    def kill(self) -> None:
        """As the task's worker does it; what it does not find has ended already."""
        abort_job(FakeClient(self.server), KEY, ATTEMPT, [self.table.ref])


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

    monkeypatch.setattr(restarts, "reissue", copy)
    return found


@pytest.fixture
def statement(
    server: FakeMetastore,
    table: TableInfo,
    clock: ManualClock,
    reissued: list[Reissue],
) -> Statement:
    del reissued
    return Statement(server=server, table=table, clock=clock)


@pytest.fixture
def partitioned(statement: Statement, server: FakeMetastore, tmp_path: Path) -> Statement:
    """A statement on the only partition of a table, which is not where the table would put it."""
    for name in ("p", "elsewhere"):
        (tmp_path / name).mkdir()
    table = id_table(FakeClient(server), "p", tmp_path / "p", by="month string")
    server.add_partition(table.ref, MONTH, f"file:{tmp_path}/elsewhere")
    statement.table, statement.partition = table, '["1"]'
    return statement


def directories(root: Path) -> set[str]:
    return {p.name for p in root.iterdir() if p.name != HIDDEN_DIRECTORY}


def how(result: JobResult) -> tuple[object, str]:
    """How it was done again, and why not otherwise."""
    retried: Any = result.details["retried"]
    return retried["how"], retried.get("why", "")


@pytest.mark.promise("O4")
def test_an_overtaken_insert_is_published_again_without_computing_its_rows_again(
    statement: Statement, reissued: list[Reissue]
) -> None:
    statement.at["registered"] = statement.foreign("base_{}")
    result = statement.run()
    assert statement.made == 1
    assert result.write_ids == {str(statement.table.ref): 3}
    assert result.rows.inserted == 1
    assert result.size_bytes == len("row!")
    assert how(result) == ("metadata", "")
    assert directories(statement.place) == {"base_0000002", "delta_0000003_0000003_0000"}
    assert [(w.old, w.new) for w in reissued] == [(1, 3)]
    assert (statement.place / "delta_0000003_0000003_0000" / "bucket_00000").read_text() == "row!"


@pytest.mark.promise("T11")
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("step", ["staged", "registered", "verified", "noted", "published"])
@pytest.mark.parametrize("operation", [INSERT, UPDATE])
@pytest.mark.long_cases("hive3-*")
def test_a_write_that_was_cut_off_until_its_transaction_timed_out_is_aborted(
    statement: Statement,
    clock: ManualClock,
    operation: DataOperation,
    step: str,
    *,
    is_killed: bool,
) -> None:
    """It may have been killed meanwhile, or an administrator may have aborted it."""

    def cut_off() -> None:
        if is_killed:
            statement.kill()
        clock.advance(PATIENCE_S + 5)

    statement.operation = operation
    statement.at[step] = cut_off
    with pytest.raises(errors.TransactionAbortedError):
        statement.run()
    assert statement.made == 1
    assert directories(statement.place) == set()
    assert [txn.state for txn in statement.server.txns.values()] == [TxnState.ABORTED]


@pytest.mark.promise("T11")
@pytest.mark.parametrize("operation", [INSERT, UPDATE, OVERWRITE])
@pytest.mark.parametrize(
    "step", ["taken back", "opened", "allocated", "locked", "snapshot", "staged", "published"]
)
@pytest.mark.long_cases("hive3-*")
def test_a_write_that_is_killed_during_its_restart_stays_aborted(
    statement: Statement,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    operation: DataOperation,
) -> None:
    """A kill finds a lock of the job at any moment."""
    write, take_back = statement.foreign("base_{}"), TableWrite.take_back
    statement.operation = operation

    def taken_back(part: TableWrite) -> None:
        take_back(part)
        statement.at.pop("taken back", lambda: None)()

    def meanwhile() -> None:
        write()
        statement.at[step] = statement.kill

    monkeypatch.setattr(TableWrite, "take_back", taken_back)
    statement.at["registered"] = meanwhile
    with pytest.raises(errors.TransactionAbortedError):
        statement.run()
    assert statement.made == 1 or operation is not INSERT
    assert directories(statement.place) == {"base_0000002"}
    committed = [
        t.txn_id for t in statement.server.txns.values() if t.state is not TxnState.ABORTED
    ]
    assert committed == [2]


def test_a_write_that_is_overtaken_in_its_last_restart_leaves_no_transaction_open(
    statement: Statement,
) -> None:
    def again() -> None:
        statement.foreign("base_{}")()
        statement.at["registered"] = again

    statement.at["registered"] = again
    with pytest.raises(errors.OvertakenError):
        statement.run()
    states = [txn.state for txn in statement.server.txns.values()]
    assert states == [TxnState.ABORTED, TxnState.COMMITTED] * 5
    assert statement.server.locks == {}
    assert directories(statement.place) == {f"base_{n:07d}" for n in (2, 4, 6, 8, 10)}


@pytest.mark.parametrize("lock_timeout_s", [0.0, 5.0])
@pytest.mark.parametrize("operation", [INSERT, UPDATE, OVERWRITE])
def test_a_restart_does_not_wait_for_the_locks_of_its_previous_transaction(
    statement: Statement,
    clock: ManualClock,
    operation: DataOperation,
    lock_timeout_s: float,
) -> None:
    statement.operation, statement.lock_timeout_s = operation, lock_timeout_s
    statement.at["registered"] = statement.foreign("base_{}")
    assert statement.run().status is JobStatus.COMMITTED
    assert clock.slept_s == []


@pytest.mark.promise("T11")
def test_a_write_that_is_killed_and_then_overtaken_stays_aborted(statement: Statement) -> None:
    """No heartbeat has failed yet; its locks are gone, and a foreign write has overwritten."""
    write = statement.foreign("base_{}")

    def meanwhile() -> None:
        statement.kill()
        write()

    statement.at["registered"] = meanwhile
    with pytest.raises(errors.TransactionAbortedError):
        statement.run()
    assert statement.made == 1
    assert directories(statement.place) == {"base_0000002"}


def test_an_overtaken_write_does_not_restart_if_its_heartbeat_fails(statement: Statement) -> None:
    write = statement.foreign("base_{}")

    def meanwhile() -> None:
        write()
        mute = errors.MetastoreUnavailableError(uris=(), method="heartbeat", reason="cut off")
        statement.server.break_next("heartbeat", mute, is_done=False)

    statement.at["registered"] = meanwhile
    with pytest.raises(errors.MetastoreUnavailableError, match="cut off"):
        statement.run()
    assert statement.made == 1
    assert directories(statement.place) == {"base_0000002"}
    assert [t.state for t in statement.server.txns.values()] == [
        TxnState.ABORTED,
        TxnState.COMMITTED,
    ]


@pytest.mark.parametrize("operation", [UPDATE, DELETE, OVERWRITE])
def test_an_overtaken_update_delete_or_overwrite_is_computed_again(
    statement: Statement, operation: DataOperation
) -> None:
    statement.operation = operation
    statement.at["registered"] = statement.foreign("base_{}")
    result = statement.run()
    assert statement.made == 2
    what = "it overwrites existing rows" if operation is OVERWRITE else "rows that it read"
    assert how(result)[0] == "in full"
    assert how(result)[1].startswith(what)
    assert result.write_ids == {str(statement.table.ref): 3}


def test_an_overtaken_insert_that_reads_a_table_is_computed_again(statement: Statement) -> None:
    statement.source = SourceSpec(table="default.t")
    statement.at["registered"] = statement.foreign("base_{}")
    assert how(statement.run()) == ("in full", "it reads another table")
    assert statement.made == 2


def test_an_update_that_is_not_overtaken_makes_no_listings_for_a_restart(
    statement: Statement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that is not overtaken costs as little as without restarts."""
    asked: list[str] = []
    for module, name in (
        (table_view, "list_table"),
        (overtaking, "list_directories"),
        (restarts, "why_in_full"),
        (FakeClient, "list_partitions"),
    ):
        act_before(monkeypatch, module, name, lambda *_, name=name: asked.append(name))
    statement.operation, statement.reads = UPDATE, True
    statement.run()
    assert asked == ["list_partitions", "list_table", "list_directories"]


def test_a_foreign_base_and_a_foreign_delta_do_not_make_an_insert_compute_rows_again(
    statement: Statement,
) -> None:
    write = statement.foreign("delta_{0}_{0}_0000")
    hide = statement.foreign("base_{}")

    def meanwhile() -> None:
        hide()
        write()

    statement.at["registered"] = meanwhile
    assert how(statement.run()) == ("metadata", "")
    assert statement.made == 1
    assert directories(statement.place) == {
        "base_0000002",
        "delta_0000003_0000003_0000",
        "delta_0000004_0000004_0000",
    }


@pytest.mark.parametrize("is_on_executor", [False, True])
def test_rows_are_computed_again_if_their_files_cannot_get_a_new_write_id(
    statement: Statement, monkeypatch: pytest.MonkeyPatch, *, is_on_executor: bool
) -> None:
    foreign = errors.UnsupportedFileError(path="f", reason="it is not ours")
    if is_on_executor:
        monkeypatch.setattr(restarts, "_FEW_FILES", 0)
        # A typed error of a Python worker arrives as text in an error of Spark.
        monkeypatch.setattr(work, "run_tasks", raises(RuntimeError(carried(foreign))))
    else:
        monkeypatch.setattr(restarts, "reissue", raises(foreign))
    statement.at["registered"] = statement.foreign("base_{}")
    result = statement.run()
    assert statement.made == 2
    assert "it is not ours" in how(result)[1]
    assert directories(statement.place) == {"base_0000002", "delta_0000003_0000003_0000"}


@pytest.mark.promise("O4")
def test_an_insert_that_is_overtaken_three_times_computes_its_rows_once(
    statement: Statement, reissued: list[Reissue]
) -> None:
    times = 3

    def once_more() -> None:
        nonlocal times
        statement.foreign("base_{}")()
        times -= 1
        if times:
            statement.at["registered"] = once_more

    statement.at["registered"] = once_more
    statement.run()
    assert statement.made == 1
    assert [(w.old, w.new) for w in reissued] == [(1, 3), (3, 5), (5, 7)]
    bases = {f"base_{n:07d}" for n in (2, 4, 6)}
    assert directories(statement.place) == {*bases, "delta_0000007_0000007_0000"}


# ---- partitions ----------------------------------------------------------------------------------


@pytest.mark.promise("O4")
def test_a_restart_leaves_no_staged_files_in_a_partition_with_its_own_location(
    partitioned: Statement, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    partitioned.at["registered"] = partitioned.foreign("base_{}", elsewhere)
    assert how(partitioned.run()) == ("metadata", "")
    assert directories(elsewhere) == {"base_0000002", "delta_0000003_0000003_0000"}
    assert directories(partitioned.place) == set()


def test_a_killed_restart_leaves_no_files_in_a_partition_with_its_own_location(
    partitioned: Statement, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    write = partitioned.foreign("base_{}", elsewhere)

    def meanwhile() -> None:
        write()
        partitioned.at["published"] = partitioned.kill

    partitioned.at["registered"] = meanwhile
    with pytest.raises(errors.TransactionAbortedError):
        partitioned.run()
    assert partitioned.made == 1
    assert directories(elsewhere) == {"base_0000002"}
    assert directories(partitioned.place) == set()


@pytest.mark.parametrize("step", ["staged", "noted", "published"])
def test_an_insert_whose_partition_was_moved_is_computed_again(
    partitioned: Statement, tmp_path: Path, step: str
) -> None:
    """Its files are staged for the old location of the partition."""
    (tmp_path / "again").mkdir()

    def move() -> None:
        partitioned.server.places[partitioned.table.ref, MONTH] = f"file:{tmp_path}/again"

    partitioned.at[step] = move
    result = partitioned.run()
    assert partitioned.made == 2
    assert how(result) == (
        "in full",
        f"partition month=1 is no longer at file:{tmp_path}/elsewhere",
    )
    assert directories(tmp_path / "again") == {"delta_0000002_0000002_0000"}
    assert directories(tmp_path / "elsewhere") == set()


@pytest.mark.promise("O4")
@pytest.mark.parametrize("step", ["noted", "published"])
def test_an_insert_whose_partition_was_dropped_adds_the_partition_again(
    partitioned: Statement, step: str
) -> None:
    del partitioned.server.places[partitioned.table.ref, MONTH]
    partitioned.at[step] = lambda: partitioned.server.partitions[partitioned.table.ref].pop(MONTH)
    assert how(partitioned.run()) == ("metadata", "")
    assert partitioned.made == 1
    assert directories(partitioned.place / "month=1") == {"delta_0000002_0000002_0000"}
    assert directories(partitioned.place) == {"month=1"}


def test_rows_are_computed_again_if_published_files_cannot_return_to_staging(
    partitioned: Statement,
) -> None:
    del partitioned.server.places[partitioned.table.ref, MONTH]

    def meanwhile() -> None:
        del partitioned.server.partitions[partitioned.table.ref][MONTH]
        (staging,) = partitioned.place.glob("_tmp_hiveacid_*")
        shutil.rmtree(staging)
        staging.write_text("in the way")

    partitioned.at["published"] = meanwhile
    result = partitioned.run()
    assert partitioned.made == 2
    assert result.status is JobStatus.COMMITTED
    found = directories(partitioned.place / "month=1")
    assert found == {"delta_0000002_0000002_0000"}


# ---- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["base_{}", "delta_{0}_{0}_0000"])
def test_a_write_that_lost_a_conflict_under_the_strict_policy_does_not_restart(
    statement: Statement, name: str
) -> None:
    """Also if nothing is recorded about the winner, for example about an insert by Hive."""
    statement.policy = ConflictPolicy.STRICT
    statement.at["registered"] = statement.foreign(name)
    with pytest.raises(errors.WriteConflictError, match=r"_?0000002(_0000)? was committed") as lost:
        statement.run()
    assert (lost.value.winner.write_id, lost.value.winner.job_key) == (2, None)
    assert "not in our ledgers" in "".join(lost.value.__notes__)
    assert statement.made == 1
    assert directories(statement.place) == {name.format("0000002")}


def test_a_write_id_list_that_ends_early_does_not_turn_an_old_write_into_a_conflict(
    statement: Statement,
) -> None:
    """The metastore remembers only an aborted write ID, and its list ends there."""
    client = FakeClient(statement.server)
    early, late = client.open_txn(), client.open_txn()
    client.allocate_write_id(late, statement.table.ref)
    client.allocate_write_id(early, statement.table.ref)
    (statement.place / "delta_0000002_0000002_0000").mkdir()
    client.commit_txn(early)
    client.abort_txn(late)
    statement.server.clean_write_ids()
    short = client.valid_write_ids([statement.table.ref], client.valid_txns())[statement.table.ref]
    assert short.high_watermark == 1
    statement.policy = ConflictPolicy.STRICT
    assert statement.run().status is JobStatus.COMMITTED


@pytest.mark.parametrize("name", ["delta_{0}_{0}_0000", "delta_0000001_{0}", "base_{0}_v0000009"])
def test_a_restarted_write_conflicts_with_commits_since_its_first_beginning(
    statement: Statement, name: str
) -> None:
    """A compaction may have replaced the files of such a commit before the restart."""
    statement.policy = ConflictPolicy.STRICT
    access = TableAccess(table=statement.table, operations=frozenset({UPDATE}))
    restart_state, job = RestartState(), statement.job
    with begun(job, [access], [], restart_state) as write:
        first = write.txn.began[statement.table.ref]
        write.txn.abandon()
    statement.foreign(name)()
    with begun(job, [access], [], restart_state) as write:
        assert write.txn.began[statement.table.ref] == first
        with pytest.raises(errors.WriteConflictError):
            write.look_ahead()
        write.txn.abandon()

"""A write of several tables, and of one table in several statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.ids import AttemptId, BucketId, StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.job import OnRerun
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import StagedDirectory, StagedFile, assemble
from airflow_hiveacid.writing.table_write import TableWrite, WriteOrder
from airflow_hiveacid.writing.write import Write, WriteState, writing
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

_, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
WHOLE = PartitionName()
ONE = AttemptId(1, "1" * 12)
STEPS = ("staged", "registered", "verified", "noted", "published", "body_done")


ONE_WINS = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
"""3.1 lets one update of a table wait for the other; on 4.x the first to commit wins."""


class DeadError(Exception):
    """Ends a job at a step."""


@pytest.fixture
def tables(client: FakeClient, table: TableInfo, tmp_path: Path) -> tuple[TableInfo, TableInfo]:
    (tmp_path / "u").mkdir()
    other = client.create_table(
        NewTable(
            ref=TableRef("default", "u"),
            columns=(Column(name="id", type="bigint"),),
            location=f"file:{tmp_path}/u",
        )
    )
    return table, other


@dataclass(frozen=True, kw_only=True)
class Both:
    """A job that writes a row of each of two tables."""

    client: FakeClient
    tables: tuple[TableInfo, ...]
    clock: ManualClock
    attempt: AttemptId = ONE
    key: str = "dag/run/task/-1"
    generation: int = 0
    statement: str = "both"
    operation: DataOperation = UPDATE
    at: dict[str, Callable[[], object]] | None = None

    def order(self) -> WriteOrder:
        return WriteOrder(
            run=Run(
                generation=self.generation,
                statement={"kind": self.statement},
                on_rerun=OnRerun.APPLY,
            ),
            accesses=tuple(
                TableAccess(table=t, operations=frozenset({self.operation})) for t in self.tables
            ),
            ledger_retention_s=1000.0,
            terms=job_terms(
                self.key,
                attempt=self.attempt,
                clock=self.clock,
                on_step=lambda step: (self.at or {}).get(step, lambda: None)(),
            ),
        )

    def run(self) -> Write:
        with writing(self.client, self.order()) as write:
            if write.earlier_run() is not None:
                write.txn.abandon()
                return write
            for number, part in enumerate(write.tables.values()):
                stage(write, part, StatementId(number))
            finish(write)
        return write


def stage(
    write: Write,
    part: TableWrite,
    statement: StatementId,
    *,
    is_base: bool = False,
    rows: str = "rows",
) -> None:
    """Stage one small file of one statement."""
    table = part.table
    delta = DeltaName(low=part.write_id, high=part.write_id, statement_id=statement)
    name = str(BaseName(write_id=part.write_id) if is_base else delta)
    staging = Staging.of(table, table.location, part.token(statement))
    path = staging.attempt_path(name, bucket_file(BucketId(0)), "a0").removeprefix("file:")
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text(rows)
    file = StagedFile(
        partition=WHOLE,
        directory=name,
        bucket=BucketId(0),
        attempt="a0",
        rows=1,
        updated=0,
        size_bytes=len(rows),
    )
    write.stage(table.ref, assemble([file], {WHOLE: staging}))


def finish(write: Write) -> None:
    write.register()
    write.verify()
    write.note("{}")
    write.publish()


def directories(table: TableInfo) -> set[str]:
    place = Path(table.location.removeprefix("file:"))
    return {p.name for p in place.iterdir() if p.name != HIDDEN_DIRECTORY}


def notes(table: TableInfo) -> list[str]:
    hidden = Path(table.location.removeprefix("file:")) / HIDDEN_DIRECTORY
    names = [p.name for p in hidden.iterdir()] if hidden.is_dir() else []
    return sorted(n.split(".")[-2] for n in names if not n.startswith(("_commit_", "_owner")))


@pytest.fixture
def both(client: FakeClient, tables: tuple[TableInfo, ...], clock: ManualClock) -> Both:
    return Both(client=client, tables=tables, clock=clock)


def test_both_tables_are_published_and_get_confirmed_ledger_entries(both: Both) -> None:
    assert both.run().state is WriteState.COMMITTED
    first, second = both.tables
    assert directories(first) == {"delta_0000001_0000001_0000"}
    assert directories(second) == {"delta_0000001_0000001_0001"}
    assert [notes(t) for t in both.tables] == [["done", "prepared"]] * 2


@pytest.mark.promise("T15")
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_leaves_nothing_in_any_table(both: Both, step: str) -> None:
    def die() -> None:
        raise DeadError

    with pytest.raises(DeadError):
        replace(both, at={step: die}).run()
    assert [directories(t) for t in both.tables] == [set(), set()]
    assert [notes(t) for t in both.tables] == [[], []]
    assert both.run().state is WriteState.COMMITTED


@pytest.mark.parametrize("step", [*STEPS[3:]])
def test_a_retry_removes_what_a_killed_try_published_from_both_tables(
    both: Both, server: FakeMetastore, step: str
) -> None:
    class KilledError(BaseException):
        """As SIGKILL, after which nothing is undone."""

    def die() -> None:
        raise KilledError

    dead = writing(both.client, replace(both, at={step: die}).order())
    write = dead.__enter__()
    for number, part in enumerate(write.tables.values()):
        stage(write, part, StatementId(number))
    if step == "body_done":
        finish(write)
    else:
        with pytest.raises(KilledError):
            finish(write)
    again = replace(both, attempt=AttemptId(2, "2" * 12)).run()
    assert again.state is WriteState.COMMITTED
    assert [
        {d.split("_")[1] for d in directories(t) if d.startswith("delta")} for t in both.tables
    ] == [{"0000002"}] * 2
    del server


@pytest.mark.parametrize("lost", [0, 1])
def test_an_entry_that_another_table_of_the_job_lacks_neither_skips_nor_repeats_the_job(
    both: Both, lost: int
) -> None:
    """The other table was dropped and recreated, or a program that writes to one forged it."""
    both.run()
    hidden = Path(both.tables[lost].location.removeprefix("file:")) / HIDDEN_DIRECTORY
    for entry in hidden.iterdir():
        entry.unlink()
    again = replace(both, attempt=AttemptId(2, "2" * 12))
    with pytest.raises(errors.EarlierRunUnknownError, match=f"of {both.tables[lost].ref} has no"):
        again.run()
    assert directories(both.tables[lost]) == {f"delta_0000001_0000001_000{lost}"}
    assert replace(again, tables=both.tables[1 - lost :][:1]).run().state is WriteState.ABORTED
    assert replace(again, generation=1).run().state is WriteState.COMMITTED  # the task was cleared


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_an_entry_of_a_program_that_may_write_to_one_table_does_not_skip_the_job(
    both: Both, *, is_confirmed: bool
) -> None:
    """The entry is correct but for its job: its transaction committed, its directory exists."""
    table = both.tables[0]
    other = replace(both, tables=(table,), key="another", statement="both").run()
    entry = Ledger.of(table).entry_of(txn_id=other.txn.txn_id, write_id=None)
    assert entry is not None
    forged = replace(entry, job_key=both.key, is_confirmed=is_confirmed)
    Ledger.of(table).write(forged)
    with pytest.raises(errors.EarlierRunUnknownError, match="another program wrote the entry"):
        both.run()
    assert directories(both.tables[1]) == set()
    Ledger.of(table).withdraw(forged)
    assert both.run().state is WriteState.COMMITTED


def test_a_job_is_done_if_one_of_its_entries_was_damaged(both: Both) -> None:
    both.run()
    hidden = Path(both.tables[0].location.removeprefix("file:")) / HIDDEN_DIRECTORY
    for entry in hidden.glob("*.*.json"):
        entry.write_text("{")
    assert replace(both, attempt=AttemptId(2, "2" * 12)).run().state is WriteState.ABORTED


def test_an_entry_that_a_copy_writes_during_the_look_is_found(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.run()
    first, real = Ledger.of(both.tables[0]), Ledger.entries
    hidden = [True]

    def late(ledger: Ledger, job_key: str) -> tuple[LedgerEntry, ...]:
        is_hidden = ledger == first and hidden and hidden.pop()
        return () if is_hidden else real(ledger, job_key)

    monkeypatch.setattr(Ledger, "entries", late)
    assert replace(both, attempt=AttemptId(2, "2" * 12)).run().state is WriteState.ABORTED


@pytest.mark.parametrize("compacted", [0, 1])
def test_an_unconfirmed_commit_is_proven_by_the_directories_of_any_one_table(
    both: Both, compacted: int
) -> None:
    both.run()
    for at, table in enumerate(both.tables):
        place = Path(table.location.removeprefix("file:"))
        for entry in (place / HIDDEN_DIRECTORY).glob("*done*"):
            entry.unlink()
        if at == compacted:
            (delta,) = place.glob("delta*")
            delta.rename(place / "base_0000001")
    assert replace(both, attempt=AttemptId(2, "2" * 12)).run().state is WriteState.ABORTED
    assert [notes(t) for t in both.tables] == [["done", "prepared"]] * 2
    for table in both.tables:
        place = Path(table.location.removeprefix("file:"))
        for entry in (place / HIDDEN_DIRECTORY).glob("*done*"):
            entry.unlink()
        for directory in directories(table):
            (place / directory).rename(place / "base_0000009")
    with pytest.raises(errors.EarlierRunUnknownError):
        replace(both, attempt=AttemptId(3, "3" * 12)).run()


def test_different_statements_under_the_same_job_key_are_refused(both: Both) -> None:
    both.run()
    with pytest.raises(errors.StatementChangedError):
        replace(both, attempt=AttemptId(2, "2" * 12), statement="others").run()


def test_an_existing_directory_in_the_second_table_leaves_the_first_one_unchanged(
    both: Both,
) -> None:
    place = Path(both.tables[1].location.removeprefix("file:"))
    (place / "delta_0000001_0000001_0001").mkdir()
    with pytest.raises(errors.DirectoryExistsError):
        both.run()
    assert [directories(t) for t in both.tables] == [set(), {"delta_0000001_0000001_0001"}]


def test_a_write_that_is_overtaken_in_the_second_table_leaves_nothing_in_the_first(
    both: Both,
) -> None:
    inserts = replace(both, operation=INSERT)
    other = replace(both, tables=both.tables[1:], operation=OVERWRITE, key="other")

    def overwrite() -> None:
        with writing(both.client, other.order()) as write:
            (part,) = write.tables.values()
            stage(write, part, StatementId(0), is_base=True)
            finish(write)

    with pytest.raises(errors.OvertakenError, match="base_0000002"):
        replace(inserts, at={"allocated": overwrite}).run()
    assert [directories(t) for t in both.tables] == [set(), {"base_0000002"}]
    inserts.run()
    assert directories(both.tables[0]) == {"delta_0000002_0000002_0000"}


@ONE_WINS
def test_a_conflict_in_the_second_table_removes_the_files_of_the_first_one_too(both: Both) -> None:
    other = replace(both, tables=both.tables[1:], key="other")
    with pytest.raises(errors.WriteConflictError):
        replace(both, at={"published": other.run}).run()
    assert [directories(t) for t in both.tables] == [set(), {"delta_0000002_0000002_0000"}]
    assert [notes(t) for t in both.tables] == [[], ["done", "prepared"]]


def test_a_failure_to_undo_one_table_does_not_stop_the_undo_of_the_other(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise errors.StorageError("the disk is read-only now")

    def die() -> None:
        raise DeadError

    first = both.tables[0].location
    real = Staging.discard
    monkeypatch.setattr(Staging, "discard", lambda s: fail(s) if s.location == first else real(s))
    with pytest.raises(DeadError):
        replace(both, at={"registered": die}).run()
    assert directories(both.tables[1]) == set()


def test_later_statements_read_what_earlier_ones_have_staged(both: Both) -> None:
    with writing(both.client, both.order()) as write:
        part, other = write.tables.values()
        assert part.staged is None
        stage(write, part, StatementId(0), rows="12345")
        stage(write, part, StatementId(1))
        staged = part.staged
        assert staged is not None
        assert [(f.path, f.size_bytes) for f in staged.files[WHOLE]] == [
            ("delta_0000001_0000001_0000/bucket_00000", 5),
            ("delta_0000001_0000001_0001/bucket_00000", 4),
        ]
        for file in staged.files[WHOLE]:
            assert Path(f"{file.root}/{file.path}".removeprefix("file:")).is_file()
        assert other.staged is None
        finish(write)
    assert len(directories(both.tables[0])) == 2
    assert directories(both.tables[1]) == set()


def test_an_overwrite_replaces_the_files_that_earlier_statements_staged(both: Both) -> None:
    with writing(both.client, replace(both, operation=OVERWRITE).order()) as write:
        part, _ = write.tables.values()
        stage(write, part, StatementId(0))
        stage(write, part, StatementId(1), is_base=True)
        stage(write, part, StatementId(2), is_base=True, rows="last")
        finish(write)
    place = Path(both.tables[0].location.removeprefix("file:"))
    assert directories(both.tables[0]) == {"base_0000001"}
    assert (place / "base_0000001" / "bucket_00000").read_text() == "last"


@ONE_WINS
def test_a_table_that_no_statement_changes_causes_no_conflict(both: Both) -> None:
    idle = replace(both, tables=both.tables[1:], key="other")
    with writing(both.client, both.order()) as write:
        part, _ = write.tables.values()
        stage(write, part, StatementId(0))
        write.register()
        idle.run()
        write.verify()
        write.note("{}")
        write.publish()
    assert directories(both.tables[0]) == {"delta_0000001_0000001_0000"}
    assert directories(both.tables[1]) == {"delta_0000002_0000002_0000"}


def test_all_operations_of_a_transaction_on_a_partition_are_registered(
    client: FakeClient, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore needs the update to find its conflicts, whatever statement follows it."""
    (tmp_path / "parts").mkdir()
    parts = client.create_table(
        NewTable(
            ref=TableRef("default", "parts"),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=(Column(name="p", type="int"),),
            location=f"file:{tmp_path}/parts",
        )
    )
    recorded: list[frozenset[DataOperation]] = []
    monkeypatch.setattr(
        MetastoreTransaction,
        "register_partitions",
        lambda _txn, _ref, _names, operations: recorded.append(frozenset(operations)),
    )
    name = PartitionName.parse("p=1")
    with writing(client, Both(client=client, tables=(parts,), clock=clock).order()) as write:
        for directory, operation in (("delete_delta_1_1_0000", UPDATE), ("delta_1_1_0001", INSERT)):
            place = Staging.of(parts, parts.default_partition_location(name), directory)
            staged = StagedDirectory(partition=name, directory=directory, staging=place, files=())
            write.stage(parts.ref, (staged,), {operation})
        write.register()
        write.txn.abandon()
    assert recorded == [{UPDATE, INSERT}]

"""A write of several tables, and of one table in several statements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import StagedDirectory
from airflow_hiveacid.writing.write import WriteState, writing
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.unit.writing.writes import (
    INSERT,
    OVERWRITE,
    SECOND,
    THIRD,
    UPDATE,
    WHOLE,
    Job,
    die,
    directories,
    finish,
    hidden,
    made,
    notes,
    place,
    stage,
)

STEPS = ("staged", "registered", "verified", "noted", "published", "body_done")

ONE_WINS = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
"""3.1 lets one update of a table wait for the other; on 4.x the first to commit wins."""


class DeadError(Exception):
    """Ends a job at a step."""


def fail() -> None:
    raise DeadError


@pytest.fixture
def both(client: FakeClient, table: TableInfo, clock: ManualClock, tmp_path: Path) -> Job:
    tables = (table, made(client, tmp_path, "u"))
    return Job(client=client, tables=tables, clock=clock, operation=UPDATE)


def test_both_tables_are_published_and_get_confirmed_ledger_entries(both: Job) -> None:
    assert both.run().state is WriteState.COMMITTED
    first, second = both.tables
    assert directories(first) == {"delta_0000001_0000001_0000"}
    assert directories(second) == {"delta_0000001_0000001_0001"}
    assert [notes(t) for t in both.tables] == [["done", "prepared"]] * 2


@pytest.mark.promise("T15")
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_leaves_nothing_in_any_table(both: Job, step: str) -> None:
    with pytest.raises(DeadError):
        replace(both, at={step: fail}).run()
    assert [directories(t) for t in both.tables] == [set(), set()]
    assert [notes(t) for t in both.tables] == [[], []]
    assert both.run().state is WriteState.COMMITTED


@pytest.mark.parametrize("step", [*STEPS[3:]])
def test_a_retry_removes_what_a_killed_try_published_from_both_tables(both: Job, step: str) -> None:
    _dead = replace(both, at={step: die}).kill()
    again = replace(both, attempt=SECOND).run()
    assert again.state is WriteState.COMMITTED
    assert [
        {d.split("_")[1] for d in directories(t) if d.startswith("delta")} for t in both.tables
    ] == [{"0000002"}] * 2


@pytest.mark.parametrize("lost", [0, 1])
def test_an_entry_that_another_table_of_the_job_lacks_neither_skips_nor_repeats_the_job(
    both: Job, lost: int
) -> None:
    """The other table was dropped and recreated, or a program that writes to one forged it."""
    both.run()
    for entry in hidden(both.tables[lost]).iterdir():
        entry.unlink()
    again = replace(both, attempt=SECOND)
    with pytest.raises(errors.EarlierRunUnknownError, match=f"of {both.tables[lost].ref} has no"):
        again.run()
    assert directories(both.tables[lost]) == {f"delta_0000001_0000001_000{lost}"}
    assert replace(again, tables=both.tables[1 - lost :][:1]).run().state is WriteState.ABORTED
    assert replace(again, generation=1).run().state is WriteState.COMMITTED  # the task was cleared


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_an_entry_of_a_program_that_may_write_to_one_table_does_not_skip_the_job(
    both: Job, *, is_confirmed: bool
) -> None:
    """The entry is correct but for its job: its transaction committed, its directory exists."""
    table = both.tables[0]
    other = replace(both, tables=(table,), key="another").run()
    entry = Ledger.of(table).entry_of(txn_id=other.txn.txn_id, write_id=None)
    assert entry is not None
    forged = replace(entry, job_key=both.key, is_confirmed=is_confirmed)
    Ledger.of(table).write(forged)
    with pytest.raises(errors.EarlierRunUnknownError, match="another program wrote the entry"):
        both.run()
    assert directories(both.tables[1]) == set()
    Ledger.of(table).withdraw(forged)
    assert both.run().state is WriteState.COMMITTED


def test_a_job_is_done_if_one_of_its_entries_was_damaged(both: Job) -> None:
    both.run()
    for entry in hidden(both.tables[0]).glob("*.*.json"):
        entry.write_text("{")
    assert replace(both, attempt=SECOND).run().state is WriteState.ABORTED


def test_an_entry_that_a_copy_writes_during_the_look_is_found(
    both: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.run()
    first, real = Ledger.of(both.tables[0]), Ledger.entries
    is_first = [True]

    def late(ledger: Ledger, job_key: str) -> tuple[LedgerEntry, ...]:
        is_hidden = ledger == first and is_first and is_first.pop()
        return () if is_hidden else real(ledger, job_key)

    monkeypatch.setattr(Ledger, "entries", late)
    assert replace(both, attempt=SECOND).run().state is WriteState.ABORTED


@pytest.mark.parametrize("compacted", [0, 1])
def test_an_unconfirmed_commit_is_proven_by_the_directories_of_any_one_table(
    both: Job, compacted: int
) -> None:
    both.run()
    for at, table in enumerate(both.tables):
        for entry in hidden(table).glob("*done*"):
            entry.unlink()
        if at == compacted:
            (delta,) = place(table).glob("delta*")
            delta.rename(place(table) / "base_0000001")
    assert replace(both, attempt=SECOND).run().state is WriteState.ABORTED
    assert [notes(t) for t in both.tables] == [["done", "prepared"]] * 2
    for table in both.tables:
        for entry in hidden(table).glob("*done*"):
            entry.unlink()
        for directory in directories(table):
            (place(table) / directory).rename(place(table) / "base_0000009")
    with pytest.raises(errors.EarlierRunUnknownError):
        replace(both, attempt=THIRD).run()


def test_different_statements_under_the_same_job_key_are_refused(both: Job) -> None:
    both.run()
    with pytest.raises(errors.StatementChangedError):
        replace(both, attempt=SECOND, statement="others").run()


def test_an_existing_directory_in_the_second_table_leaves_the_first_one_unchanged(
    both: Job,
) -> None:
    (place(both.tables[1]) / "delta_0000001_0000001_0001").mkdir()
    with pytest.raises(errors.DirectoryExistsError):
        both.run()
    assert [directories(t) for t in both.tables] == [set(), {"delta_0000001_0000001_0001"}]


def test_a_write_that_is_overtaken_in_the_second_table_leaves_nothing_in_the_first(
    both: Job,
) -> None:
    inserts = replace(both, operation=INSERT)
    other = replace(both, tables=both.tables[1:], operation=OVERWRITE, key="other")
    with pytest.raises(errors.OvertakenError, match="base_0000002"):
        replace(inserts, at={"allocated": other.run}).run()
    assert [directories(t) for t in both.tables] == [set(), {"base_0000002"}]
    inserts.run()
    assert directories(both.tables[0]) == {"delta_0000002_0000002_0000"}


@ONE_WINS
def test_a_conflict_in_the_second_table_removes_the_files_of_the_first_one_too(both: Job) -> None:
    other = replace(both, tables=both.tables[1:], key="other")
    with pytest.raises(errors.WriteConflictError):
        replace(both, at={"published": other.run}).run()
    assert [directories(t) for t in both.tables] == [set(), {"delta_0000002_0000002_0000"}]
    assert [notes(t) for t in both.tables] == [[], ["done", "prepared"]]


def test_a_failure_to_undo_one_table_does_not_stop_the_undo_of_the_other(
    both: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise errors.StorageError("the disk is read-only now")

    first = both.tables[0].location
    real = Staging.discard
    monkeypatch.setattr(Staging, "discard", lambda s: refuse(s) if s.location == first else real(s))
    with pytest.raises(DeadError):
        replace(both, at={"registered": fail}).run()
    assert directories(both.tables[1]) == set()


def test_later_statements_read_what_earlier_ones_have_staged(both: Job) -> None:
    with writing(both.client, both.order()) as write:
        part, other = write.tables.values()
        assert part.staged is None
        stage(write, part, 0, rows="12345")
        stage(write, part, 1)
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


def test_an_overwrite_replaces_the_files_that_earlier_statements_staged(both: Job) -> None:
    with writing(both.client, replace(both, operation=OVERWRITE).order()) as write:
        part, _ = write.tables.values()
        stage(write, part, 0)
        stage(write, part, 1, is_base=True)
        stage(write, part, 2, is_base=True, rows="last")
        finish(write)
    assert directories(both.tables[0]) == {"base_0000001"}
    assert (place(both.tables[0]) / "base_0000001" / "bucket_00000").read_text() == "last"


@ONE_WINS
def test_a_table_that_no_statement_changes_causes_no_conflict(both: Job) -> None:
    idle = replace(both, tables=both.tables[1:], key="other")
    with writing(both.client, both.order()) as write:
        part, _ = write.tables.values()
        stage(write, part, 0)
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
    parts = made(client, tmp_path, "parts", "p")
    recorded: list[frozenset[DataOperation]] = []
    monkeypatch.setattr(
        MetastoreTransaction,
        "register_partitions",
        lambda _txn, _ref, _names, operations: recorded.append(frozenset(operations)),
    )
    name = PartitionName.parse("p=1")
    with writing(
        client, Job(client=client, tables=(parts,), clock=clock, operation=UPDATE).order()
    ) as write:
        for directory, operation in (("delete_delta_1_1_0000", UPDATE), ("delta_1_1_0001", INSERT)):
            staging = Staging.of(parts, parts.default_partition_location(name), directory)
            staged = StagedDirectory(partition=name, directory=directory, staging=staging, files=())
            write.stage(parts.ref, (staged,), {operation})
        write.register()
        write.txn.abandon()
    assert recorded == [{UPDATE, INSERT}]

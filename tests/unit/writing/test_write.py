from __future__ import annotations

import copy
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSystem

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.ids import StatementId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry, Owner
from airflow_hiveacid.format.table import (
    Column,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TransactionalKind,
)
from airflow_hiveacid.jobs.contract import CONTRACT_VERSION
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.maintenance.ownership import take_ownership
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import LockRequest, TableAccess, components_for
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.table_notes import OWNER_FILE, note_owner
from airflow_hiveacid.writing import publish
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.publish import StagedDirectory
from airflow_hiveacid.writing.restarts import already_done
from airflow_hiveacid.writing.write import Write, WriteState, writing
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.writing.writes import (
    DELETE,
    FIRST,
    INSERT,
    OVERWRITE,
    SECOND,
    THIRD,
    UPDATE,
    WHOLE,
    Job,
    die,
    finish,
    hidden,
    made,
    notes,
    place,
    staged_file,
)


@pytest.fixture
def job(client: FakeClient, table: TableInfo, clock: ManualClock) -> Job:
    return Job(client=client, tables=(table,), clock=clock)


def foreign(job: Job, name: str) -> Path:
    """The file of a directory beside those of the job."""
    file = place(job.table) / name / "bucket_00000"
    file.parent.mkdir()
    file.write_text("somebody's rows")
    return file


def test_a_write_leaves_its_delta_and_two_ledger_entries(job: Job) -> None:
    assert job.run().state is WriteState.COMMITTED
    assert job.directories() == {"delta_0000001_0000001_0000"}
    assert job.notes() == ["done", "prepared"]


def test_a_commit_removes_ledger_entries_after_their_retention_time(job: Job) -> None:
    """Otherwise a table that is never cleaned would keep two files for each change."""
    long_ago = 100.0
    with writing(job.client, replace(job.order(), now_s=lambda: long_ago)) as write:
        job.publish(write)
    for entry in hidden(job.table).iterdir():
        os.utime(entry, (long_ago, long_ago))
    assert job.notes() == ["done", "prepared"]
    replace(job, key="other").run()
    assert job.notes() == ["done", "prepared"]  # its own


@pytest.mark.parametrize("operation", [INSERT, UPDATE, OVERWRITE])
def test_a_write_that_an_overwrite_overtakes_leaves_nothing_and_gets_a_higher_write_id(
    job: Job, operation: DataOperation
) -> None:
    overwrite = replace(job, key="other", operation=OVERWRITE)
    late = replace(job, operation=operation, at={"allocated": overwrite.run})
    if operation is INSERT:  # a change of rows is begun anew by the transaction itself
        with pytest.raises(errors.OvertakenError, match="base_0000002"):
            late.run()
        assert job.directories() == {"base_0000002"}
        assert job.notes() == ["done", "prepared"]
    assert late.run().txn.write_ids[job.table.ref] == 3


def test_an_insert_is_overtaken_by_a_base_that_the_metastore_no_longer_lists(job: Job) -> None:
    """An earlier transaction with a higher write ID is forgotten, so the list of 4.0.1 is short."""
    early = job.client.open_txn()

    def overwrite() -> None:
        write_id = job.client.allocate_write_id(early, job.table.ref)
        foreign(job, f"base_{write_id:07d}")
        job.client.commit_txn(early)
        job.server.clean_write_ids()

    with pytest.raises(errors.OvertakenError, match="base_0000002"):
        replace(job, at={"allocated": overwrite}).run()
    assert job.run().txn.write_ids[job.table.ref] == 3


def test_an_insert_that_a_later_insert_overtakes_keeps_its_write_id(job: Job) -> None:
    late = replace(job, at={"allocated": replace(job, key="other").run})
    assert late.run().txn.write_ids[job.table.ref] == 1
    assert job.directories() == {"delta_0000001_0000001_0000", "delta_0000002_0000002_0000"}


def test_an_overwrite_is_overtaken_by_an_insert_without_locks_at_the_last_moment(job: Job) -> None:
    """Its locks prevent this, but an engine that takes no locks can still insert."""

    def stranger() -> None:
        foreign(job, "delta_0000002_0000002_0000")
        txn_id = job.client.open_txn()
        job.client.allocate_write_id(txn_id, job.table.ref)
        job.client.commit_txn(txn_id)

    with pytest.raises(errors.OvertakenError, match="delta_0000002"):
        replace(job, operation=OVERWRITE, at={"registered": stranger}).run()
    assert job.directories() == {"delta_0000002_0000002_0000"}


def test_a_directory_that_already_exists_is_not_changed(job: Job) -> None:
    old = foreign(job, "delta_0000001_0000001_0000")
    with pytest.raises(errors.DirectoryExistsError, match="was not changed"):
        job.run()
    assert old.read_text() == "somebody's rows"
    assert job.directories() == {old.parent.name}
    assert job.notes() == []


def test_a_completed_rename_that_raised_an_error_is_undone(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Staging.publish

    def lossy(staging: Staging, names: list[str]) -> None:
        real(staging, names)
        raise errors.StorageError("the answer was lost")

    monkeypatch.setattr(Staging, "publish", lossy)
    with pytest.raises(errors.StorageError, match="lost"):
        job.run()
    assert job.directories() == set()


def test_a_fenced_try_removes_nothing_of_the_try_that_fenced_it(job: Job) -> None:
    retry = replace(job, attempt=SECOND)
    zombie = replace(job, at={"noted": retry.run})
    with pytest.raises((errors.FencedError, errors.TransactionAbortedError)):
        zombie.run()
    assert job.directories() == {"delta_0000002_0000002_0000"}
    assert job.notes() == ["done", "prepared"]
    again = replace(job, attempt=THIRD).run()
    assert again.state is WriteState.ABORTED  # already done
    assert job.directories() == {"delta_0000002_0000002_0000"}


def test_a_late_older_copy_does_not_repeat_the_work_of_the_newer_one(job: Job) -> None:
    replace(job, attempt=SECOND).run()
    assert job.run().state is WriteState.ABORTED
    assert job.directories() == {"delta_0000001_0000001_0000"}


def test_a_late_older_generation_of_a_job_is_fenced(job: Job) -> None:
    replace(job, attempt=SECOND, generation=1).run()
    with pytest.raises(errors.FencedError):
        job.run()
    assert job.directories() == {"delta_0000001_0000001_0000"}


def test_an_aborted_transaction_is_detected_right_before_publishing(job: Job) -> None:
    def abort() -> None:
        job.server.end(job.server.txns[max(job.server.txns)], TxnState.ABORTED)

    seen: list[str] = []
    with pytest.raises(errors.TransactionAbortedError):
        replace(job, at={"registered": abort, "published": lambda: seen.append("p")}).run()
    assert seen == []
    assert job.directories() == set()
    assert job.notes() == []


@pytest.mark.promise("W19")
def test_a_commit_that_loses_a_conflict_removes_its_files_and_ledger_entry(job: Job) -> None:
    def rival() -> None:
        error = errors.WriteConflictError(txn_id=1, reason="write conflict")
        job.server.break_next("commit_txn", error, is_done=False)

    with pytest.raises(errors.WriteConflictError):
        replace(job, operation=UPDATE, at={"body_done": rival}).run()
    assert job.directories() == set()
    assert job.notes() == []


def test_an_update_that_changes_no_row_causes_no_conflict(job: Job) -> None:
    rival = job.client.open_txn()
    job.client.allocate_write_id(rival, job.table.ref)
    with writing(job.client, replace(job, operation=UPDATE).order()) as write:
        finish(write)
    assert write.state is WriteState.COMMITTED
    changes = [TableAccess(table=job.table, operations=frozenset({UPDATE}))]
    components = components_for([], changes, job.client.generation)
    job.client.lock(LockRequest(txn_id=rival, components=components, agent_info="rival"))
    job.client.commit_txn(rival)  # it was at work meanwhile, and has lost against nothing


def cut_off(job: Job) -> None:
    """Run it; its commit happens, and the answer and all that could tell of it are lost."""
    lost = errors.MetastoreUnavailableError(uris=("thrift://h:1",), method="x", reason="cut off")

    def break_all() -> None:
        job.server.break_next("commit_txn", lost, is_done=True)
        for _ in range(99):
            job.server.break_next("valid_txns", lost, is_done=False)

    with pytest.raises(errors.CommitStateUnknownError):
        replace(job, at={"body_done": break_all}).run()
    job.server.faults.clear()


def test_after_a_commit_with_an_unknown_state_nothing_is_removed(job: Job) -> None:
    cut_off(job)
    assert "delta_0000001_0000001_0000" in job.directories()
    assert job.notes() == ["prepared"]
    assert replace(job, attempt=SECOND).run().state is WriteState.ABORTED  # it was committed
    assert job.notes() == ["done", "prepared"]  # and that is certain from now on


def test_a_damaged_ledger_entry_stops_only_the_retry_of_its_own_run(job: Job) -> None:
    job.run()
    for entry in hidden(job.table).glob("*.*.json"):
        entry.write_text(entry.read_text()[:40])
    with pytest.raises(errors.EarlierRunUnknownError, match="_hiveacid directory is damaged"):
        replace(job, attempt=SECOND).run()
    assert replace(job, attempt=SECOND, generation=1).run().state is WriteState.COMMITTED
    assert replace(job, attempt=SECOND, key="another").run().state is WriteState.COMMITTED


def test_a_forged_ledger_entry_does_not_make_a_job_count_as_done(job: Job) -> None:
    """A user who may write to the table's directory can use IDs that were never allocated."""
    replace(job, key="another").run()
    before = job.directories()
    forged = LedgerEntry(
        job_key=job.key,
        generation=0,
        attempt=FIRST,
        statement={"kind": job.statement},
        table_id=job.table.table_id,
        txn_id=TxnId(999_999),
        write_id=WriteId(999_999),
        directories=(),
        result="{}",
        recorded_s=1.0,
        retention_s=1000.0,
        is_confirmed=True,
    )
    Ledger.of(job.table).write(forged)
    with pytest.raises(
        errors.EarlierRunUnknownError, match="has allocated transactions only up to 2"
    ):
        job.run()
    Ledger.of(job.table).withdraw(forged)
    Ledger.of(job.table).write(replace(forged, txn_id=TxnId(1)))
    with pytest.raises(errors.EarlierRunUnknownError, match="write IDs of the table only up to 3"):
        job.run()
    assert job.directories() == before
    assert job.client.show_locks(job.table.ref) == ()
    assert replace(job, generation=1).run().state is WriteState.COMMITTED  # the task was cleared


def test_a_metastore_restored_from_an_older_backup_is_detected(job: Job) -> None:
    replace(job, key="before").run()
    backup = copy.deepcopy((job.server.txns, job.server.write_ids, job.server.next_write_id))
    replace(job, key="between").run()
    job.run()
    job.server.txns, job.server.write_ids, job.server.next_write_id = backup
    with pytest.raises(errors.EarlierRunUnknownError, match="restored from a backup that is older"):
        replace(job, attempt=SECOND).run()
    assert replace(job, key="before", attempt=SECOND).run().state is WriteState.ABORTED  # known


@pytest.mark.parametrize("what", ["compacted", "truncated"])
def test_a_confirmed_write_counts_as_done_after_its_delta_is_compacted_or_truncated(
    job: Job, what: str
) -> None:
    job.run()
    delta = place(job.table) / "delta_0000001_0000001_0000"
    if what == "compacted":
        delta.rename(place(job.table) / "base_0000001_v0000007")
    else:
        shutil.rmtree(delta)
    job.server.clean_write_ids()
    assert replace(job, attempt=SECOND).run().state is WriteState.ABORTED  # already done


def test_a_retry_finds_its_commit_even_if_a_lower_write_id_is_still_open(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.0.1 then ends its list at the open write ID, as if no higher one were committed."""

    def slow() -> None:
        job.client.allocate_write_id(job.client.open_txn(), job.table.ref)

    with monkeypatch.context() as killed:
        killed.setattr(Write, "confirm", lambda _: None)
        replace(job, at={"opened": slow}).run()
    job.server.clean_write_ids()
    again = replace(job, attempt=SECOND).run()
    assert again.state is WriteState.ABORTED  # already done
    assert "delta_0000003_0000003_0000" not in job.directories()


def test_a_retry_removes_the_base_that_a_killed_overwrite_had_published(job: Job) -> None:
    overwrite = replace(job, operation=OVERWRITE)
    _dead = overwrite.kill()
    assert job.directories() >= {"base_0000001"}
    job.time_out()
    assert replace(overwrite, attempt=SECOND).run().state is WriteState.COMMITTED
    assert "base_0000001" not in job.directories()
    assert "base_0000002" in job.directories()


def test_a_retry_does_not_remove_a_directory_that_existed_before_the_killed_try(job: Job) -> None:
    """A restored metastore allocates write IDs again; the retry must not remove foreign rows."""
    old = foreign(job, "delta_0000001_0000001_0000")
    _dead = replace(job, at={"noted": die}).kill()
    job.time_out()
    replace(job, attempt=SECOND).run()
    assert old.read_text() == "somebody's rows"


@pytest.mark.parametrize(
    "name",
    ["", "..", ".", "delta_0000050_0000050_0000", "delta_0000001_0000050_v0000003", "data"],
)
def test_a_forged_entry_of_an_aborted_try_removes_no_directory_of_another_write(
    job: Job, name: str
) -> None:
    names = ("delta_0000050_0000050_0000", "delta_0000001_0000050_v0000003", "data")
    kept = [foreign(job, one) for one in names]
    (place(job.table).parent / "beside").write_text("another table")
    _dead = job.kill()
    job.time_out()
    ledger = Ledger.of(job.table)
    (entry,) = ledger.entries("dag/run/task/-1")
    ledger.write(replace(entry, directories=(f"{job.table.location}/{name}",)))
    assert replace(job, attempt=SECOND).run().state is WriteState.COMMITTED
    assert [one.read_text() for one in kept] == ["somebody's rows"] * 3
    assert (place(job.table).parent / "beside").exists()


def test_a_retry_in_a_clone_of_the_metastore_removes_no_directory_of_the_original(job: Job) -> None:
    """Both run the same DAG in one directory; only the clone lists this transaction as aborted."""
    replace(job, key="before").run()  # notes the owner
    _dead = job.kill()
    before = job.directories()
    job.time_out()
    original, job.server.metastore_id = job.server.metastore_id, "clone"
    with pytest.raises(errors.OtherOwnerError, match=f"of the metastore {original}"):
        replace(job, attempt=SECOND).run()
    assert job.directories() >= before
    job.server.metastore_id = original
    assert replace(job, attempt=SECOND).run().state is WriteState.COMMITTED


@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE, OVERWRITE])
def test_a_clone_of_the_metastore_writes_nothing_into_the_directory_of_the_original(
    job: Job, operation: DataOperation
) -> None:
    replace(job, key="before").run()  # notes the owner
    before = job.directories()
    original, job.server.metastore_id = job.server.metastore_id, "clone"
    change = replace(job, operation=operation)
    with (
        pytest.raises(errors.OtherOwnerError, match=f"of the metastore {original}"),
        writing(job.client, change.order()),
    ):
        pytest.fail("files could be staged")
    assert job.directories() == before
    job.server.metastore_id = original
    assert change.run().state is WriteState.COMMITTED


def test_a_damaged_note_of_the_owner_stops_writes_until_it_is_written_again(job: Job) -> None:
    job.run()
    (hidden(job.table) / OWNER_FILE).write_text("{")
    with pytest.raises(errors.CorruptFileError, match=f"airflow_hiveacid own {job.table.ref}"):
        replace(job, key="another").run()
    take_ownership(job.client, job.table)
    assert replace(job, key="another").run().state is WriteState.COMMITTED


def test_a_retry_removes_nothing_at_the_old_location_of_a_renamed_table(job: Job) -> None:
    """Its ledger moved too; the old location may now belong to a different table."""
    _dead = job.kill()
    job.time_out()
    moved = replace(job.table, location=f"{job.table.location}_renamed")
    place(job.table).rename(place(moved))
    job.server.tables[job.table.ref] = moved
    other = place(job.table) / "delta_0000001_0000001_0000"
    other.mkdir(parents=True)
    assert replace(job, tables=(moved,), attempt=SECOND).run().state is WriteState.COMMITTED
    assert other.is_dir()


def test_a_table_recreated_without_a_lock_gets_no_files_of_a_write_to_the_old_table(
    job: Job,
) -> None:
    def make_again() -> None:
        job.client.drop_table(job.table.ref, delete_data=False)
        job.server.put_table(replace(job.table, table_id="another"))

    with pytest.raises(errors.TableChangedError):
        replace(job, at={"registered": make_again}).run()
    assert job.directories() == set()


def test_a_retry_removes_nothing_from_a_partition_of_another_owner(
    client: FakeClient, server: FakeMetastore, clock: ManualClock, tmp_path: Path
) -> None:
    """A clone's table was moved, with the ledger of the original; its partition was not."""
    table = made(client, tmp_path, "p", "month")
    month = PartitionName.parse("month=1")
    job = Job(client=client, tables=(table,), clock=clock)
    _dead = job.kill(month)
    job.time_out()
    shutil.copytree(tmp_path / "p" / HIDDEN_DIRECTORY, tmp_path / "moved" / HIDDEN_DIRECTORY)
    note_owner(table.location, Owner(metastore="original", table=table.ref, table_id="1"))
    moved = replace(table, location=f"file:{tmp_path}/moved")
    server.tables[table.ref] = moved
    server.places[table.ref, month] = table.default_partition_location(month)
    with pytest.raises(errors.OtherOwnerError, match="of the metastore original"):
        replace(job, tables=(moved,), attempt=SECOND).run(month)
    assert (tmp_path / "p/month=1/delta_0000001_0000001_0000/bucket_00000").is_file()


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_write_is_overtaken_if_its_partition_is_dropped_without_a_lock(
    client: FakeClient, clock: ManualClock, tmp_path: Path, *, is_gone: bool
) -> None:
    table = made(client, tmp_path, "p", "month")
    month = PartitionName.parse("month=1")

    def drop() -> None:
        if is_gone:
            del client.server.partitions[table.ref][month]

    job = Job(client=client, tables=(table,), clock=clock, at={"noted": drop})
    published = tmp_path / "p" / "month=1" / "delta_0000001_0000001_0000"
    if not is_gone:
        assert job.run(month).state is WriteState.COMMITTED
        assert published.is_dir()
        return
    with pytest.raises(errors.OvertakenError, match="month=1 is not at"):
        job.run(month)
    assert not published.exists()
    assert notes(table) == []


@pytest.mark.parametrize("moved", ["file:{root}/elsewhere", "hdfs://one{home}", None])
def test_a_write_is_overtaken_if_its_partition_was_added_at_a_different_location(
    client: FakeClient,
    clock: ManualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moved: str | None,
) -> None:
    """A different client added it with its own location after our lookup."""
    table = made(client, tmp_path, "p", "month")
    name = PartitionName.parse("month=a b%3A")
    job = Job(client=client, tables=(table,), clock=clock)
    there = table.default_partition_location(name)
    home = there.removeprefix("file:")
    added = (moved or "file:{home}").format(root=tmp_path, home=home)
    monkeypatch.setattr(
        client, "add_partitions", lambda *_: (PartitionInfo(name=name, location=added),)
    )

    def write() -> None:
        with writing(client, job.order()) as write:
            (part,) = write.tables.values()
            file = staged_file(name, "delta_0000001_0000001_0000")
            staging = Staging.of(table, there, part.token(StatementId(0)))
            directory = StagedDirectory(
                partition=name, directory=file.directory, staging=staging, files=(file,)
            )
            write.stage(table.ref, (directory,))
            write.register()

    if moved:
        with pytest.raises(errors.OvertakenError, match="is not at"):
            write()
    else:
        write()


def cannot_delete(*_: object) -> None:
    raise errors.StorageError("the disk is read-only now")


def test_a_base_that_cannot_be_removed_after_an_abort_keeps_its_ledger_entry(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        monkeypatch.setattr(publish, "delete_directory", cannot_delete)
        error = errors.WriteConflictError(txn_id=1, reason="write conflict")
        job.server.break_next("commit_txn", error, is_done=False)

    overwrite = replace(job, operation=OVERWRITE)
    with pytest.raises(errors.WriteConflictError):
        replace(overwrite, at={"body_done": die}).run()
    assert "base_0000001" in job.directories()
    assert job.notes() == ["prepared"]


def test_a_base_that_a_retry_cannot_remove_is_removed_by_the_next_retry(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite = replace(job, operation=OVERWRITE)
    _dead = overwrite.kill()
    job.time_out()
    with monkeypatch.context() as patch:
        patch.setattr(publish, "delete_directory", cannot_delete)
        with pytest.raises(errors.StorageError, match="read-only"):
            replace(overwrite, attempt=SECOND).run()
    assert job.notes() == ["prepared"]
    replace(overwrite, attempt=THIRD).run()
    assert "base_0000001" not in job.directories()


def test_a_change_without_any_trace_of_its_outcome_is_neither_skipped_nor_repeated(
    job: Job,
) -> None:
    """It may be compacted after its commit, or cleaned after its abort: a person must check."""

    cut_off(job)
    shutil.rmtree(place(job.table) / "delta_0000001_0000001_0000")
    with pytest.raises(
        errors.EarlierRunUnknownError, match="Check whether the change is in the job"
    ):
        replace(job, attempt=SECOND).run()
    assert "delta_0000002_0000002_0000" not in job.directories()
    assert job.notes() == ["prepared"]
    again = replace(job, attempt=SECOND, generation=1).run()  # the task was cleared
    assert again.state is WriteState.COMMITTED


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("table_id", {"table_id": "99.1"}),
        ("location", {"location": "file:/elsewhere"}),
        ("columns", {"columns": (Column(name="id", type="string"),)}),
        ("partition_columns", {"partition_columns": (Column(name="day", type="string"),)}),
        ("kind", {"kind": TransactionalKind.INSERT_ONLY}),
        ("bucket_columns", {"bucket_columns": ("id",)}),
        ("num_buckets", {"num_buckets": 7}),
        ("bucketing_version", {"bucketing_version": 1}),
        ("sort_columns", {"sort_columns": ("id",)}),
    ],
)
def test_a_write_is_refused_if_the_definition_of_its_table_changes_meanwhile(
    job: Job, what: str, changes: dict[str, Any]
) -> None:
    def change() -> None:
        job.server.tables[job.table.ref] = replace(job.table, **changes)

    with pytest.raises(errors.TableChangedError, match=what):
        replace(job, at={"allocated": change}).run()
    assert job.directories() == set()


def test_a_retry_writes_again_if_the_table_was_dropped_and_recreated(job: Job) -> None:
    job.run()
    job.client.drop_table(job.table.ref)
    shutil.rmtree(place(job.table) / "delta_0000001_0000001_0000")
    job.clock.advance(2)  # 3.1 tells tables apart by the second of their making
    again = job.client.create_table(
        NewTable(ref=job.table.ref, columns=job.table.columns, location=job.table.location)
    )
    assert replace(job, tables=(again,), attempt=SECOND).run().state is WriteState.COMMITTED
    assert job.directories() == {"delta_0000001_0000001_0000"}


class Asked(FakeClient):
    """A client that notes what it is asked."""

    def __init__(self, server: FakeMetastore) -> None:
        self.calls: list[str] = []
        super().__init__(server)

    def clone(self, *, call_timeout_s: float | None = None) -> Any:  # noqa: ANN401
        """For the heartbeats, which are nobody's business here."""
        del call_timeout_s
        return FakeClient(self.server)

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        found = super().__getattribute__(name)
        if callable(found) and not name.startswith("_"):
            super().__getattribute__("calls").append(name)
        return found


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_an_insert_repeats_a_metastore_call_only_if_the_answer_may_have_changed(
    server: FakeMetastore,
    clock: ManualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_partitioned: bool,
) -> None:
    client = Asked(server)
    table = made(client, tmp_path, "p", "month" if is_partitioned else "")
    listed: list[str] = []

    def listing(fs: FileSystem, directory: str, prefix: str = "") -> tuple[FileEntry, ...]:
        listed.append(directory)
        return list_files(fs, directory, prefix)

    monkeypatch.setattr(json_files, "list_files", listing)
    client.calls.clear()
    job = Job(client=client, tables=(table,), clock=clock)
    job.run(PartitionName.parse("month=1") if is_partitioned else WHOLE)
    registered = ["add_partitions", "add_dynamic_partitions"] if is_partitioned else []
    assert [c for c in client.calls if c not in ("clone", "be_patient")] == [
        "open_txn",
        "allocate_write_id",
        "lock",
        "show_locks",  # who else does this job, and what time it is there
        "valid_txns",
        "valid_write_ids",
        "add_write_ids_to_min_history",
        "get_table",  # is it still what was checked
        *registered,
        "get_table",  # has nobody dropped it without a lock
        "valid_txns",  # and has nobody overwritten it
        "valid_write_ids",
        "heartbeat",
        *(["get_partitions"] if is_partitioned else []),  # has nobody dropped one without a lock
        "forget_statistics",
        "commit_txn",
    ]
    assert listed == [f"{tmp_path}/p/{HIDDEN_DIRECTORY}"] * 2  # before the work, and to prune


def answer(job: Job, result: str) -> JobResult:
    """What a retry answers whose ledger holds this result of a committed run."""
    replace(job, result=result).run()
    again = replace(job, attempt=SECOND)
    spec = JobSpec(
        job_key=job.key,
        metastore=MetastoreEndpoint(uris=("thrift://h:1",)),
        job=DeleteSpec(target=str(job.table.ref), where="id = 1"),
    )
    with writing(job.client, again.order()) as write:
        earlier = write.earlier_run()
        assert earlier is not None
        own = WritingJob(spec=spec, client=job.client, terms=JobTerms.of(spec))
        return already_done(own, write, earlier)


@pytest.mark.parametrize(
    ("result", "inserted"),
    [
        ("{}", 0),
        (f'{{"version": {CONTRACT_VERSION + 1}, "surprise": 1, "status": "partly"}}', 0),
        ('{"rows": {"inserted": 7, "surprise": 1}}', 7),
    ],
)
def test_the_result_of_another_release_shows_that_a_job_is_done(
    job: Job, result: str, inserted: int
) -> None:
    found = answer(job, result)
    assert (found.status, found.txn_id) == (JobStatus.ALREADY_DONE, 1)
    assert (found.kind, found.job_key, found.table) == ("delete", job.key, str(job.table.ref))
    assert found.rows.inserted == inserted


@pytest.mark.parametrize(
    "result", ["[", "5", "[" * 100_000, '{"rows": 5}', '{"rows": {"inserted": ""}}']
)
def test_an_invalid_result_in_a_ledger_entry_is_reported(job: Job, result: str) -> None:
    with pytest.raises(
        errors.EarlierRunUnknownError, match="the result in its ledger entry cannot be read"
    ):
        answer(job, result)
    assert job.client.show_locks(job.table.ref) == ()


def test_a_job_of_an_installation_without_a_name_is_a_different_job(job: Job) -> None:
    job.run()
    named = replace(job, key=f"{job.key}@blue")
    assert named.run().state is WriteState.COMMITTED
    assert replace(named, attempt=SECOND).run().state is WriteState.ABORTED  # already done
    assert replace(named, key=f"{job.key}@green").run().state is WriteState.COMMITTED

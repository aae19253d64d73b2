"""What happens to entries of the metastore's queue when our compactions end, in every way."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    CompactionNotDoneError,
    KeepingRefusedError,
    MetastoreCallError,
    MetastoreUnavailableError,
    TableChangedError,
)
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionState,
    CompactionType,
    our_pool,
    our_worker_id,
)
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockInfo,
    LockRequest,
    lock_of_compactors,
)
from airflow_hiveacid.metastore.port import TxnType
from airflow_hiveacid.metastore.transactions import compaction_work
from airflow_hiveacid.metastore.transactions.compaction_work import (
    compacting,
    end_dead_entries,
    end_entry,
)
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.versions.keeping import keep, keep_readable
from airflow_hiveacid.versions.past import promises_of
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import (
    clean,
    compact,
    insert,
    put,
    there,
    values,
    without_spark,
)

# Of 3.1 the queue cannot be served.
pytestmark = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
AUTO, MINOR, MAJOR = CompactionChoice.AUTO, CompactionChoice.MINOR, CompactionChoice.MAJOR


class Killed(BaseException):
    """What stops a worker at once."""


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


def filled(client: FakeClient, table: TableInfo) -> None:
    for value in (1, 2, 3):
        insert(client, table, value)


def states(client: FakeClient, table: TableInfo) -> list[CompactionState]:
    entries = client.show_compactions(table.ref)
    return [e.state for e in sorted(entries, key=lambda e: e.entry_id or 0)]


def is_kept(client: FakeClient, table: TableInfo) -> bool:
    return promises_of(client, client.get_table(table.ref)).keeping is not None


def die_in(client: FakeClient, method: str, *, is_done: bool = True) -> None:
    """Let a worker die in a call; nothing that it would do afterwards reaches the server."""
    client.server.break_next(method, Killed(), is_done=is_done)  # type: ignore[arg-type]
    for later in ("mark_refused", "mark_failed", "abort_txn"):
        client.server.break_next(later, Killed(), is_done=False)  # type: ignore[arg-type]


def killed(client: FakeClient, table: TableInfo, method: str, *, is_done: bool = True) -> None:
    die_in(client, method, is_done=is_done)
    with pytest.raises(Killed):
        compact(client, table, MAJOR)
    client.server.faults.clear()
    for txn_id in client.valid_txns().open:
        client.abort_txn(txn_id)


CALLS = ["request_compaction", "find_next_compaction", "update_compactor_state", "set_job_id"]


@pytest.mark.parametrize("method", CALLS)
def test_a_worker_that_died_before_it_published_leaves_a_kept_table_kept(
    client: FakeClient, table: TableInfo, method: str
) -> None:
    filled(client, table)
    keep(client, client.get_table(table.ref))
    killed(client, table, method)
    assert is_kept(client, table)
    assert compact(client, client.get_table(table.ref), MAJOR).done
    assert states(client, table) == [
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    ]
    assert is_kept(client, table)
    assert values(client, table) == [1, 2, 3]


@pytest.mark.parametrize("method", ["set_job_id", "update_compactor_state"])
def test_a_compaction_that_the_metastore_fails_leaves_a_kept_table_kept(
    client: FakeClient, table: TableInfo, method: str
) -> None:
    filled(client, table)
    keep(client, client.get_table(table.ref))
    error = MetastoreCallError(method=method, reason="the database is full")
    client.server.break_next(method, error, is_done=False)
    with pytest.raises(MetastoreCallError, match="full"):
        compact(client, client.get_table(table.ref), MAJOR)
    assert is_kept(client, table)
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.REFUSED
    assert "the database is full" in str(entry.error_message)


def test_a_compaction_stopped_by_a_changed_definition_leaves_a_kept_table_kept(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    keep(client, client.get_table(table.ref))
    kept = client.get_table(table.ref)

    def alter(step: str) -> None:
        if step == "snapshot":
            columns = (*kept.columns, Column(name="more", type="string"))
            client.server.tables[table.ref] = dataclasses.replace(kept, columns=columns)

    with pytest.raises(TableChangedError):
        compact(client, kept, MAJOR, alter)
    assert is_kept(client, table)


@pytest.mark.parametrize("worker", ["hiveacid-dag/run/compact/-1", "hs2-worker-1", None])
def test_a_failed_entry_ends_the_guarantee_whoever_worked_on_it(
    client: FakeClient, table: TableInfo, worker: str | None
) -> None:
    filled(client, table)
    keep(client, client.get_table(table.ref))
    pool = our_pool(uuid4())
    answer = client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
    entry_id = answer.entry_id
    assert entry_id is not None
    queue = client.server.queue
    queue[entry_id] = dataclasses.replace(
        queue[entry_id], state=CompactionState.FAILED, worker_id=worker
    )
    assert not is_kept(client, table)


@pytest.mark.parametrize("method", CALLS)
def test_a_run_with_nothing_due_ends_the_entry_of_a_dead_worker(
    client: FakeClient, table: TableInfo, method: str
) -> None:
    filled(client, table)
    killed(client, table, method)
    assert not compact(client, table, AUTO).done
    assert states(client, table) == [CompactionState.REFUSED]
    assert client.request_compaction(table.ref, None, CompactionType.MINOR).accepted


def test_the_entry_of_a_worker_that_died_before_its_commit_is_refused(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)

    def die(step: str) -> None:
        if step == "published":
            for later in ("mark_refused", "abort_txn"):
                client.server.break_next(later, Killed(), is_done=False)  # type: ignore[arg-type]
            raise Killed

    with pytest.raises(Killed):
        compact(client, table, MAJOR, die)
    client.server.faults.clear()
    end_dead_entries(client, table.ref)
    assert states(client, table) == [CompactionState.WORKING], "its lock says that it lives"
    (txn_id,) = client.valid_txns().open
    client.abort_txn(txn_id)
    assert not compact(client, table, AUTO).done
    assert states(client, table) == [CompactionState.REFUSED]
    assert values(client, table) == [1, 2, 3]


def test_the_entry_of_a_worker_that_died_after_its_commit_becomes_ready_for_cleaning(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)

    def die(step: str) -> None:
        if step == "committed":
            raise Killed

    with pytest.raises(Killed):
        compact(client, table, MAJOR, die)
    assert states(client, table) == [CompactionState.WORKING]
    assert not compact(client, table, AUTO).done
    assert states(client, table) == [CompactionState.READY_FOR_CLEANING]
    assert values(client, table) == [1, 2, 3]


@pytest.mark.parametrize("is_done", [False, True])
def test_an_entry_with_an_unknown_commit_state_is_settled_by_the_next_run(
    client: FakeClient, table: TableInfo, *, is_done: bool
) -> None:
    filled(client, table)

    def fall_silent(step: str) -> None:
        if step == "published":
            error = MetastoreUnavailableError(
                uris=("thrift://hms:9083",), method="commit_txn", reason="cut off"
            )
            client.server.break_next("commit_txn", error, is_done=is_done)
            for _ in range(50):
                client.server.break_next("valid_txns", error, is_done=False)

    with pytest.raises(CommitStateUnknownError):
        compact(client, table, MAJOR, fall_silent, clock=ManualClock())
    client.server.faults.clear()
    assert states(client, table) == [CompactionState.WORKING]
    for txn_id in client.valid_txns().open:
        client.abort_txn(txn_id)
    assert not compact(client, table, AUTO).done
    end = CompactionState.READY_FOR_CLEANING if is_done else CompactionState.REFUSED
    assert states(client, table) == [end]
    assert values(client, table) == [1, 2, 3]


@pytest.mark.parametrize("is_done", [False, True])
def test_an_entry_whose_commit_was_interrupted_is_settled_by_the_next_run(
    client: FakeClient, table: TableInfo, *, is_done: bool
) -> None:
    """As by a time limit of Airflow; the commit may arrive nevertheless."""
    filled(client, table)
    client.server.break_next("commit_txn", Killed(), is_done=is_done)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        compact(client, table, MAJOR)
    assert states(client, table) == [CompactionState.WORKING]
    for txn_id in client.valid_txns().open:
        client.abort_txn(txn_id)
    assert not compact(client, table, AUTO).done
    end = CompactionState.READY_FOR_CLEANING if is_done else CompactionState.REFUSED
    assert states(client, table) == [end]
    assert values(client, table) == [1, 2, 3]


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_worker_that_dies_after_the_search_for_dead_entries_blocks_no_compaction(
    client: FakeClient, table: TableInfo, *, is_claimed: bool
) -> None:
    filled(client, table)
    pool = our_pool(uuid4())

    def die(step: str) -> None:
        if step == "opened":
            client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
            if is_claimed:
                client.find_next_compaction(our_worker_id("k"), worker_version="1", pool=pool)

    assert compact(client, table, MAJOR, die).done
    assert states(client, table) == [CompactionState.REFUSED, CompactionState.READY_FOR_CLEANING]


def test_a_lock_that_a_killed_worker_only_waited_for_keeps_no_entry_alive(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=our_pool(uuid4()))
    part = LockComponent(
        table=lock_of_compactors(table.ref), lock_type=LockType.EXCLUSIVE, operation=None
    )
    first, killed = client.open_txn(), client.open_txn()
    for txn_id in (first, killed):
        client.lock(LockRequest(txn_id=txn_id, components=(part,), agent_info="compactor"))
    end_dead_entries(client, table.ref)
    assert states(client, table) == [CompactionState.INITIATED]
    client.commit_txn(first)
    end_dead_entries(client, table.ref)
    assert states(client, table) == [CompactionState.REFUSED]


def test_an_aborted_compaction_that_the_server_has_forgotten_is_not_marked_as_cleaned(
    client: FakeClient, table: TableInfo
) -> None:
    """Otherwise, the server would forget the aborted writes whose rows are in its inputs."""
    filled(client, table)
    compact(client, table, MAJOR)
    insert(client, table, 4)
    pool = our_pool(uuid4())

    def die(step: str) -> None:
        if step != "removed":
            return
        client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
        claim = client.find_next_compaction(our_worker_id("k"), worker_version="1", pool=pool)
        assert claim is not None
        txn_id = client.open_txn(TxnType.COMPACTION)
        claim = dataclasses.replace(claim, highest_write_id=WriteId(4))
        client.update_compactor_state(claim, txn_id)
        TableNotes.of(table).note_highest_write_id(claim.entry_id, WriteId(4))
        client.mark_compacted(claim)
        client.abort_txn(txn_id)
        client.server.txns[txn_id].is_forgotten = True

    clean_tables(client, CleanSpec.of_table(str(table.ref)), die)
    assert states(client, table)[-1] is CompactionState.READY_FOR_CLEANING
    clean(client, table)
    assert states(client, table)[-1] is CompactionState.REFUSED


class Between(FakeClient):
    """Lets something happen right before locks are looked at, once."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def show_locks(
        self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        return super().show_locks(ref, txn_id=txn_id)


def test_an_entry_committed_during_the_search_for_dead_entries_is_ready_for_cleaning(
    client: FakeClient, table: TableInfo
) -> None:
    """The entry is listed as not committed, and its lock is gone when the locks are listed."""
    filled(client, table)
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
    claim = client.find_next_compaction(our_worker_id("k"), worker_version="1", pool=pool)
    assert claim is not None
    txn_id = client.open_txn(TxnType.COMPACTION)
    client.update_compactor_state(dataclasses.replace(claim, highest_write_id=WriteId(3)), txn_id)
    looking = Between(client.server)
    looking.meanwhile = lambda: client.commit_txn(txn_id)
    assert end_dead_entries(looking, table.ref) == ()
    assert states(client, table) == [CompactionState.READY_FOR_CLEANING]


def test_an_entry_marked_during_the_search_for_dead_entries_is_left_unchanged(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
    claim = client.find_next_compaction(our_worker_id("k"), worker_version="1", pool=pool)
    assert claim is not None
    looking = Between(client.server)
    looking.meanwhile = lambda: client.mark_compacted(claim)
    end_dead_entries(looking, table.ref)
    assert states(client, table) == [CompactionState.READY_FOR_CLEANING]


def test_a_compaction_that_begins_during_the_search_for_dead_entries_is_not_ended(
    client: FakeClient, table: TableInfo
) -> None:
    """Entries are listed first, since a later entry may have a lock that was not listed."""
    filled(client, table)
    dead, living = our_pool(uuid4()), our_pool(uuid4())
    client.request_compaction(table.ref, None, CompactionType.MINOR, pool=dead)

    class Behind(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[LockInfo, ...]:
            locks = super().show_locks(ref, txn_id=txn_id)
            (left,) = self.show_compactions(table.ref)
            end_entry(self, ClaimedCompaction.of_entry(left), "its worker died")
            self.request_compaction(table.ref, None, CompactionType.MAJOR, pool=living)
            return locks

    end_dead_entries(Behind(client.server), table.ref)
    assert states(client, table) == [CompactionState.REFUSED, CompactionState.INITIATED]


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_a_living_worker_is_recognized_by_its_partition_in_upper_or_lower_case(
    client: FakeClient, tmp_path: Path, spelled: Callable[[str], str]
) -> None:
    """A metastore may store names in lower case in locks, and unchanged in entries."""
    jan = PartitionName.parse("month=Jan")
    partitioned = client.create_table(
        NewTable(
            ref=TableRef("default", "by_month"),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=(Column(name="month", type="string"),),
            location=f"file:{tmp_path}/by_month",
        )
    )
    client.add_partitions(partitioned, [jan])

    class Spelled(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[LockInfo, ...]:
            locks = super().show_locks(ref, txn_id=txn_id)
            return tuple(
                dataclasses.replace(lock, partition=lock.partition and spelled(lock.partition))
                for lock in locks
            )

    with compacting(
        client,
        job_terms("k"),
        table=partitioned,
        partition=jan,
        compaction_type=CompactionType.MAJOR,
    ) as work:
        assert work.refusal is None
        end_dead_entries(Spelled(client.server), partitioned.ref)
        assert states(client, partitioned) == [CompactionState.WORKING]


def test_an_entry_is_not_ready_for_cleaning_before_its_transaction_is_committed(
    client: FakeClient, table: TableInfo
) -> None:
    """Until then, Hive's cleaner does not know which readers to wait for, and waits for none."""
    filled(client, table)
    seen = []

    def look(step: str) -> None:
        (entry,) = client.show_compactions(table.ref) or (None,)
        if entry is not None:
            seen.append((step, entry.state, entry.next_txn_id is not None))

    assert compact(client, table, MAJOR, look).done
    assert ("committed", CompactionState.WORKING, True) in seen
    assert ("marked", CompactionState.READY_FOR_CLEANING, True) in seen
    assert all(known for _, state, known in seen if state is CompactionState.READY_FOR_CLEANING)


def test_a_mark_that_the_metastore_refuses_does_not_undo_a_committed_compaction(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    error = MetastoreCallError(method="mark_compacted", reason="no such entry")
    client.server.break_next("mark_compacted", error, is_done=False)
    assert compact(client, table, MAJOR).done
    assert not compact(client, table, AUTO).done
    assert states(client, table) == [CompactionState.READY_FOR_CLEANING]


def test_a_request_repeated_after_a_lost_answer_is_served_once(
    client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(client, table)
    real = FakeClient.request_compaction

    def twice(self: FakeClient, *arguments: object, **terms: object) -> object:
        real(self, *arguments, **terms)  # type: ignore[arg-type]
        return real(self, *arguments, **terms)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeClient, "request_compaction", twice)
    assert compact(client, table, MAJOR).done
    assert states(client, table) == [CompactionState.READY_FOR_CLEANING]


@pytest.mark.parametrize("choice", [AUTO, MINOR, MAJOR])
@pytest.mark.parametrize("theirs", [CompactionType.MINOR, CompactionType.MAJOR])
def test_a_waiting_request_of_a_different_client_is_taken_over(
    client: FakeClient, table: TableInfo, choice: CompactionChoice, theirs: CompactionType
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, theirs, pool="etl")
    outcome = compact(client, table, choice)
    assert outcome.done
    is_major = choice is MAJOR or theirs is CompactionType.MAJOR
    assert outcome.kind == ("major" if is_major else "minor")
    assert outcome.serves.startswith(f"compaction 1 ({theirs.value}, requested by")
    served, ours = sorted(client.show_compactions(table.ref), key=lambda e: e.entry_id or 0)
    assert (served.state, ours.state) == (
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    )
    assert "taken over by hiveacid-" in str(served.error_message)
    assert values(client, table) == [1, 2, 3]


def died(client: FakeClient, table: TableInfo, at: str) -> None:
    def die(step: str) -> None:
        if step == at:
            for later in ("mark_refused", "abort_txn"):
                client.server.break_next(later, Killed(), is_done=False)  # type: ignore[arg-type]
            raise Killed

    earlier = client.valid_txns().open
    with pytest.raises(Killed):
        compact(client, table, MAJOR, die, job_key="dag/run/dead/-1")
    client.server.faults.clear()
    for txn_id in set(client.valid_txns().open) - set(earlier):
        client.abort_txn(txn_id)


@pytest.mark.parametrize("at", ["staged", "published", "body_done"])
@pytest.mark.parametrize("theirs", [CompactionType.MINOR, CompactionType.MAJOR])
def test_the_request_that_a_dead_worker_took_over_waits_again(
    client: FakeClient, table: TableInfo, at: str, theirs: CompactionType
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, theirs, pool="etl")
    died(client, table, at)
    assert asked(client, table) == []
    (waiting,) = end_dead_entries(client, table.ref)
    assert asked(client, table) == [(theirs, "etl")]
    assert end_dead_entries(client, table.ref) == (waiting,)  # once
    filled(client, table)  # what the dead worker has published stays
    assert compact(client, table, AUTO).serves == waiting.asked_by
    assert asked(client, table) == []
    assert states(client, table)[-1] is CompactionState.READY_FOR_CLEANING


def the_next_run_dies_too(client: FakeClient, table: TableInfo, patch: pytest.MonkeyPatch) -> None:
    died(client, table, "staged")
    patch.setattr(compaction_work, "_ask_again", die_at_once)
    with pytest.raises(Killed):
        end_dead_entries(client, table.ref)


def ours_dies_while_it_gives_up(
    client: FakeClient, table: TableInfo, patch: pytest.MonkeyPatch
) -> None:
    error = MetastoreCallError(method="set_job_id", reason="the database is full")
    client.server.break_next("set_job_id", error, is_done=False)
    patch.setattr(compaction_work, "_ask_again", die_at_once)
    with pytest.raises(Killed):
        compact(client, table, MAJOR)


def ours_dies_before_it_has_an_entry(
    client: FakeClient, table: TableInfo, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(compaction_work.CompactionWork, "_claimed", die_at_once)
    patch.setattr(compaction_work.CompactionWork, "give_up", die_at_once)
    with pytest.raises(Killed):
        compact(client, table, MAJOR)


def the_metastore_does_not_answer(
    client: FakeClient, table: TableInfo, _: pytest.MonkeyPatch
) -> None:
    died(client, table, "staged")
    error = MetastoreUnavailableError(uris=(), method="request_compaction", reason="cut off")
    client.server.break_next("request_compaction", error, is_done=False)
    assert end_dead_entries(client, table.ref) == ()


def die_at_once(*_: object) -> None:
    raise Killed


@pytest.mark.parametrize(
    "dies",
    [
        the_next_run_dies_too,
        ours_dies_while_it_gives_up,
        ours_dies_before_it_has_an_entry,
        the_metastore_does_not_answer,
    ],
)
def test_a_replaced_request_that_was_not_repeated_is_repeated_later(
    client: FakeClient,
    table: TableInfo,
    monkeypatch: pytest.MonkeyPatch,
    dies: Callable[[FakeClient, TableInfo, pytest.MonkeyPatch], None],
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
    with monkeypatch.context() as patch:
        dies(client, table, patch)
    assert asked(client, table) == []
    (waiting,) = end_dead_entries(client, table.ref)
    assert asked(client, table) == [(CompactionType.MAJOR, "etl")]
    assert end_dead_entries(client, table.ref) == (waiting,)
    with pytest.raises(KeepingRefusedError, match=f"`cancel {table.ref}`"):
        keep(client, client.get_table(table.ref))
    assert compact(client, table, AUTO).done
    assert end_dead_entries(client, table.ref) == ()


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_replaced_request_is_not_repeated_while_its_worker_lives_or_after_a_cancel(
    client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
    claim, seen = compaction_work.CompactionWork._claimed, []

    def claimed(worker: object, kind: CompactionType) -> object:
        seen.append(end_dead_entries(client, table.ref))
        return claim(worker, kind)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction_work.CompactionWork, "_claimed", claimed)
    if is_cancelled:
        died(client, table, "staged")
        compaction_work.cancel_compactions(client, table.ref)
    else:
        assert compact(client, table, MAJOR).done
    assert seen == [()]
    assert end_dead_entries(client, table.ref) == ()
    assert asked(client, table) == []


def test_a_failed_entry_of_hive_with_a_similar_message_is_not_requested_again(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    queue = client.server.queue
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
    queue[1] = dataclasses.replace(
        queue[1], state=CompactionState.FAILED, error_message="no application in pool etl"
    )
    client.request_compaction(table.ref, None, CompactionType.MINOR, pool="etl")
    client.abort_txn(txn_id := client.open_txn())
    queue[2] = dataclasses.replace(queue[2], state=CompactionState.WORKING, txn_id=txn_id)
    assert end_dead_entries(client, table.ref) == ()
    assert states(client, table) == [CompactionState.FAILED, CompactionState.REFUSED]


def test_the_next_compaction_serves_the_request_that_a_dead_worker_took_over(
    client: FakeClient, table: TableInfo
) -> None:
    """Also if the worker dies after the next compaction was planned."""
    filled(client, table)

    def die(step: str) -> None:
        if step == "opened":
            client.request_compaction(table.ref, None, CompactionType.MINOR, pool="etl")
            died(client, table, "staged")

    outcome = compact(client, table, MAJOR, die)
    assert outcome.done
    assert outcome.serves.startswith("compaction 3 (minor, requested by")
    assert asked(client, table) == []


def test_the_request_that_a_worker_served_before_it_died_is_not_repeated(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
    assert compact(client, table, MAJOR, job_key="dag/run/dead/-1").serves
    filled(client, table)
    died(client, table, "staged")
    assert end_dead_entries(client, table.ref) == ()
    assert asked(client, table) == []


def test_a_minor_compaction_does_not_take_over_a_request_for_a_major_one(
    client: FakeClient, table: TableInfo
) -> None:
    """A request known beforehand makes ours major; this request comes after the plan."""
    filled(client, table)

    def ask(step: str) -> None:
        if step == "opened":
            client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")

    with pytest.raises(CompactionNotDoneError, match="queue has an entry for it already"):
        compact(client, table, MINOR, ask)
    assert states(client, table) == [CompactionState.INITIATED]
    assert asked(client, table) == [(CompactionType.MAJOR, "etl")]
    assert compact(client, table, AUTO).kind == "major"


@pytest.mark.parametrize("choice", [MINOR, MAJOR])
def test_a_request_for_a_rebalance_compaction_is_left_to_hive(
    client: FakeClient, table: TableInfo, choice: CompactionChoice
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.REBALANCE)
    with pytest.raises(CompactionNotDoneError, match="queue has an entry for it already"):
        compact(client, table, choice)
    assert states(client, table) == [CompactionState.INITIATED]


def asked(client: FakeClient, table: TableInfo) -> list[tuple[CompactionType, str | None]]:
    """What others have asked for and nothing serves."""
    entries = client.show_compactions(table.ref)
    return [(e.compaction_type, e.pool) for e in entries if e.waits_for_anybody]


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_request_taken_over_is_made_again_if_the_metastore_fails_the_compaction(
    client: FakeClient, table: TableInfo, method: str, *, is_done: bool
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MINOR, pool="etl")
    error = MetastoreCallError(method=method, reason="the database is full")
    client.server.break_next(method, error, is_done=is_done)
    with pytest.raises(MetastoreCallError, match="full"):
        compact(client, table, MAJOR)
    assert asked(client, table) == [(CompactionType.MINOR, "etl")]
    outcome = compact(client, table, AUTO)
    assert (outcome.done, outcome.serves.split(" ")[0]) == (True, "compaction")
    assert values(client, table) == [1, 2, 3]


def test_a_request_whose_takeover_is_interrupted_is_made_again(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
    client.server.break_next("mark_refused", Killed(), is_done=True)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        compact(client, table, MAJOR)
    assert asked(client, table) == [(CompactionType.MAJOR, "etl")]


@pytest.mark.parametrize("last", ["staged", "reads_locked", "published", "body_done", "committed"])
def test_a_request_taken_over_is_made_again_if_the_compaction_fails_before_its_commit(
    client: FakeClient, table: TableInfo, last: str
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")

    def fail(step: str) -> None:
        if step == last:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        compact(client, table, MAJOR, fail)
    is_left = last != "committed"
    assert asked(client, table) == ([(CompactionType.MAJOR, "etl")] if is_left else [])
    assert values(client, table) == [1, 2, 3]


def test_a_request_taken_over_is_not_made_again_if_nothing_is_left_to_compact(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")

    def overwrite(step: str) -> None:
        if step != "staged":
            return
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, table.ref)
        client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.OVERWRITE)
        put(table, f"base_{write_id:07d}", [(write_id, 7)])
        client.commit_txn(txn_id)

    assert "has replaced the files" in compact(client, table, MAJOR, overwrite).why
    assert asked(client, table) == []
    assert values(client, table) == [7]


def test_an_entry_that_a_worker_of_hive_has_claimed_is_left_to_it(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR)
    client.find_next_compaction("hs2-worker-1", worker_version="4.0.1")
    for _ in range(10):
        insert(client, table, 4)
    assert compact(client, table, AUTO).is_hindered
    with pytest.raises(
        CompactionNotDoneError, match=r"by worker hs2-worker-1.*is being done"
    ) as caught:
        compact(client, table, MAJOR)
    assert caught.value.retryable
    assert states(client, table) == [CompactionState.WORKING]


def test_an_entry_that_a_worker_of_hive_claims_during_a_takeover_is_left_to_it(
    client: FakeClient, table: TableInfo
) -> None:
    class Overtaken(FakeClient):
        """One whose request comes after another client's, which Hive's worker claims at once."""

        def mark_refused(self, claim: ClaimedCompaction) -> None:
            super().mark_refused(claim)
            if claim.entry_id == 1:
                client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
                client.find_next_compaction("hive-7", worker_version="4", pool="etl")

    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool="etl")
    with pytest.raises(CompactionNotDoneError, match="queue has an entry for it already"):
        compact(Overtaken(client.server), table, MAJOR)
    assert states(client, table) == [CompactionState.REFUSED, CompactionState.WORKING]
    assert values(client, table) == [1, 2, 3]


def test_a_worker_of_hive_can_neither_update_nor_mark_an_entry_that_was_taken_over(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.request_compaction(table.ref, None, CompactionType.MAJOR)
    before = client.show_compactions(table.ref)
    theirs = client.find_next_compaction("hs2-worker-1", worker_version="4.0.1")
    assert theirs is not None
    # It claimed behind the look of ours.
    client.server.queue[1] = dataclasses.replace(before[0])
    assert compact(client, table, MAJOR).done
    txn_id = client.open_txn(TxnType.COMPACTION)
    with pytest.raises(MetastoreCallError):
        client.update_compactor_state(theirs, txn_id)
    with pytest.raises(MetastoreCallError):
        client.mark_compacted(theirs)
    assert values(client, table) == [1, 2, 3]


def hive_compacts(
    client: FakeClient, table: TableInfo, kind: CompactionType, *, is_marked: bool = True
) -> TxnId:
    """Let a worker of Hive's claim and mark a compaction; its transaction stays open."""
    client.request_compaction(table.ref, None, kind)
    claim = client.find_next_compaction("hivehost1-42", worker_version="4.0.1")
    assert claim is not None
    txn_id = client.open_txn(TxnType.COMPACTION)
    client.update_compactor_state(dataclasses.replace(claim, highest_write_id=WriteId(3)), txn_id)
    if is_marked:
        client.mark_compacted(claim)
    return txn_id


def test_a_major_compaction_follows_a_minor_one_whose_replaced_files_still_have_a_reader(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    reader = client.open_txn(TxnType.READ_ONLY)
    assert compact(client, table, MINOR).done
    assert compact(client, table, MAJOR).done
    client.commit_txn(reader)
    assert states(client, table) == [
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    ]
    assert values(client, table) == [1, 2, 3]


def test_a_major_compaction_follows_a_committed_minor_one_of_hive(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    client.commit_txn(hive_compacts(client, table, CompactionType.MINOR))
    assert compact(client, table, MAJOR).done
    minor, _ = sorted(client.show_compactions(table.ref), key=lambda e: e.entry_id or 0)
    assert minor.is_committed
    assert not minor.has_failed
    assert values(client, table) == [1, 2, 3]


@pytest.mark.parametrize("is_marked", [True, False], ids=["ready for cleaning", "working"])
@pytest.mark.parametrize("kind", [CompactionType.MINOR, CompactionType.MAJOR])
def test_a_dead_worker_of_hive_blocks_neither_a_compaction_nor_the_keeping_of_versions(
    client: FakeClient, table: TableInfo, kind: CompactionType, *, is_marked: bool
) -> None:
    filled(client, table)
    client.abort_txn(hive_compacts(client, table, kind, is_marked=is_marked))
    keep(client, client.get_table(table.ref))
    client.abort_txn(hive_compacts(client, table, kind, is_marked=is_marked))
    assert compact(client, client.get_table(table.ref), MAJOR).done
    assert is_kept(client, table)
    assert states(client, table) == [
        CompactionState.REFUSED,
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    ]


@pytest.mark.parametrize("is_ours", [True, False])
def test_versions_can_be_kept_while_a_committed_compaction_waits_for_its_cleaning(
    client: FakeClient, table: TableInfo, *, is_ours: bool
) -> None:
    """The parameter keeps the replaced files for days, and their entry with them."""
    filled(client, table)
    if is_ours:
        assert compact(client, table, MAJOR).done
    else:
        client.commit_txn(hive_compacts(client, table, CompactionType.MAJOR))
    reader = client.open_txn()
    keep_readable(client, table.ref, "7 days")
    clean(client, client.get_table(table.ref))
    client.commit_txn(reader)
    clean(client, client.get_table(table.ref))
    assert states(client, table)[0] in (
        CompactionState.READY_FOR_CLEANING,
        CompactionState.SUCCEEDED,
    )
    assert is_kept(client, table)
    assert values(client, table) == [1, 2, 3]


def test_the_entry_of_a_living_worker_of_hive_is_left_to_it_and_the_refusals_say_the_same(
    client: FakeClient, table: TableInfo
) -> None:
    filled(client, table)
    txn_id = hive_compacts(client, table, CompactionType.MINOR)
    assert end_dead_entries(client, table.ref) == ()
    (status,) = unfinished(client, table.ref)
    assert f"in transaction {txn_id}, which is open; wait, or end it with" in str(status)
    with pytest.raises(CompactionNotDoneError, match=re.escape(str(status))):
        compact(client, table, MAJOR)
    with pytest.raises(KeepingRefusedError, match=re.escape(str(status))):
        keep(client, client.get_table(table.ref))
    assert states(client, table) == [CompactionState.READY_FOR_CLEANING]


def test_a_compaction_of_hive_that_our_compaction_replaced_still_ends_the_guarantee(
    client: FakeClient, table: TableInfo
) -> None:
    """Until its entry ended, Hive's cleaner may have removed files."""
    filled(client, table)
    keep(client, client.get_table(table.ref))
    client.commit_txn(hive_compacts(client, table, CompactionType.MINOR))
    assert compact(client, client.get_table(table.ref), MAJOR).done
    assert not is_kept(client, table)


def test_during_a_compaction_of_ours_a_requested_kind_fails_and_auto_gives_way(
    client: FakeClient, table: TableInfo
) -> None:
    for value in range(12):
        insert(client, table, value)
    told: list[object] = []

    def compete(step: str) -> None:
        if step == "staged" and not told:
            told.append(compact(client, table, AUTO, job_key="other/auto").is_hindered)
            with pytest.raises(CompactionNotDoneError, match="another compactor is at work"):
                compact(client, table, MAJOR, job_key="other/major")

    assert compact(client, table, MAJOR, compete).done
    assert told == [True]


def shortened(client: FakeClient, table: TableInfo) -> None:
    """A minor result of which the metastore has forgotten the last writes, which were aborted."""
    insert(client, table, 1)
    insert(client, table, 2)
    batch = [client.open_txn() for _ in range(3)]
    ids = [client.allocate_write_id(txn_id, table.ref) for txn_id in batch]
    for txn_id, write_id in zip(batch, ids, strict=True):
        client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.INSERT)
    put(table, "delta_0000003_0000005", [(3, 3), (4, 4)])
    client.commit_txn(batch[0])
    for txn_id in batch[1:]:
        client.abort_txn(txn_id)
    assert compact(client, table, MINOR).outputs == ("delta_0000001_0000005",)
    client.server.clean_write_ids()
    client.server.queue.clear()


def test_a_requested_kind_fails_if_the_list_of_writes_ends_within_the_only_delta(
    client: FakeClient, table: TableInfo
) -> None:
    shortened(client, table)
    for name in there(table, "delta_"):
        if name != "delta_0000001_0000005":
            shutil.rmtree(Path(table.location.removeprefix("file:")) / name)
    with pytest.raises(CompactionNotDoneError, match="list of writes now ends at 4"):
        compact(client, table, MAJOR)
    assert not compact(client, table, AUTO).is_hindered
    insert(client, table, 6)
    assert compact(client, table, MAJOR).done
    assert values(client, table) == [1, 2, 3, 6]


@pytest.mark.parametrize("choice", [MAJOR, AUTO])
def test_a_list_of_writes_that_became_shorter_is_reported_as_the_reason(
    client: FakeClient, table: TableInfo, choice: CompactionChoice
) -> None:
    """4.0.1 forgets which writes were committed, and ends the list at the first aborted one."""
    shortened(client, table)
    if choice is AUTO:
        client.request_compaction(table.ref, None, CompactionType.MAJOR)
        outcome = compact(client, table, AUTO)
        assert outcome.is_hindered
        assert "delta_0000001_0000005 contains later writes" in outcome.why
        assert asked(client, table) == [(CompactionType.MAJOR, "default")]
    else:
        with pytest.raises(
            CompactionNotDoneError, match="delta_0000001_0000005 contains later writes"
        ):
            compact(client, table, MAJOR)
    assert there(table, "base_") == []
    insert(client, table, 6)
    assert compact(client, table, MAJOR).done
    assert values(client, table) == [1, 2, 3, 6]

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
from tests.support.steps import act_after, at, raises
from tests.support.tables import id_table
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import Rig

# Of 3.1 the queue cannot be served.
pytestmark = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
AUTO, MINOR, MAJOR = CompactionChoice.AUTO, CompactionChoice.MINOR, CompactionChoice.MAJOR


class Killed(BaseException):
    """What stops a worker at once."""


@pytest.fixture
def rig(rig: Rig) -> Rig:
    """A table of three inserts."""
    rig.insert(1, 2, 3)
    return rig


def is_kept(rig: Rig) -> bool:
    return promises_of(rig.client, rig.client.get_table(rig.ref)).keeping is not None


def die_in(client: FakeClient, method: str, *, is_done: bool = True) -> None:
    """Let a worker die in a call; nothing that it would do afterwards reaches the server."""
    client.server.break_next(method, Killed(), is_done=is_done)  # type: ignore[arg-type]
    for later in ("mark_refused", "mark_failed", "abort_txn"):
        client.server.break_next(later, Killed(), is_done=False)  # type: ignore[arg-type]


def die_now(rig: Rig) -> None:
    for later in ("mark_refused", "abort_txn"):
        rig.server.break_next(later, Killed(), is_done=False)  # type: ignore[arg-type]
    raise Killed


def killed(rig: Rig, method: str, *, is_done: bool = True) -> None:
    die_in(rig.client, method, is_done=is_done)
    with pytest.raises(Killed):
        rig.compact(MAJOR)
    rig.server.faults.clear()
    rig.abort_open()


CALLS = ["request_compaction", "find_next_compaction", "update_compactor_state", "set_job_id"]


@pytest.mark.parametrize("method", CALLS)
def test_a_worker_that_died_before_it_published_leaves_a_kept_table_kept(
    rig: Rig, method: str
) -> None:
    keep(rig.client, rig.client.get_table(rig.ref))
    killed(rig, method)
    assert is_kept(rig)
    assert rig.compact(MAJOR).done
    assert rig.states == [
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    ]
    assert is_kept(rig)
    assert rig.values == [1, 2, 3]


@pytest.mark.parametrize("method", ["set_job_id", "update_compactor_state"])
def test_a_compaction_that_the_metastore_fails_leaves_a_kept_table_kept(
    rig: Rig, method: str
) -> None:
    keep(rig.client, rig.client.get_table(rig.ref))
    error = MetastoreCallError(method=method, reason="the database is full")
    rig.server.break_next(method, error, is_done=False)
    with pytest.raises(MetastoreCallError, match="full"):
        rig.compact(MAJOR)
    assert is_kept(rig)
    (entry,) = rig.client.show_compactions(rig.ref)
    assert entry.state is CompactionState.REFUSED
    assert "the database is full" in str(entry.error_message)


def test_a_compaction_stopped_by_a_changed_definition_leaves_a_kept_table_kept(rig: Rig) -> None:
    keep(rig.client, rig.client.get_table(rig.ref))
    kept = rig.client.get_table(rig.ref)

    def alter(step: str) -> None:
        if step == "snapshot":
            columns = (*kept.columns, Column(name="more", type="string"))
            rig.server.tables[rig.ref] = dataclasses.replace(kept, columns=columns)

    with pytest.raises(TableChangedError):
        rig.compact(MAJOR, alter)
    assert is_kept(rig)


@pytest.mark.parametrize("worker", ["hiveacid-dag/run/compact/-1", "hs2-worker-1", None])
def test_a_failed_entry_ends_the_guarantee_whoever_worked_on_it(
    rig: Rig, worker: str | None
) -> None:
    keep(rig.client, rig.client.get_table(rig.ref))
    entry_id = rig.request(CompactionType.MAJOR, our_pool(uuid4()))
    assert entry_id is not None
    queue = rig.server.queue
    queue[entry_id] = dataclasses.replace(
        queue[entry_id], state=CompactionState.FAILED, worker_id=worker
    )
    assert not is_kept(rig)


@pytest.mark.parametrize("method", CALLS)
def test_a_run_with_nothing_due_ends_the_entry_of_a_dead_worker(rig: Rig, method: str) -> None:
    killed(rig, method)
    assert not rig.compact(AUTO).done
    assert rig.states == [CompactionState.REFUSED]
    assert rig.client.request_compaction(rig.ref, None, CompactionType.MINOR).accepted


def test_the_entry_of_a_worker_that_died_before_its_commit_is_refused(rig: Rig) -> None:

    with pytest.raises(Killed):
        rig.compact(MAJOR, at("published", lambda: die_now(rig)))
    rig.server.faults.clear()
    end_dead_entries(rig.client, rig.ref)
    assert rig.states == [CompactionState.WORKING], "its lock says that it lives"
    (txn_id,) = rig.client.valid_txns().open
    rig.client.abort_txn(txn_id)
    assert not rig.compact(AUTO).done
    assert rig.states == [CompactionState.REFUSED]
    assert rig.values == [1, 2, 3]


def test_the_entry_of_a_worker_that_died_after_its_commit_becomes_ready_for_cleaning(
    rig: Rig,
) -> None:
    with pytest.raises(Killed):
        rig.compact(MAJOR, at("committed", raises(Killed())))
    assert rig.states == [CompactionState.WORKING]
    assert not rig.compact(AUTO).done
    assert rig.states == [CompactionState.READY_FOR_CLEANING]
    assert rig.values == [1, 2, 3]


@pytest.mark.parametrize("is_done", [False, True])
def test_an_entry_with_an_unknown_commit_state_is_settled_by_the_next_run(
    rig: Rig, *, is_done: bool
) -> None:

    def fall_silent(step: str) -> None:
        if step == "published":
            error = MetastoreUnavailableError(
                uris=("thrift://hms:9083",), method="commit_txn", reason="cut off"
            )
            rig.server.break_next("commit_txn", error, is_done=is_done)
            for _ in range(50):
                rig.server.break_next("valid_txns", error, is_done=False)

    with pytest.raises(CommitStateUnknownError):
        rig.compact(MAJOR, fall_silent, clock=ManualClock())
    rig.server.faults.clear()
    assert rig.states == [CompactionState.WORKING]
    rig.abort_open()
    assert not rig.compact(AUTO).done
    end = CompactionState.READY_FOR_CLEANING if is_done else CompactionState.REFUSED
    assert rig.states == [end]
    assert rig.values == [1, 2, 3]


@pytest.mark.parametrize("is_done", [False, True])
def test_an_entry_whose_commit_was_interrupted_is_settled_by_the_next_run(
    rig: Rig, *, is_done: bool
) -> None:
    """As by a time limit of Airflow; the commit may arrive nevertheless."""
    rig.server.break_next("commit_txn", Killed(), is_done=is_done)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        rig.compact(MAJOR)
    assert rig.states == [CompactionState.WORKING]
    rig.abort_open()
    assert not rig.compact(AUTO).done
    end = CompactionState.READY_FOR_CLEANING if is_done else CompactionState.REFUSED
    assert rig.states == [end]
    assert rig.values == [1, 2, 3]


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_worker_that_dies_after_the_search_for_dead_entries_blocks_no_compaction(
    rig: Rig, *, is_claimed: bool
) -> None:
    pool = our_pool(uuid4())

    def die(step: str) -> None:
        if step == "opened":
            rig.request(CompactionType.MAJOR, pool)
            if is_claimed:
                rig.claim(our_worker_id("k"), pool)

    assert rig.compact(MAJOR, die).done
    assert rig.states == [CompactionState.REFUSED, CompactionState.READY_FOR_CLEANING]


def test_a_lock_that_a_killed_worker_only_waited_for_keeps_no_entry_alive(rig: Rig) -> None:
    rig.request(CompactionType.MAJOR, our_pool(uuid4()))
    part = LockComponent(
        table=lock_of_compactors(rig.ref), lock_type=LockType.EXCLUSIVE, operation=None
    )
    first, killed = rig.client.open_txn(), rig.client.open_txn()
    for txn_id in (first, killed):
        rig.client.lock(LockRequest(txn_id=txn_id, components=(part,), agent_info="compactor"))
    end_dead_entries(rig.client, rig.ref)
    assert rig.states == [CompactionState.INITIATED]
    rig.client.commit_txn(first)
    end_dead_entries(rig.client, rig.ref)
    assert rig.states == [CompactionState.REFUSED]


def test_an_aborted_compaction_that_the_server_has_forgotten_is_not_marked_as_cleaned(
    rig: Rig,
) -> None:
    """Otherwise, the server would forget the aborted writes whose rows are in its inputs."""
    rig.compact(MAJOR)
    rig.insert(4)
    pool = our_pool(uuid4())

    def die(step: str) -> None:
        if step != "removed":
            return
        rig.request(CompactionType.MAJOR, pool)
        claim, txn_id = rig.begin_claimed(rig.claim(our_worker_id("k"), pool), 4)
        TableNotes.of(rig.table).note_highest_write_id(claim.entry_id, WriteId(4))
        rig.client.mark_compacted(claim)
        rig.client.abort_txn(txn_id)
        rig.server.txns[txn_id].is_forgotten = True

    clean_tables(rig.client, CleanSpec.of_table(str(rig.ref)), die)
    assert rig.states[-1] is CompactionState.READY_FOR_CLEANING
    rig.clean()
    assert rig.states[-1] is CompactionState.REFUSED


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
    rig: Rig,
) -> None:
    """The entry is listed as not committed, and its lock is gone when the locks are listed."""
    pool = our_pool(uuid4())
    rig.request(CompactionType.MAJOR, pool)
    _, txn_id = rig.begin_claimed(rig.claim(our_worker_id("k"), pool))
    looking = Between(rig.server)
    looking.meanwhile = lambda: rig.client.commit_txn(txn_id)
    assert end_dead_entries(looking, rig.ref) == ()
    assert rig.states == [CompactionState.READY_FOR_CLEANING]


def test_an_entry_marked_during_the_search_for_dead_entries_is_left_unchanged(rig: Rig) -> None:
    pool = our_pool(uuid4())
    rig.request(CompactionType.MAJOR, pool)
    claim = rig.claim(our_worker_id("k"), pool)
    looking = Between(rig.server)
    looking.meanwhile = lambda: rig.client.mark_compacted(claim)
    end_dead_entries(looking, rig.ref)
    assert rig.states == [CompactionState.READY_FOR_CLEANING]


def test_a_compaction_that_begins_during_the_search_for_dead_entries_is_not_ended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries are listed first, since a later entry may have a lock that was not listed."""
    dead, living = our_pool(uuid4()), our_pool(uuid4())
    rig.request(CompactionType.MINOR, dead)

    def begin(*_: object) -> None:
        (left,) = rig.client.show_compactions(rig.ref)
        end_entry(rig.client, ClaimedCompaction.of_entry(left), "its worker died")
        rig.request(CompactionType.MAJOR, living)

    looking = FakeClient(rig.server)
    act_after(monkeypatch, looking, "show_locks", begin)
    end_dead_entries(looking, rig.ref)
    assert rig.states == [CompactionState.REFUSED, CompactionState.INITIATED]


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_a_living_worker_is_recognized_by_its_partition_in_upper_or_lower_case(
    client: FakeClient, tmp_path: Path, spelled: Callable[[str], str]
) -> None:
    """A metastore may store names in lower case in locks, and unchanged in entries."""
    jan = PartitionName.parse("month=Jan")
    partitioned = id_table(client, "by_month", tmp_path / "by_month", by="month string")
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
        assert Rig(client, partitioned).states == [CompactionState.WORKING]


def test_an_entry_is_not_ready_for_cleaning_before_its_transaction_is_committed(rig: Rig) -> None:
    """Until then, Hive's cleaner does not know which readers to wait for, and waits for none."""
    seen = []

    def look(step: str) -> None:
        (entry,) = rig.client.show_compactions(rig.ref) or (None,)
        if entry is not None:
            seen.append((step, entry.state, entry.next_txn_id is not None))

    assert rig.compact(MAJOR, look).done
    assert ("committed", CompactionState.WORKING, True) in seen
    assert ("marked", CompactionState.READY_FOR_CLEANING, True) in seen
    assert all(known for _, state, known in seen if state is CompactionState.READY_FOR_CLEANING)


def test_a_mark_that_the_metastore_refuses_does_not_undo_a_committed_compaction(rig: Rig) -> None:
    error = MetastoreCallError(method="mark_compacted", reason="no such entry")
    rig.server.break_next("mark_compacted", error, is_done=False)
    assert rig.compact(MAJOR).done
    assert not rig.compact(AUTO).done
    assert rig.states == [CompactionState.READY_FOR_CLEANING]


def test_a_request_repeated_after_a_lost_answer_is_served_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FakeClient.request_compaction

    def twice(self: FakeClient, *arguments: object, **terms: object) -> object:
        real(self, *arguments, **terms)  # type: ignore[arg-type]
        return real(self, *arguments, **terms)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeClient, "request_compaction", twice)
    assert rig.compact(MAJOR).done
    assert rig.states == [CompactionState.READY_FOR_CLEANING]


@pytest.mark.parametrize("choice", [AUTO, MINOR, MAJOR])
@pytest.mark.parametrize("theirs", [CompactionType.MINOR, CompactionType.MAJOR])
def test_a_waiting_request_of_a_different_client_is_taken_over(
    rig: Rig, choice: CompactionChoice, theirs: CompactionType
) -> None:
    rig.request(theirs, "etl")
    outcome = rig.compact(choice)
    assert outcome.done
    is_major = choice is MAJOR or theirs is CompactionType.MAJOR
    assert outcome.kind == ("major" if is_major else "minor")
    assert outcome.serves.startswith(f"compaction 1 ({theirs.value}, requested by")
    served, ours = rig.entries
    assert (served.state, ours.state) == (
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    )
    assert "taken over by hiveacid-" in str(served.error_message)
    assert rig.values == [1, 2, 3]


def died(rig: Rig, step: str) -> None:
    earlier = rig.client.valid_txns().open
    with pytest.raises(Killed):
        rig.compact(MAJOR, at(step, lambda: die_now(rig)), job_key="dag/run/dead/-1")
    rig.server.faults.clear()
    for txn_id in set(rig.client.valid_txns().open) - set(earlier):
        rig.client.abort_txn(txn_id)


@pytest.mark.parametrize("at", ["staged", "published", "body_done"])
@pytest.mark.parametrize("theirs", [CompactionType.MINOR, CompactionType.MAJOR])
def test_the_request_that_a_dead_worker_took_over_waits_again(
    rig: Rig, at: str, theirs: CompactionType
) -> None:
    rig.request(theirs, "etl")
    died(rig, at)
    assert asked(rig) == []
    (waiting,) = end_dead_entries(rig.client, rig.ref)
    assert asked(rig) == [(theirs, "etl")]
    assert end_dead_entries(rig.client, rig.ref) == (waiting,)  # once
    rig.insert(1, 2, 3)  # what the dead worker has published stays
    assert rig.compact(AUTO).serves == waiting.asked_by
    assert asked(rig) == []
    assert rig.states[-1] is CompactionState.READY_FOR_CLEANING


def the_next_run_dies_too(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    died(rig, "staged")
    patch.setattr(compaction_work, "_ask_again", die_at_once)
    with pytest.raises(Killed):
        end_dead_entries(rig.client, rig.ref)


def ours_dies_while_it_gives_up(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    error = MetastoreCallError(method="set_job_id", reason="the database is full")
    rig.server.break_next("set_job_id", error, is_done=False)
    patch.setattr(compaction_work, "_ask_again", die_at_once)
    with pytest.raises(Killed):
        rig.compact(MAJOR)


def ours_dies_before_it_has_an_entry(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction_work.CompactionWork, "_claimed", die_at_once)
    patch.setattr(compaction_work.CompactionWork, "give_up", die_at_once)
    with pytest.raises(Killed):
        rig.compact(MAJOR)


def the_metastore_does_not_answer(rig: Rig, _: pytest.MonkeyPatch) -> None:
    died(rig, "staged")
    error = MetastoreUnavailableError(uris=(), method="request_compaction", reason="cut off")
    rig.server.break_next("request_compaction", error, is_done=False)
    assert end_dead_entries(rig.client, rig.ref) == ()


die_at_once = raises(Killed())


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
    rig: Rig, monkeypatch: pytest.MonkeyPatch, dies: Callable[[Rig, pytest.MonkeyPatch], None]
) -> None:
    rig.request(CompactionType.MAJOR, "etl")
    with monkeypatch.context() as patch:
        dies(rig, patch)
    assert asked(rig) == []
    (waiting,) = end_dead_entries(rig.client, rig.ref)
    assert asked(rig) == [(CompactionType.MAJOR, "etl")]
    assert end_dead_entries(rig.client, rig.ref) == (waiting,)
    with pytest.raises(KeepingRefusedError, match=f"`cancel {rig.ref}`"):
        keep(rig.client, rig.client.get_table(rig.ref))
    assert rig.compact(AUTO).done
    assert end_dead_entries(rig.client, rig.ref) == ()


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_replaced_request_is_not_repeated_while_its_worker_lives_or_after_a_cancel(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    rig.request(CompactionType.MAJOR, "etl")
    claim, seen = compaction_work.CompactionWork._claimed, []

    def claimed(worker: object, kind: CompactionType) -> object:
        seen.append(end_dead_entries(rig.client, rig.ref))
        return claim(worker, kind)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction_work.CompactionWork, "_claimed", claimed)
    if is_cancelled:
        died(rig, "staged")
        compaction_work.cancel_compactions(rig.client, rig.ref)
    else:
        assert rig.compact(MAJOR).done
    assert seen == [()]
    assert end_dead_entries(rig.client, rig.ref) == ()
    assert asked(rig) == []


def test_a_failed_entry_of_hive_with_a_similar_message_is_not_requested_again(rig: Rig) -> None:
    queue = rig.server.queue
    rig.request(CompactionType.MAJOR, "etl")
    queue[1] = dataclasses.replace(
        queue[1], state=CompactionState.FAILED, error_message="no application in pool etl"
    )
    rig.request(CompactionType.MINOR, "etl")
    rig.client.abort_txn(txn_id := rig.client.open_txn())
    queue[2] = dataclasses.replace(queue[2], state=CompactionState.WORKING, txn_id=txn_id)
    assert end_dead_entries(rig.client, rig.ref) == ()
    assert rig.states == [CompactionState.FAILED, CompactionState.REFUSED]


def test_the_next_compaction_serves_the_request_that_a_dead_worker_took_over(rig: Rig) -> None:
    """Also if the worker dies after the next compaction was planned."""

    def die(step: str) -> None:
        if step == "opened":
            rig.request(CompactionType.MINOR, "etl")
            died(rig, "staged")

    outcome = rig.compact(MAJOR, die)
    assert outcome.done
    assert outcome.serves.startswith("compaction 3 (minor, requested by")
    assert asked(rig) == []


def test_the_request_that_a_worker_served_before_it_died_is_not_repeated(rig: Rig) -> None:
    rig.request(CompactionType.MAJOR, "etl")
    assert rig.compact(MAJOR, job_key="dag/run/dead/-1").serves
    rig.insert(1, 2, 3)
    died(rig, "staged")
    assert end_dead_entries(rig.client, rig.ref) == ()
    assert asked(rig) == []


def test_a_minor_compaction_does_not_take_over_a_request_for_a_major_one(rig: Rig) -> None:
    """A request known beforehand makes ours major; this request comes after the plan."""
    with pytest.raises(CompactionNotDoneError, match="queue has an entry for it already"):
        rig.compact(MINOR, at("opened", lambda: rig.request(CompactionType.MAJOR, "etl")))
    assert rig.states == [CompactionState.INITIATED]
    assert asked(rig) == [(CompactionType.MAJOR, "etl")]
    assert rig.compact(AUTO).kind == "major"


@pytest.mark.parametrize("choice", [MINOR, MAJOR])
def test_a_request_for_a_rebalance_compaction_is_left_to_hive(
    rig: Rig, choice: CompactionChoice
) -> None:
    rig.request(CompactionType.REBALANCE)
    with pytest.raises(CompactionNotDoneError, match="queue has an entry for it already"):
        rig.compact(choice)
    assert rig.states == [CompactionState.INITIATED]


def asked(rig: Rig) -> list[tuple[CompactionType, str | None]]:
    """What others have asked for and nothing serves."""
    entries = rig.client.show_compactions(rig.ref)
    return [(e.compaction_type, e.pool) for e in entries if e.waits_for_anybody]


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_request_taken_over_is_made_again_if_the_metastore_fails_the_compaction(
    rig: Rig, method: str, *, is_done: bool
) -> None:
    rig.request(CompactionType.MINOR, "etl")
    error = MetastoreCallError(method=method, reason="the database is full")
    rig.server.break_next(method, error, is_done=is_done)
    with pytest.raises(MetastoreCallError, match="full"):
        rig.compact(MAJOR)
    assert asked(rig) == [(CompactionType.MINOR, "etl")]
    outcome = rig.compact(AUTO)
    assert (outcome.done, outcome.serves.split(" ")[0]) == (True, "compaction")
    assert rig.values == [1, 2, 3]


def test_a_request_whose_takeover_is_interrupted_is_made_again(rig: Rig) -> None:
    rig.request(CompactionType.MAJOR, "etl")
    rig.server.break_next("mark_refused", Killed(), is_done=True)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        rig.compact(MAJOR)
    assert asked(rig) == [(CompactionType.MAJOR, "etl")]


@pytest.mark.parametrize("last", ["staged", "reads_locked", "published", "body_done", "committed"])
def test_a_request_taken_over_is_made_again_if_the_compaction_fails_before_its_commit(
    rig: Rig, last: str
) -> None:
    rig.request(CompactionType.MAJOR, "etl")
    with pytest.raises(OSError, match="full"):
        rig.compact(MAJOR, at(last, raises(OSError("the disk is full"))))
    is_left = last != "committed"
    assert asked(rig) == ([(CompactionType.MAJOR, "etl")] if is_left else [])
    assert rig.values == [1, 2, 3]


def test_a_request_taken_over_is_not_made_again_if_nothing_is_left_to_compact(rig: Rig) -> None:
    rig.request(CompactionType.MAJOR, "etl")

    def overwrite(step: str) -> None:
        if step != "staged":
            return
        txn_id = rig.client.open_txn()
        write_id = rig.client.allocate_write_id(txn_id, rig.ref)
        rig.client.add_dynamic_partitions(txn_id, write_id, rig.ref, (), DataOperation.OVERWRITE)
        rig.put(f"base_{write_id:07d}", [(write_id, 7)])
        rig.client.commit_txn(txn_id)

    assert "has replaced the files" in rig.compact(MAJOR, overwrite).why
    assert asked(rig) == []
    assert rig.values == [7]


def test_an_entry_that_a_worker_of_hive_has_claimed_is_left_to_it(rig: Rig) -> None:
    rig.request(CompactionType.MAJOR)
    rig.claim("hs2-worker-1")
    for _ in range(10):
        rig.insert(4)
    assert rig.compact(AUTO).is_hindered
    with pytest.raises(
        CompactionNotDoneError, match=r"by worker hs2-worker-1.*is being done"
    ) as caught:
        rig.compact(MAJOR)
    assert caught.value.retryable
    assert rig.states == [CompactionState.WORKING]


def test_an_entry_that_a_worker_of_hive_claims_during_a_takeover_is_left_to_it(rig: Rig) -> None:
    class Overtaken(FakeClient):
        """One whose request comes after another client's, which Hive's worker claims at once."""

        def mark_refused(self, claim: ClaimedCompaction) -> None:
            super().mark_refused(claim)
            if claim.entry_id == 1:
                rig.request(CompactionType.MAJOR, "etl")
                rig.client.find_next_compaction("hive-7", worker_version="4", pool="etl")

    rig.request(CompactionType.MAJOR, "etl")
    with pytest.raises(CompactionNotDoneError, match="queue has an entry for it already"):
        Rig(Overtaken(rig.server), rig.table).compact(MAJOR)
    assert rig.states == [CompactionState.REFUSED, CompactionState.WORKING]
    assert rig.values == [1, 2, 3]


def test_a_worker_of_hive_can_neither_update_nor_mark_an_entry_that_was_taken_over(
    rig: Rig,
) -> None:
    rig.request(CompactionType.MAJOR)
    before = rig.client.show_compactions(rig.ref)
    theirs = rig.claim("hs2-worker-1")
    # It claimed behind the look of ours.
    rig.server.queue[1] = dataclasses.replace(before[0])
    assert rig.compact(MAJOR).done
    txn_id = rig.client.open_txn(TxnType.COMPACTION)
    with pytest.raises(MetastoreCallError):
        rig.client.update_compactor_state(theirs, txn_id)
    with pytest.raises(MetastoreCallError):
        rig.client.mark_compacted(theirs)
    assert rig.values == [1, 2, 3]


def hive_compacts(rig: Rig, kind: CompactionType, *, is_marked: bool = True) -> TxnId:
    """Let a worker of Hive's claim and mark a compaction; its transaction stays open."""
    rig.request(kind)
    claim, txn_id = rig.begin_claimed(rig.claim("hivehost1-42"))
    if is_marked:
        rig.client.mark_compacted(claim)
    return txn_id


def test_a_major_compaction_follows_a_minor_one_whose_replaced_files_still_have_a_reader(
    rig: Rig,
) -> None:
    reader = rig.client.open_txn(TxnType.READ_ONLY)
    assert rig.compact(MINOR).done
    assert rig.compact(MAJOR).done
    rig.client.commit_txn(reader)
    assert rig.states == [
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    ]
    assert rig.values == [1, 2, 3]


def test_a_major_compaction_follows_a_committed_minor_one_of_hive(rig: Rig) -> None:
    rig.client.commit_txn(hive_compacts(rig, CompactionType.MINOR))
    assert rig.compact(MAJOR).done
    minor, _ = rig.entries
    assert minor.is_committed
    assert not minor.has_failed
    assert rig.values == [1, 2, 3]


@pytest.mark.parametrize("is_marked", [True, False], ids=["ready for cleaning", "working"])
@pytest.mark.parametrize("kind", [CompactionType.MINOR, CompactionType.MAJOR])
def test_a_dead_worker_of_hive_blocks_neither_a_compaction_nor_the_keeping_of_versions(
    rig: Rig, kind: CompactionType, *, is_marked: bool
) -> None:
    rig.client.abort_txn(hive_compacts(rig, kind, is_marked=is_marked))
    keep(rig.client, rig.client.get_table(rig.ref))
    rig.client.abort_txn(hive_compacts(rig, kind, is_marked=is_marked))
    assert rig.compact(MAJOR).done
    assert is_kept(rig)
    assert rig.states == [
        CompactionState.REFUSED,
        CompactionState.REFUSED,
        CompactionState.READY_FOR_CLEANING,
    ]


@pytest.mark.parametrize("is_ours", [True, False])
def test_versions_can_be_kept_while_a_committed_compaction_waits_for_its_cleaning(
    rig: Rig, *, is_ours: bool
) -> None:
    """The parameter keeps the replaced files for days, and their entry with them."""
    if is_ours:
        assert rig.compact(MAJOR).done
    else:
        rig.client.commit_txn(hive_compacts(rig, CompactionType.MAJOR))
    reader = rig.client.open_txn()
    keep_readable(rig.client, rig.ref, "7 days")
    rig.clean()
    rig.client.commit_txn(reader)
    rig.clean()
    assert rig.states[0] in (
        CompactionState.READY_FOR_CLEANING,
        CompactionState.SUCCEEDED,
    )
    assert is_kept(rig)
    assert rig.values == [1, 2, 3]


def test_the_entry_of_a_living_worker_of_hive_is_left_to_it_and_the_refusals_say_the_same(
    rig: Rig,
) -> None:
    txn_id = hive_compacts(rig, CompactionType.MINOR)
    assert end_dead_entries(rig.client, rig.ref) == ()
    (status,) = unfinished(rig.client, rig.ref)
    assert f"in transaction {txn_id}, which is open; wait, or end it with" in str(status)
    with pytest.raises(CompactionNotDoneError, match=re.escape(str(status))):
        rig.compact(MAJOR)
    with pytest.raises(KeepingRefusedError, match=re.escape(str(status))):
        keep(rig.client, rig.client.get_table(rig.ref))
    assert rig.states == [CompactionState.READY_FOR_CLEANING]


def test_a_compaction_of_hive_that_our_compaction_replaced_still_ends_the_guarantee(
    rig: Rig,
) -> None:
    """Until its entry ended, Hive's cleaner may have removed files."""
    keep(rig.client, rig.client.get_table(rig.ref))
    rig.client.commit_txn(hive_compacts(rig, CompactionType.MINOR))
    assert rig.compact(MAJOR).done
    assert not is_kept(rig)


def test_during_a_compaction_of_ours_a_requested_kind_fails_and_auto_gives_way(rig: Rig) -> None:
    rig.insert(*range(12))
    told: list[object] = []

    def compete(step: str) -> None:
        if step == "staged" and not told:
            told.append(rig.compact(AUTO, job_key="other/auto").is_hindered)
            with pytest.raises(CompactionNotDoneError, match="another compactor is at work"):
                rig.compact(MAJOR, job_key="other/major")

    assert rig.compact(MAJOR, compete).done
    assert told == [True]


@pytest.fixture
def shortened(client: FakeClient, table: TableInfo) -> Rig:
    """A minor result of which the metastore has forgotten the last writes, which were aborted."""
    rig = Rig(client, table)
    rig.insert(1, 2)
    batch = [rig.client.open_txn() for _ in range(3)]
    ids = [rig.client.allocate_write_id(txn_id, rig.ref) for txn_id in batch]
    for txn_id, write_id in zip(batch, ids, strict=True):
        rig.client.add_dynamic_partitions(txn_id, write_id, rig.ref, (), DataOperation.INSERT)
    rig.put("delta_0000003_0000005", [(3, 3), (4, 4)])
    rig.client.commit_txn(batch[0])
    for txn_id in batch[1:]:
        rig.client.abort_txn(txn_id)
    assert rig.compact(MINOR).outputs == ("delta_0000001_0000005",)
    rig.server.clean_write_ids()
    rig.server.queue.clear()
    return rig


def test_a_requested_kind_fails_if_the_list_of_writes_ends_within_the_only_delta(
    shortened: Rig,
) -> None:
    for name in shortened.there("delta_"):
        if name != "delta_0000001_0000005":
            shutil.rmtree(Path(shortened.table.location.removeprefix("file:")) / name)
    with pytest.raises(CompactionNotDoneError, match="list of writes now ends at 4"):
        shortened.compact(MAJOR)
    assert not shortened.compact(AUTO).is_hindered
    shortened.insert(6)
    assert shortened.compact(MAJOR).done
    assert shortened.values == [1, 2, 3, 6]


@pytest.mark.parametrize("choice", [MAJOR, AUTO])
def test_a_list_of_writes_that_became_shorter_is_reported_as_the_reason(
    shortened: Rig, choice: CompactionChoice
) -> None:
    """4.0.1 forgets which writes were committed, and ends the list at the first aborted one."""
    if choice is AUTO:
        shortened.request(CompactionType.MAJOR)
        outcome = shortened.compact(AUTO)
        assert outcome.is_hindered
        assert "delta_0000001_0000005 contains later writes" in outcome.why
        assert asked(shortened) == [(CompactionType.MAJOR, "default")]
    else:
        with pytest.raises(
            CompactionNotDoneError, match="delta_0000001_0000005 contains later writes"
        ):
            shortened.compact(MAJOR)
    assert shortened.there("base_") == []
    shortened.insert(6)
    assert shortened.compact(MAJOR).done
    assert shortened.values == [1, 2, 3, 6]

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from uuid import uuid4

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.client.connection import Repeat
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionState,
    CompactionType,
    our_pool,
    our_worker_id,
)
from airflow_hiveacid.metastore.gen.compaction.ttypes import ShowCompactRequest
from airflow_hiveacid.metastore.locks import presence_of_compactions
from airflow_hiveacid.metastore.port import MetastorePort, TxnType
from airflow_hiveacid.metastore.transactions.compaction_work import (
    CompactionWork,
    cancel_compactions,
    compacting,
    end_dead_entries,
    end_entry,
)
from tests.contract.bench import NEEDS_V4, Bench, access, commit, month, start
from tests.support.terms import job_terms

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


@pytest.fixture
def table(bench: Bench, client: MetastorePort) -> TableInfo:
    table = bench.partitioned("1", "2")
    for _ in range(3):
        mine = start(
            client, access(table, conflicts.DataOperation.INSERT, partitions=(month("1"),))
        )
        commit(client, mine.txn_id)
    return table


def claim_of(client: MetastorePort, pool: str) -> ClaimedCompaction:
    claim = client.find_next_compaction("worker-1", worker_version="1.0", pool=pool)
    assert claim is not None
    return claim


def test_a_compaction_request_is_queued_and_shown(client: MetastorePort, table: TableInfo) -> None:
    answer = client.request_compaction(table.ref, month("1"), MAJOR)
    assert answer.accepted
    assert answer.state is CompactionState.INITIATED
    (entry,) = client.show_compactions(table.ref)
    assert (entry.entry_id, entry.partition) == (answer.entry_id, month("1"))
    assert (entry.compaction_type, entry.state) == (MAJOR, CompactionState.INITIATED)
    assert entry.state.is_pending


def test_a_second_request_for_the_same_partition_is_not_queued(
    client: MetastorePort, table: TableInfo
) -> None:
    first = client.request_compaction(table.ref, month("1"), MAJOR)
    again = client.request_compaction(table.ref, month("1"), MINOR)
    other = client.request_compaction(table.ref, month("2"), MINOR)
    assert (again.accepted, other.accepted) == (False, True)
    is_v3 = client.generation is conflicts.MetastoreGeneration.V3
    assert again.entry_id == (first.entry_id if is_v3 else None)
    assert len(client.show_compactions(table.ref)) == 2


@pytest.mark.parametrize(
    "bench", [pytest.param("real-4.0.1", marks=pytest.mark.server)], indirect=True
)
def test_the_metastore_filters_the_queue(
    bench: Bench, client: MetastoreClient, table: TableInfo
) -> None:
    other = bench.table("other")
    client.request_compaction(table.ref, month("1"), MINOR)
    client.request_compaction(other.ref, None, MINOR)
    request = ShowCompactRequest(dbName=bench.db, tbName="other")
    answer = client._connection.call("show_compact", request, repeat=Repeat.SAFE)
    assert [(e.dbname, e.tablename) for e in answer.compacts] == [(bench.db, "other")]
    client.request_compaction(table.ref, month("2"), MINOR)
    request = ShowCompactRequest(dbName=bench.db, tbName=table.ref.name, partName="month=2")
    answer = client._connection.call("show_compact", request, repeat=Repeat.SAFE)
    assert [e.partitionname for e in answer.compacts] == ["month=2"]


@pytest.mark.parametrize("value", ["2", "a/b=c", "50% {off}", "été"])
def test_the_queue_can_be_shown_for_one_partition(
    client: MetastorePort, table: TableInfo, value: str
) -> None:
    for name in (month("1"), month(value)):
        client.request_compaction(table.ref, name, MINOR)
    (entry,) = client.show_compactions(table.ref, month(value))
    assert entry.partition == month(value)
    assert client.show_compactions(table.ref, month("3")) == ()


def test_an_unpartitioned_table_is_queued_as_a_whole(bench: Bench, client: MetastorePort) -> None:
    table = bench.table("whole")
    client.request_compaction(table.ref, None, MINOR)
    (entry,) = client.show_compactions(table.ref)
    assert entry.partition is None


def test_claiming_compactions_and_choosing_a_pool_require_4x(
    client: MetastorePort, table: TableInfo
) -> None:
    if client.generation is conflicts.MetastoreGeneration.V4:
        assert client.find_next_compaction("w", worker_version="1", pool=table.ref.db) is None
        return
    with pytest.raises(errors.MetastoreVersionError, match="find_next_compact2"):
        client.find_next_compaction("w", worker_version="1")
    with pytest.raises(errors.MetastoreVersionError, match="pool"):
        client.request_compaction(table.ref, month("1"), MAJOR, pool="p")


@NEEDS_V4
def test_a_worker_claims_from_its_own_pool_only(client: MetastorePort, table: TableInfo) -> None:
    pool = table.ref.db
    client.request_compaction(table.ref, month("1"), MAJOR, pool=pool)
    assert client.find_next_compaction("w", worker_version="1", pool="elsewhere") is None
    claim = claim_of(client, pool)
    assert (claim.table, claim.partition, claim.pool) == (table.ref, month("1"), pool)
    assert client.find_next_compaction("w", worker_version="1", pool=pool) is None
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.worker_id) == (CompactionState.WORKING, "worker-1")
    assert entry.worker_version == "1.0"
    client.mark_refused(replace(claim, error_message="tidying up"))


def compaction(
    client: MetastorePort,
    table: TableInfo,
    kind: CompactionType = MAJOR,
    *,
    value: str = "1",
    job_key: str = "compact",
) -> AbstractContextManager[CompactionWork]:
    return compacting(
        client, job_terms(job_key), table=table, partition=month(value), compaction_type=kind
    )


@NEEDS_V4
def test_a_compaction_passes_through_all_states(client: MetastorePort, table: TableInfo) -> None:
    with compaction(client, table) as work:
        assert work.claim is not None
        assert work.write_ids.high_watermark == 3
        assert work.txn.write_ids == {}
        assert client.show_locks(table.ref) == ()
        work.txn.lock_reads()
        (lock,) = client.show_locks(table.ref)
        assert (lock.lock_type, lock.partition) == (conflicts.LockType.SHARED_READ, "month=1")
        client.set_job_id(work.claim, "application_1")
        (entry,) = client.show_compactions(table.ref)
        assert (entry.state, entry.txn_id) == (CompactionState.WORKING, work.txn.txn_id)
        assert (entry.highest_write_id, entry.job_id) == (3, "application_1")
        assert entry.run_as
        # As Spark calls its applications on Kubernetes.
        client.set_job_id(work.claim, f"spark-{'0123456789abcdef' * 2}")
        (entry,) = client.show_compactions(table.ref)
        assert entry.job_id == "0123456789abcdef" * 2
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.READY_FOR_CLEANING
    assert client.show_locks(table.ref) == ()
    assert entry.is_committed
    assert entry.highest_write_id == 3
    client.mark_cleaned(replace(work.claim, highest_write_id=ids.WriteId(3)))
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.SUCCEEDED
    assert not entry.state.is_pending
    with pytest.raises(ValueError, match="not unfinished"):
        ClaimedCompaction.of_entry(entry)


@NEEDS_V4
def test_a_compaction_marked_as_compacted_but_not_committed_can_be_marked_as_failed(
    client: MetastorePort, table: TableInfo
) -> None:
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, month("1"), MAJOR, pool=pool)
    claim = claim_of(client, pool)
    txn_id = client.open_txn(TxnType.COMPACTION)
    claim = replace(claim, highest_write_id=ids.WriteId(3))
    client.update_compactor_state(claim, txn_id)
    client.mark_compacted(claim)
    client.abort_txn(txn_id)
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.txn_id) == (CompactionState.READY_FOR_CLEANING, txn_id)
    assert txn_id in client.valid_txns().aborted
    assert entry.entry_id is not None
    found = ClaimedCompaction(
        entry_id=entry.entry_id,
        table=entry.table,
        partition=entry.partition,
        compaction_type=entry.compaction_type,
        run_as=entry.run_as,
        error_message="it was not committed",
    )
    client.mark_failed(found)
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.error_message) == (CompactionState.FAILED, found.error_message)
    assert client.request_compaction(table.ref, month("1"), MAJOR).accepted


@NEEDS_V4
def test_open_transactions_are_distinguished_from_compactions(client: MetastorePort) -> None:
    before = client.open_but_compactions()
    kinds = {kind: client.open_txn(kind) for kind in TxnType}
    opened = {kinds[TxnType.DEFAULT], kinds[TxnType.READ_ONLY]}
    assert client.open_but_compactions() - before == opened
    for txn_id in kinds.values():
        client.abort_txn(txn_id)
    assert not client.open_but_compactions() & set(kinds.values())


@NEEDS_V4
def test_a_partition_ready_for_cleaning_is_queued_again_only_after_a_new_write(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table):
        pass
    again = client.request_compaction(table.ref, month("1"), MINOR)
    assert (again.accepted, again.state) == (False, CompactionState.REFUSED)
    assert "ready for cleaning" in str(again.message)
    assert client.request_compaction(table.ref, month("2"), MINOR).accepted
    mine = start(client, access(table, conflicts.DataOperation.INSERT, partitions=(month("1"),)))
    commit(client, mine.txn_id)
    assert client.request_compaction(table.ref, month("1"), MINOR).accepted


@NEEDS_V4
def test_a_failed_compaction_records_its_error_in_the_queue(
    client: MetastorePort, table: TableInfo
) -> None:
    with pytest.raises(OSError, match="full"), compaction(client, table, MINOR):
        raise OSError("the disk is full")
    (entry,) = client.show_compactions(table.ref)
    # Two failed ones in a row would keep Hive's Initiator away for a week.
    assert entry.state is CompactionState.REFUSED
    assert entry.error_message == "OSError: the disk is full"
    assert entry.has_our_worker
    assert client.show_locks(table.ref) == ()


@NEEDS_V4
def test_a_compaction_with_nothing_to_do_records_its_reason_in_the_queue(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table) as work:
        work.refuse("one directory, nothing to join")
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.REFUSED
    assert entry.error_message == "one directory, nothing to join"
    assert client.show_locks(table.ref) == ()


def test_only_one_of_two_compactions_works_on_a_partition(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table) as first:
        assert first.refusal is None
        with compaction(client, table, job_key="another") as second:
            assert second.refusal is not None
            assert "another compactor is at work here" in second.refusal
            assert f"`hiveacid abort {first.txn.txn_id}`" in second.refusal
        with compaction(client, table, value="2", job_key="another") as neighbour:
            assert neighbour.refusal is None
    assert client.show_locks(table.ref) == ()


def test_a_request_queued_by_another_client_is_served_only_on_4x(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR)
    client.request_compaction(table.ref, month("2"), MINOR)
    with compaction(client, table) as work:
        served = work.refusal is None
    found = {(e.partition, e.compaction_type): e.state for e in client.show_compactions(table.ref)}
    assert found[month("2"), MINOR] is CompactionState.INITIATED
    if client.generation is conflicts.MetastoreGeneration.V3:
        assert not served
        assert found[month("1"), MINOR] is CompactionState.INITIATED
        return
    assert served
    assert "minor, requested by" in work.serves
    assert found[month("1"), MINOR] is CompactionState.REFUSED
    assert found[month("1"), MAJOR] is CompactionState.READY_FOR_CLEANING


@NEEDS_V4
def test_a_minor_compaction_does_not_serve_a_major_request(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MAJOR)
    with compaction(client, table, MINOR) as work:
        assert work.refusal is not None
        assert "already" in work.refusal
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.INITIATED


@NEEDS_V4
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_worker_whose_entry_was_taken_over_can_neither_start_nor_mark_its_compaction(
    client: MetastorePort, table: TableInfo, *, has_begun: bool
) -> None:
    """So Hive's, which marks before it commits, never commits what we compact meanwhile."""
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    (waiting,) = client.show_compactions(table.ref)
    theirs = replace(claim_of(client, table.ref.db), highest_write_id=ids.WriteId(3))
    txn_id = client.open_txn(TxnType.COMPACTION)
    if has_begun:
        client.update_compactor_state(theirs, txn_id)
    end_entry(client, ClaimedCompaction.of_entry(waiting), "taken over")
    if not has_begun:
        with pytest.raises(errors.MetastoreError):
            client.update_compactor_state(theirs, txn_id)
    with pytest.raises(errors.MetastoreError):
        client.mark_compacted(theirs)
    client.abort_txn(txn_id)
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.error_message) == (CompactionState.REFUSED, "taken over")


@NEEDS_V4
def test_a_commit_sets_the_cleaners_transaction_bound_before_the_entry_is_marked(
    client: MetastorePort, table: TableInfo
) -> None:
    seen = []

    def look(step: str) -> None:
        entries = client.show_compactions(table.ref)
        seen.extend((step, e.state, e.next_txn_id is not None) for e in entries)

    with compacting(
        client,
        job_terms("compact", on_step=look),
        table=table,
        partition=month("1"),
        compaction_type=MAJOR,
    ):
        pass
    assert seen == [
        ("body_done", CompactionState.WORKING, False),
        ("committed", CompactionState.WORKING, True),
        ("marked", CompactionState.READY_FOR_CLEANING, True),
    ]


@NEEDS_V4
@pytest.mark.parametrize("left", ["initiated", "claimed", "begun", "aborted", "committed"])
def test_entries_of_a_dead_worker_are_ended_and_the_partition_can_be_requested_again(
    client: MetastorePort, table: TableInfo, left: str
) -> None:
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, month("1"), MINOR, pool=pool)
    txn_id = client.open_txn(TxnType.COMPACTION)
    if left != "initiated":
        claim = client.find_next_compaction(our_worker_id("job"), worker_version="1", pool=pool)
        assert claim is not None
        if left != "claimed":
            client.update_compactor_state(replace(claim, highest_write_id=ids.WriteId(3)), txn_id)
    if left == "committed":
        commit(client, txn_id)
    elif left != "begun":
        client.abort_txn(txn_id)
    assert end_dead_entries(client, table.ref) == ()
    (entry,) = client.show_compactions(table.ref)
    if left == "committed":
        assert entry.state is CompactionState.READY_FOR_CLEANING
    else:
        assert (entry.state, entry.error_message) == (CompactionState.REFUSED, "its worker died")
        assert client.request_compaction(table.ref, month("1"), MINOR).accepted
    if left == "begun":
        client.abort_txn(txn_id)


@NEEDS_V4
@pytest.mark.parametrize("is_claimed", [False, True])
def test_entries_of_other_workers_are_not_ended_even_if_their_names_start_like_ours(
    client: MetastorePort, table: TableInfo, *, is_claimed: bool
) -> None:
    """IDs of Hive's workers begin with their host, and a pool may have any name."""
    pool = f"hiveacid-{table.ref.db}"
    client.request_compaction(table.ref, month("1"), MINOR, pool=pool)
    if is_claimed:
        client.find_next_compaction("hiveacid-worker-7-42", worker_version="4.0.1", pool=pool)
    waiting = end_dead_entries(client, table.ref)
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.pool) == (
        CompactionState.WORKING if is_claimed else CompactionState.INITIATED,
        pool,
    )
    assert waiting == (() if is_claimed else (entry,))
    end_entry(client, ClaimedCompaction.of_entry(entry), "tidying up")


@NEEDS_V4
def test_the_entry_of_a_running_worker_is_not_ended(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table):
        assert end_dead_entries(client, table.ref) == ()
        (entry,) = client.show_compactions(table.ref)
        assert entry.state is CompactionState.WORKING


@NEEDS_V4
def test_a_failed_entry_keeps_its_worker_id_only_if_it_was_not_marked_as_compacted(
    client: MetastorePort, table: TableInfo
) -> None:
    pool = our_pool(uuid4())
    for is_marked in (False, True):
        client.request_compaction(table.ref, month("1"), MINOR, pool=pool)
        claim = client.find_next_compaction(our_worker_id("job"), worker_version="1", pool=pool)
        assert claim is not None
        if is_marked:
            client.mark_compacted(claim)
        client.mark_failed(claim)
    newest_first = sorted(client.show_compactions(table.ref), key=lambda e: -(e.entry_id or 0))
    assert [e.state for e in newest_first] == [CompactionState.FAILED] * 2
    assert [e.has_our_worker for e in newest_first] == [False, True]


@NEEDS_V4
def test_a_refused_compaction_records_its_reason_and_cannot_be_refused_again(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    claim = replace(claim_of(client, table.ref.db), error_message="nothing to do")
    client.mark_refused(claim)
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.error_message) == (CompactionState.REFUSED, "nothing to do")
    with pytest.raises(errors.MetastoreCallError):
        client.mark_refused(claim)


@NEEDS_V4
@pytest.mark.promise("C21")
def test_a_cancelled_compaction_of_ours_ends_without_a_result_and_can_be_requested_again(
    client: MetastorePort, table: TableInfo
) -> None:
    def run() -> None:
        with compaction(client, table) as work:
            work.txn.confirm_alive()
            (ended,) = cancel_compactions(client, table.ref, month("1"))
            assert work.claim is not None
            assert ended.entry_id == work.claim.entry_id
            work.txn.confirm_alive()

    with pytest.raises(errors.CompactionCancelledError, match=r"is refused \(cancelled by"):
        run()
    assert client.show_locks(table.ref) == ()
    assert client.request_compaction(table.ref, month("1"), MAJOR).accepted


@NEEDS_V4
def test_a_drop_removes_the_entry_of_a_compaction_and_does_not_count_as_a_cancel(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table) as work:
        client.drop_partitions(table, [month("1")])
        assert client.show_compactions(table.ref) == ()
        work.txn.confirm_alive()


@NEEDS_V4
@pytest.mark.promise("C21")
def test_a_request_that_waits_and_one_that_another_worker_has_claimed_are_cancelled(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    theirs = replace(claim_of(client, table.ref.db), highest_write_id=ids.WriteId(3))
    client.request_compaction(table.ref, month("2"), MINOR)
    ended = cancel_compactions(client, table.ref)
    assert {entry.partition for entry in ended} == {month("1"), month("2")}
    states = {entry.state for entry in client.show_compactions(table.ref)}
    assert states == {CompactionState.REFUSED}
    with pytest.raises(errors.MetastoreError):
        client.mark_compacted(theirs)  # so Hive's worker commits nothing


@NEEDS_V4
def test_an_entry_without_a_highest_write_id_cannot_be_marked_as_cleaned(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    claim = claim_of(client, table.ref.db)
    with pytest.raises(ValueError, match="highest write ID"):
        client.mark_cleaned(replace(claim, highest_write_id=None))
    client.mark_refused(replace(claim, error_message="tidying up"))


@NEEDS_V4
@pytest.mark.parametrize("had_claimed", [True, False])
def test_an_entry_of_a_dead_worker_does_not_block_a_new_compaction(
    client: MetastorePort, table: TableInfo, *, had_claimed: bool
) -> None:
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, month("1"), MINOR, pool=pool)
    if had_claimed:
        client.find_next_compaction("hiveacid-job", worker_version="1.0", pool=pool)
    with compaction(client, table) as work:
        assert work.refusal is None
    states = sorted(
        (entry.compaction_type.value, entry.state.value)
        for entry in client.show_compactions(table.ref)
    )
    assert states == [("major", "ready for cleaning"), ("minor", "refused")]


@NEEDS_V4
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_request_taken_over_is_queued_again_if_the_compaction_fails_or_is_refused(
    client: MetastorePort, table: TableInfo, *, is_refused: bool
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)

    def work() -> None:
        with compaction(client, table) as mine:
            assert mine.serves.startswith("compaction ")
            if not is_refused:
                raise OSError("the disk is full")
            mine.refuse("something stands in its way")

    if is_refused:
        work()
    else:
        with pytest.raises(OSError, match="full"):
            work()
    (waiting,) = [e for e in client.show_compactions(table.ref) if e.is_at_work]
    assert waiting.waits_for_anybody
    assert (waiting.compaction_type, waiting.partition) == (MINOR, month("1"))
    claim = claim_of(client, table.ref.db)
    assert claim.entry_id == waiting.entry_id
    client.mark_refused(replace(claim, error_message="tidying up"))


@NEEDS_V4
def test_an_entry_that_another_worker_is_processing_is_not_taken_over(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    claim = claim_of(client, table.ref.db)
    with compaction(client, table) as work:
        assert work.refusal is not None
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.WORKING
    client.mark_refused(replace(claim, error_message="tidying up"))


def test_a_compaction_holds_a_lock_in_its_transaction_and_has_no_queue_entry_on_3x(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table) as work:
        assert work.write_ids.high_watermark == 3
        presence = presence_of_compactions(table.ref)
        assert {lock.txn_id for lock in client.show_locks(presence)} == {work.txn.txn_id}
    assert client.show_locks(presence) == ()
    if client.generation is conflicts.MetastoreGeneration.V3:
        assert work.claim is None
        assert client.show_compactions(table.ref) == ()

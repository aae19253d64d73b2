from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreCallError, MetastoreVersionError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionState,
    CompactionType,
)
from airflow_hiveacid.metastore.compaction_work import compacting
from airflow_hiveacid.metastore.connection import Repeat
from airflow_hiveacid.metastore.gen.compaction.ttypes import ShowCompactRequest
from airflow_hiveacid.metastore.txn_values import TxnType
from contract.bench import NEEDS_V4, access, month, start

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.compaction_work import CompactionWork
    from airflow_hiveacid.metastore.port import MetastorePort
    from contract.bench import Bench

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


@pytest.fixture
def table(bench: Bench, client: MetastorePort) -> TableInfo:
    table = bench.partitioned("1", "2")
    for _ in range(3):
        mine = start(client, access(table, DataOperation.INSERT, partitions=(month("1"),)))
        client.commit_txn(mine.txn_id)
    return table


def claim_of(client: MetastorePort, pool: str) -> ClaimedCompaction:
    claim = client.find_next_compaction("worker-1", worker_version="1.0", pool=pool)
    assert claim is not None
    return claim


def test_a_request_is_queued_and_shown(client: MetastorePort, table: TableInfo) -> None:
    answer = client.request_compaction(table.ref, month("1"), MAJOR)
    assert answer.accepted
    assert answer.state is CompactionState.INITIATED
    (entry,) = client.show_compactions(table.ref)
    assert (entry.entry_id, entry.partition) == (answer.entry_id, month("1"))
    assert (entry.compaction_type, entry.state) == (MAJOR, CompactionState.INITIATED)
    assert entry.state.is_pending


def test_a_second_request_for_the_same_is_not_queued(
    client: MetastorePort, table: TableInfo
) -> None:
    first = client.request_compaction(table.ref, month("1"), MAJOR)
    again = client.request_compaction(table.ref, month("1"), MINOR)
    other = client.request_compaction(table.ref, month("2"), MINOR)
    assert (again.accepted, other.accepted) == (False, True)
    is_v3 = client.generation is MetastoreGeneration.V3
    assert again.entry_id == (first.entry_id if is_v3 else None)
    assert len(client.show_compactions(table.ref)) == 2


@pytest.mark.parametrize(
    "bench", [pytest.param("real-4.0.1", marks=pytest.mark.server)], indirect=True
)
def test_the_server_filters_what_it_shows(
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
def test_the_queue_of_one_partition_is_shown(
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


def test_the_workers_half_of_the_queue_needs_4x(client: MetastorePort, table: TableInfo) -> None:
    if client.generation is MetastoreGeneration.V4:
        assert client.find_next_compaction("w", worker_version="1", pool=table.ref.db) is None
        return
    with pytest.raises(MetastoreVersionError, match="find_next_compact2"):
        client.find_next_compaction("w", worker_version="1")
    with pytest.raises(MetastoreVersionError, match="pool"):
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
        client,
        table=table,
        partition=month(value),
        compaction_type=kind,
        job_key=job_key,
        lock_timeout_s=5,
    )


@NEEDS_V4
def test_a_compaction_goes_from_claim_to_cleaned(client: MetastorePort, table: TableInfo) -> None:
    with compaction(client, table) as work:
        assert work.claim is not None
        assert work.write_ids.high_watermark == 3
        assert work.txn.write_ids == {}
        (lock,) = client.show_locks(table.ref)
        assert (lock.lock_type, lock.partition) == (LockType.SHARED_READ, "month=1")
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
    with pytest.raises(ValueError, match="not working"):
        ClaimedCompaction.of_entry(entry)
    client.mark_cleaned(replace(work.claim, highest_write_id=WriteId(3)))
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.SUCCEEDED
    assert not entry.state.is_pending


@NEEDS_V4
def test_a_compaction_that_was_marked_and_not_committed_can_fail_for_whoever_finds_it(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MAJOR, pool="hiveacid-x")
    claim = claim_of(client, "hiveacid-x")
    txn_id = client.open_txn(TxnType.COMPACTION)
    claim = replace(claim, highest_write_id=WriteId(3))
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
def test_open_transactions_are_told_from_compactions(
    client: MetastorePort,
) -> None:
    before = client.open_but_compactions()
    kinds = {kind: client.open_txn(kind) for kind in TxnType}
    opened = {kinds[TxnType.DEFAULT], kinds[TxnType.READ_ONLY]}
    assert client.open_but_compactions() - before == opened
    for txn_id in kinds.values():
        client.abort_txn(txn_id)
    assert not client.open_but_compactions() & set(kinds.values())


@NEEDS_V4
def test_what_was_compacted_is_not_queued_again_before_it_is_cleaned_or_written_to(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table):
        pass
    again = client.request_compaction(table.ref, month("1"), MINOR)
    assert (again.accepted, again.state) == (False, CompactionState.REFUSED)
    assert "ready for cleaning" in str(again.message)
    assert client.request_compaction(table.ref, month("2"), MINOR).accepted
    mine = start(client, access(table, DataOperation.INSERT, partitions=(month("1"),)))
    client.commit_txn(mine.txn_id)
    assert client.request_compaction(table.ref, month("1"), MINOR).accepted


@NEEDS_V4
def test_a_compaction_that_fails_says_why(client: MetastorePort, table: TableInfo) -> None:
    def work() -> None:
        with compaction(client, table, MINOR):
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        work()
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.FAILED
    assert entry.error_message == "OSError: the disk is full"
    assert client.show_locks(table.ref) == ()


@NEEDS_V4
def test_a_compaction_without_work_says_so(client: MetastorePort, table: TableInfo) -> None:
    with compaction(client, table) as work:
        work.refuse("one directory, nothing to join")
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.REFUSED
    assert entry.error_message == "one directory, nothing to join"
    assert client.show_locks(table.ref) == ()


def test_of_two_compactors_of_a_partition_one_works(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table) as first:
        assert first.refusal is None
        with compaction(client, table, job_key="another") as second:
            assert second.refusal == "another compactor is at work here"
        with compaction(client, table, value="2", job_key="another") as neighbour:
            assert neighbour.refusal is None
    assert client.show_locks(table.ref) == ()


def test_what_somebody_else_has_queued_is_left_to_him(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MAJOR)
    with compaction(client, table) as work:
        assert work.refusal is not None
        assert work.refusal.startswith("the metastore's queue has")
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.INITIATED


@NEEDS_V4
def test_a_refused_compaction_says_why_and_is_over(client: MetastorePort, table: TableInfo) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    claim = replace(claim_of(client, table.ref.db), error_message="nothing to do")
    client.mark_refused(claim)
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.error_message) == (CompactionState.REFUSED, "nothing to do")
    with pytest.raises(MetastoreCallError):
        client.mark_refused(claim)


@NEEDS_V4
def test_cleaning_without_a_bound_is_never_told(client: MetastorePort, table: TableInfo) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    claim = claim_of(client, table.ref.db)
    with pytest.raises(ValueError, match="highest write ID"):
        client.mark_cleaned(replace(claim, highest_write_id=None))
    client.mark_refused(replace(claim, error_message="tidying up"))


@NEEDS_V4
@pytest.mark.parametrize("had_claimed", [True, False])
def test_what_a_dead_worker_left_in_the_queue_is_no_obstacle(
    client: MetastorePort, table: TableInfo, *, had_claimed: bool
) -> None:
    pool = f"hiveacid-{table.ref.db}"
    client.request_compaction(table.ref, month("1"), MINOR, pool=pool)
    if had_claimed:
        client.find_next_compaction("hiveacid-job", worker_version="1.0", pool=pool)
    with compaction(client, table) as work:
        assert work.refusal is None
    states = sorted(
        (entry.compaction_type.value, entry.state.value)
        for entry in client.show_compactions(table.ref)
    )
    assert states == [("major", "ready for cleaning"), ("minor", "failed")]


@NEEDS_V4
def test_what_another_program_works_on_is_not_buried(
    client: MetastorePort, table: TableInfo
) -> None:
    client.request_compaction(table.ref, month("1"), MINOR, pool=table.ref.db)
    claim = claim_of(client, table.ref.db)
    with compaction(client, table) as work:
        assert work.refusal is not None
    (entry,) = client.show_compactions(table.ref)
    assert entry.state is CompactionState.WORKING
    client.mark_refused(replace(claim, error_message="tidying up"))


def test_a_compaction_is_a_transaction_and_on_3x_nothing_else(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table) as work:
        assert work.write_ids.high_watermark == 3
        assert {lock.txn_id for lock in client.show_locks(table.ref)} == {work.txn.txn_id}
    assert client.show_locks(table.ref) == ()
    if client.generation is MetastoreGeneration.V3:
        assert work.claim is None
        assert client.show_compactions(table.ref) == ()

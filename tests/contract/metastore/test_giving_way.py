"""A compaction gives way: while it works it has no lock that an overwrite, or a drop, waits for."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, LockResponse
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import Clock
from airflow_hiveacid.metastore.transactions.compaction_work import CompactionWork, compacting
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from tests.contract.bench import Bench, access, commit, month, start
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms


@pytest.fixture
def table(bench: Bench, client: MetastorePort) -> TableInfo:
    table = bench.partitioned("1", "2")
    mine = start(client, access(table, conflicts.DataOperation.INSERT, partitions=(month("1"),)))
    commit(client, mine.txn_id)
    return table


def compaction(
    client: MetastorePort,
    table: TableInfo,
    *,
    job_key: str = "compact",
    clock: ManualClock | None = None,
) -> AbstractContextManager[CompactionWork]:
    return compacting(
        client,
        job_terms(job_key, clock=clock or Clock()),
        table=table,
        partition=month("1"),
        compaction_type=CompactionType.MAJOR,
    )


def exclusive(client: MetastorePort, table: TableInfo, value: str = "1") -> LockResponse:
    """What an overwrite asks for, of a transaction of its own."""
    component = LockComponent(
        table=table.ref,
        lock_type=conflicts.LockType.EXCLUSIVE,
        operation=conflicts.DataOperation.UPDATE,
        partition=month(value),
    )
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, table.ref)
    return client.lock(LockRequest(txn_id=txn_id, components=(component,), agent_info="overwrite"))


def end(client: MetastorePort, table: TableInfo) -> None:
    """Let all end that have a lock on a table."""
    for txn_id in {lock.txn_id for lock in client.show_locks(table.ref)}:
        client.abort_txn(txn_id or ids.TxnId(0))


def test_an_overwrite_gets_its_lock_while_a_compaction_is_running(
    client: MetastorePort, table: TableInfo
) -> None:
    with compaction(client, table):
        assert exclusive(client, table).state is conflicts.LockState.ACQUIRED
        assert exclusive(client, table).state is conflicts.LockState.WAITING
        end(client, table)


def test_a_compaction_holds_no_lock_while_it_waits_to_publish(
    client: MetastorePort, table: TableInfo
) -> None:
    """It asks, takes its request back, and gives up after its time; nothing waits behind it."""

    class Pausing(ManualClock):
        def sleep(self, seconds: float) -> None:
            seen.append(frozenset(lock.txn_id for lock in client.show_locks(table.ref)))
            super().sleep(seconds)

    seen: list[frozenset[ids.TxnId | None]] = []

    def work() -> None:
        with compaction(client, table, clock=Pausing()) as work:
            exclusive(client, table)
            work.txn.lock_reads()

    with pytest.raises(errors.LockNotAcquiredError, match="overwrite"):
        work()
    (holder,) = {lock.txn_id for lock in client.show_locks(table.ref)}
    assert set(seen) == {frozenset({holder})}
    assert len(seen) > 3
    end(client, table)


def test_a_compaction_publishes_as_soon_as_an_overwrite_has_ended(
    client: MetastorePort, table: TableInfo
) -> None:
    class Ending(ManualClock):
        def sleep(self, seconds: float) -> None:
            end(client, table)
            super().sleep(seconds)

    with compaction(client, table, clock=Ending()) as work:
        exclusive(client, table)
        work.txn.lock_reads()
        assert {lock.txn_id for lock in client.show_locks(table.ref)} == {work.txn.txn_id}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_kill_finds_a_compaction_before_and_after_it_locks(
    client: MetastorePort, table: TableInfo, *, is_late: bool
) -> None:
    def work() -> None:
        with compaction(client, table, job_key="doomed") as work:
            if is_late:
                work.txn.lock_reads()
            ended = abort_job(client, "doomed", ids.AttemptId.new(9), [table.ref])
            assert ended == (work.txn.txn_id,)
            work.txn.confirm_alive()

    with pytest.raises(errors.TransactionAbortedError):
        work()


def test_a_newer_copy_of_a_compaction_aborts_the_older_copy(
    client: MetastorePort, table: TableInfo
) -> None:
    def work() -> None:
        with compaction(client, table, job_key="twice") as work:
            with compaction(client, table, job_key="twice") as newer:
                assert newer.refusal is None
            work.txn.lock_reads()

    with pytest.raises(errors.TransactionAbortedError):
        work()
    assert client.show_locks(table.ref) == ()

from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockState,
    LockType,
    MetastoreGeneration,
    lock_type_for,
    may_share,
)
from airflow_hiveacid.metastore.locks import LockRequest, components_for
from airflow_hiveacid.metastore.port import MetastorePort
from tests.contract.bench import Bench, access, commit, month, start

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


@pytest.mark.parametrize("held", [INSERT, UPDATE, DELETE, OVERWRITE])
@pytest.mark.parametrize("wanted", [INSERT, UPDATE, DELETE, OVERWRITE])
def test_an_operation_waits_for_another_exactly_if_their_lock_types_conflict(
    bench: Bench, client: MetastorePort, held: DataOperation, wanted: DataOperation
) -> None:
    table = bench.table()
    first = start(client, access(table, held))
    second = start(client, access(table, wanted))
    assert first.answer.state is LockState.ACQUIRED
    generation = client.generation
    goes = may_share(lock_type_for(wanted), lock_type_for(held), generation)
    assert second.answer.state is (LockState.ACQUIRED if goes else LockState.WAITING)
    client.abort_txn(first.txn_id)
    answer = client.check_lock(second.answer.lock_id, second.txn_id)
    assert answer.state is LockState.ACQUIRED
    client.abort_txn(second.txn_id)


def test_a_read_locks_exactly_the_partitions_it_reads(bench: Bench, client: MetastorePort) -> None:
    table = bench.partitioned("1", "2", "3")
    reading = access(table, SELECT, partitions=(month("1"), month("3")))
    txn_id = client.open_txn()
    components = components_for([reading], [], client.generation)
    client.lock(LockRequest(txn_id=txn_id, components=components, agent_info="reader"))
    locks = client.show_locks(table.ref)
    assert {(lock.partition, lock.lock_type) for lock in locks} == {
        ("month=1", LockType.SHARED_READ),
        ("month=3", LockType.SHARED_READ),
    }
    commit(client, txn_id)
    assert client.show_locks(table.ref) == ()


def test_a_change_locks_the_partitions_it_names(bench: Bench, client: MetastorePort) -> None:
    table = bench.partitioned("1", "2")
    mine = start(client, access(table, UPDATE, DELETE, INSERT, partitions=(month("2"),)))
    locks = client.show_locks(table.ref)
    assert {lock.partition for lock in locks} == {"month=2"}
    assert LockType.SHARED_WRITE in {lock.lock_type for lock in locks}
    assert {lock.txn_id for lock in locks} == {mine.txn_id}
    client.abort_txn(mine.txn_id)


def test_partitions_are_locked_independently_and_a_table_lock_covers_all_of_them(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2")
    overwriting = start(client, access(table, OVERWRITE, partitions=(month("1"),)))
    elsewhere = start(client, access(table, DELETE, partitions=(month("2"),)))
    same = start(client, access(table, DELETE, partitions=(month("1"),)))
    anywhere = start(client, access(table, INSERT))
    states = [s.answer.state for s in (overwriting, elsewhere, same, anywhere)]
    go, wait = LockState.ACQUIRED, LockState.WAITING
    assert states == [go, go, wait, wait]
    for started in (overwriting, elsewhere, same, anywhere):
        client.abort_txn(started.txn_id)


@pytest.mark.promise("L4")
def test_readers_wait_for_an_overwrite_but_not_for_an_update(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()

    def read_beside(operation: DataOperation) -> LockState:
        writer = start(client, access(table, operation))
        reader = client.open_txn()
        components = components_for([access(table, SELECT)], [], client.generation)
        request = LockRequest(txn_id=reader, components=components, agent_info="reader")
        state = client.lock(request).state
        client.abort_txn(writer.txn_id)
        client.abort_txn(reader)
        return state

    assert read_beside(UPDATE) is LockState.ACQUIRED
    assert read_beside(OVERWRITE) is LockState.WAITING


@pytest.mark.promise("L6")
def test_operations_of_one_transaction_do_not_block_each_other(
    bench: Bench, client: MetastorePort
) -> None:
    table, source = bench.table("t"), bench.table("s")
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, table.ref)
    reads = [access(table, SELECT), access(source, SELECT)]
    writes = [access(table, INSERT, UPDATE, DELETE, OVERWRITE)]
    components = components_for(reads, writes, client.generation)
    request = LockRequest(txn_id=txn_id, components=components, agent_info="all")
    assert client.lock(request).state is LockState.ACQUIRED
    assert len(client.show_locks(txn_id=txn_id)) == len(components)
    client.abort_txn(txn_id)


def test_listed_locks_name_their_holder_and_the_lock_that_blocks_them(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    holder = start(client, access(table, OVERWRITE))
    waiter = start(client, access(table, UPDATE))
    by_txn = {lock.txn_id: lock for lock in client.show_locks(table.ref)}
    assert by_txn[holder.txn_id].agent_info == "by hand"
    assert by_txn[holder.txn_id].blocked_by is None
    assert by_txn[waiter.txn_id].blocked_by == holder.answer.lock_id
    assert by_txn[waiter.txn_id].state is LockState.WAITING
    client.abort_txn(holder.txn_id)
    client.abort_txn(waiter.txn_id)


def test_a_waiting_lock_request_can_be_withdrawn_but_a_granted_lock_cannot(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    holder = start(client, access(table, OVERWRITE))
    waiter = start(client, access(table, UPDATE))
    client.unlock(waiter.answer.lock_id)
    client.unlock(waiter.answer.lock_id)
    client.unlock(holder.answer.lock_id)
    assert {lock.txn_id for lock in client.show_locks(table.ref)} == {holder.txn_id}
    client.heartbeat(waiter.txn_id)
    client.abort_txn(holder.txn_id)
    client.abort_txn(waiter.txn_id)


def test_locks_of_other_tables_are_not_shown(bench: Bench, client: MetastorePort) -> None:
    one, other = bench.table("one"), bench.table("other")
    mine = start(client, access(one, INSERT))
    assert client.show_locks(other.ref) == ()
    assert {lock.txn_id for lock in client.show_locks(one.ref)} == {mine.txn_id}
    assert mine.txn_id in {lock.txn_id for lock in client.show_locks()}
    client.abort_txn(mine.txn_id)


def test_a_mixed_case_partition_is_locked_by_a_table_lock_only_on_3x(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("Jan")
    mine = start(client, access(table, UPDATE, partitions=(month("Jan"),)))
    is_v3 = client.generation is MetastoreGeneration.V3
    assert {lock.partition for lock in client.show_locks(table.ref)} == {
        None if is_v3 else "month=Jan"
    }
    client.abort_txn(mine.txn_id)

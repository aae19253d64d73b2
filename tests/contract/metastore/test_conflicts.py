from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, conflict
from airflow_hiveacid.format.errors import TransactionAbortedError, WriteConflictError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.metastore.locks import LockRequest, TableAccess, components_for
from airflow_hiveacid.metastore.port import MetastorePort
from tests.contract.bench import Bench, access, commit, month, start

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


def lock(client: MetastorePort, txn_id: TxnId, wanted: TableAccess) -> None:
    components = components_for([], [wanted], client.generation)
    client.lock(LockRequest(txn_id=txn_id, components=components, agent_info="late"))


@pytest.mark.parametrize("theirs", [INSERT, UPDATE, DELETE, OVERWRITE])
@pytest.mark.parametrize("mine", [INSERT, UPDATE, DELETE, OVERWRITE])
def test_two_overlapping_changes_conflict_exactly_if_their_operations_conflict(
    bench: Bench, client: MetastorePort, mine: DataOperation, theirs: DataOperation
) -> None:
    table = bench.table()
    slow = client.open_txn()
    client.allocate_write_id(slow, table.ref)
    fast = start(client, access(table, theirs))
    commit(client, fast.txn_id)
    lock(client, slow, access(table, mine))
    if conflict(mine, theirs, client.generation):
        with pytest.raises(WriteConflictError):
            commit(client, slow)
        with pytest.raises(TransactionAbortedError):
            client.heartbeat(slow)
    else:
        commit(client, slow)


def test_changes_of_different_partitions_do_not_conflict(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2")
    one = start(client, access(table, UPDATE, partitions=(month("1"),)))
    other = start(client, access(table, UPDATE, partitions=(month("2"),)))
    commit(client, one.txn_id)
    commit(client, other.txn_id)


def test_partitions_registered_after_the_lock_conflict_like_locked_partitions(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2")
    slow = client.open_txn()
    write_id = client.allocate_write_id(slow, table.ref)
    fast = start(client, access(table, UPDATE, partitions=(month("1"),)))
    commit(client, fast.txn_id)
    lock(client, slow, access(table, UPDATE))
    client.add_dynamic_partitions(slow, write_id, table.ref, [month("1"), month("2")], UPDATE)
    with pytest.raises(WriteConflictError):
        commit(client, slow)


def test_registered_partitions_that_no_other_transaction_changed_do_not_conflict(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2")
    slow = client.open_txn()
    write_id = client.allocate_write_id(slow, table.ref)
    fast = start(client, access(table, UPDATE, partitions=(month("1"),)))
    commit(client, fast.txn_id)
    lock(client, slow, access(table, UPDATE))
    client.add_dynamic_partitions(slow, write_id, table.ref, [month("2")], UPDATE)
    commit(client, slow)

"""Readers and writers of one table wait for each other in the order in which they asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockState, lock_type_for, may_share
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.locks import LockRequest, components_for
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import Bench, access
from tests.support.terms import job_terms

SELECT, INSERT, UPDATE, OVERWRITE = (
    DataOperation.SELECT,
    DataOperation.INSERT,
    DataOperation.UPDATE,
    DataOperation.OVERWRITE,
)
_EACH: Final = 20
_BLOCK: Final = 5
_JOBS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    operation: DataOperation
    lock_id: LockId
    txn_id: TxnId

    def conflicts_with(self, other: _Request, client: MetastorePort) -> bool:
        types = lock_type_for(self.operation), lock_type_for(other.operation)
        return not may_share(*types, client.generation)


def _ask(client: MetastorePort, table: TableInfo, operation: DataOperation) -> _Request:
    txn_id = client.open_txn()
    reads, writes = [access(table, SELECT)], [access(table, operation)]
    if operation is SELECT:
        writes = []
    else:
        reads = []
        client.allocate_write_id(txn_id, table.ref)
    components = components_for(reads, writes, client.generation)
    answer = client.lock(LockRequest(txn_id=txn_id, components=components, agent_info="fair"))
    return _Request(operation=operation, lock_id=answer.lock_id, txn_id=txn_id)


@pytest.mark.promise("L7")
@pytest.mark.parametrize("operation", [OVERWRITE, UPDATE, INSERT])
@pytest.mark.long_cases("real-3.1.3-*.UPDATE", "real-3.1.3-*.INSERT")
def test_twenty_readers_and_twenty_writers_are_granted_their_locks_in_the_order_of_their_requests(
    bench: Bench, client: MetastorePort, operation: DataOperation
) -> None:
    """So each waits only for those that asked before it, however many ask after it."""
    table = bench.table()
    waiting: list[_Request] = []
    for _ in range(_EACH // _BLOCK):
        for kind in (SELECT, operation):
            waiting += [_ask(client, table, kind) for _ in range(_BLOCK)]
    while waiting:
        granted = [
            one
            for one in waiting
            if client.check_lock(one.lock_id, one.txn_id).state is LockState.ACQUIRED
        ]
        for number, one in enumerate(waiting):
            conflicts = any(one.conflicts_with(other, client) for other in waiting[:number])
            assert (one in granted) is not conflicts
        for one in granted:
            client.abort_txn(one.txn_id)
        waiting = [one for one in waiting if one not in granted]


@pytest.mark.promise("L7")
@pytest.mark.server
def test_jobs_that_read_and_jobs_that_overwrite_all_the_time_do_not_overtake_each_other(
    hive_metastore_on_postgres: LocalMetastore,
) -> None:
    """Each reader reads again at once until all writers have written.

    `tests.proofs.conflicts.fairness` measures the waits of twenty of each.
    """
    endpoint = MetastoreEndpoint(uris=(hive_metastore_on_postgres.uri,))
    with connect(endpoint) as client:
        table = client.create_table(
            NewTable(ref=TableRef("default", "fair"), columns=(Column(name="id", type="int"),))
        )
    order: list[tuple[LockId, DataOperation]] = []
    writers_left, lock = _JOBS, threading.Lock()

    def run(client: MetastoreClient, name: str, operation: DataOperation) -> None:
        kind = "reads" if operation is SELECT else "writes"
        accesses: Any = {kind: [access(table, operation)]}
        with begin(client, job_terms(name, lock_timeout_s=600), **accesses) as txn:
            (held,) = client.show_locks(table.ref, txn_id=txn.txn_id)
            with lock:
                order.append((held.lock_id, operation))

    def read(number: int) -> int:
        reads = 0
        with connect(endpoint) as client:
            while writers_left:
                run(client, f"reader {number}", SELECT)
                reads += 1
        return reads

    def write(number: int) -> None:
        nonlocal writers_left
        try:
            with connect(endpoint) as client:
                run(client, f"writer {number}", OVERWRITE)
        finally:
            with lock:
                writers_left -= 1

    with ThreadPoolExecutor(2 * _JOBS) as pool:
        readers = [pool.submit(read, number) for number in range(_JOBS)]
        writers = [pool.submit(write, number) for number in range(_JOBS)]
    assert [one.result() for one in writers] == [None] * _JOBS
    assert min(one.result() for one in readers) > 0
    # Between two writers, any number of readers may hold the table, in any order.
    for number, (lock_id, operation) in enumerate(order):
        if operation is OVERWRITE:
            assert all(earlier < lock_id for earlier, _ in order[:number])
            assert all(later > lock_id for later, _ in order[number + 1 :])

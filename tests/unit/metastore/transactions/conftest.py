"""Gives each test a fake metastore with a client, a table and a clock that stands still, as one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation
from airflow_hiveacid.format.errors import MetastoreUnavailableError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.transactions.compaction_work import CompactionWork, compacting
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from tests.contract.bench import access
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A metastore, one of its clients, and the table that the jobs of a test read and write."""

    server: FakeMetastore
    client: FakeClient
    table: TableInfo
    clock: ManualClock

    def begin(
        self,
        *operations: DataOperation,
        job_key: str | None = "job",
        client: FakeClient | None = None,
        table: TableInfo | None = None,
        **terms: Any,  # noqa: ANN401 - the fields of JobTerms
    ) -> AbstractContextManager[MetastoreTransaction]:
        """A transaction of a job; SELECT is a read of the table, the others are one write."""
        changes = [operation for operation in operations if operation is not DataOperation.SELECT]
        subject = table or self.table
        return begin(
            client or self.client,
            job_terms(job_key, **{"clock": self.clock, **terms}),
            reads=[access(subject, DataOperation.SELECT)] if changes != [*operations] else [],
            writes=[access(subject, *changes)] if changes else [],
        )

    def compacting(
        self,
        job_key: str = "dag/run/compact/-1",
        *,
        client: FakeClient | None = None,
        partition: PartitionName | None = None,
        policy: ConflictPolicy = ConflictPolicy.HIVE,
        **terms: Any,  # noqa: ANN401 - the fields of JobTerms
    ) -> AbstractContextManager[CompactionWork]:
        """A major compaction that waits for a second."""
        return compacting(
            client or self.client,
            job_terms(job_key, lock_timeout_s=1, **{"clock": self.clock, **terms}),
            table=self.table,
            partition=partition,
            compaction_type=CompactionType.MAJOR,
            policy=policy,
        )

    def hold(self, part: LockComponent, agent_info: str) -> TxnId:
        """A transaction of another client that has this lock, or waits for it."""
        txn_id = self.client.open_txn()
        request = LockRequest(txn_id=txn_id, components=(part,), agent_info=agent_info)
        self.client.lock(request)
        return txn_id

    def job(self, client: FakeClient | None = None) -> MetastoreTransaction:
        """The transaction of a job that has ended."""
        with self.begin(DataOperation.INSERT, client=client) as txn:
            pass
        return txn

    def lose(self, method: str, *, is_done: bool) -> None:
        """Lose the response to the next call of a method, or the call itself."""
        self.server.break_next(method, lost(method), is_done=is_done)

    def open_write(self) -> tuple[TxnId, WriteId]:
        """Open a transaction with a write ID of the table, as another client."""
        txn_id = FakeClient(self.server).open_txn()
        return txn_id, self.client.allocate_write_id(txn_id, self.table.ref)

    def write(self) -> WriteId:
        """Commit a write of another client."""
        txn_id, write_id = self.open_write()
        self.client.commit_txn(txn_id)
        return write_id


def lost(method: str) -> MetastoreUnavailableError:
    return MetastoreUnavailableError(uris=("thrift://hms:9083",), method=method, reason="cut off")


@pytest.fixture
def lab(server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock) -> Lab:
    return Lab(server=server, client=client, table=table, clock=clock)

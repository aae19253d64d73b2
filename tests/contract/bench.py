"""What contract tests of the metastore share: a server, a database, a transaction by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockState, LockType
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.metastore import catalog, locks, port
from airflow_hiveacid.metastore.transactions import Clock, commit as commits
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from tests.support.terms import job_terms

V3_PARAMS: Final = ("fake-3", pytest.param("real-3.1.3", marks=pytest.mark.server))
V4_PARAMS: Final = ("fake-4", pytest.param("real-4.0.1", marks=pytest.mark.server))
REAL_PARAMS: Final = (V3_PARAMS[1], V4_PARAMS[1])
NEEDS_V4: Final = pytest.mark.parametrize("bench", V4_PARAMS, indirect=True)
"""For what 3.1 does not serve; that it refuses has a test of its own."""

_COLUMNS: Final = (Column(name="id", type="bigint"), Column(name="name", type="string"))
_PARTITION_COLUMNS: Final = (Column(name="month", type="string"),)


@dataclass
class Bench:
    """One metastore under test, with a database of the test's own."""

    clock: Clock
    make_client: Callable[[], port.MetastorePort]
    db: str = ""
    clients: list[port.MetastorePort] = field(default_factory=list)

    def client(self) -> port.MetastorePort:
        """Another connection."""
        made = self.make_client()
        self.clients.append(made)
        return made

    def begin(
        self,
        client: port.MetastorePort,
        job_key: str | None = "job",
        *,
        reads: Sequence[locks.TableAccess] = (),
        writes: Sequence[locks.TableAccess] = (),
        txn_type: port.TxnType = port.TxnType.DEFAULT,
        handover: Handover | None = None,
        **terms: Any,  # noqa: ANN401 - the fields of JobTerms
    ) -> AbstractContextManager[MetastoreTransaction]:
        """A transaction of a job with these terms, by the bench's clock."""
        known = job_terms(job_key, clock=self.clock, **terms)
        return begin(
            client, known, reads=reads, writes=writes, txn_type=txn_type, handover=handover
        )

    def table(self, name: str = "t", **changes: object) -> TableInfo:
        new = catalog.NewTable(ref=TableRef(self.db, name), columns=_COLUMNS, **changes)
        return self.clients[0].create_table(new)

    def partitioned(self, *months: str, name: str = "p") -> TableInfo:
        table = self.table(name, partition_columns=_PARTITION_COLUMNS)
        self.clients[0].add_partitions(table, [month(m) for m in months])
        return table


def commit(client: port.MetastorePort, txn_id: TxnId) -> None:
    """Commit as a job does: a busy server may answer with an internal error, and jobs ask again."""
    commits.commit(client, txn_id, {}, patience_s=60, clock=Clock())


@dataclass
class Started:
    """A transaction that a test steers by hand."""

    client: port.MetastorePort
    txn_id: TxnId
    write_id: WriteId
    answer: locks.LockResponse


def month(value: str | None) -> PartitionName:
    return PartitionName(("month",), (value,))


def access(
    table: TableInfo,
    *operations: DataOperation,
    partitions: tuple[PartitionName, ...] | None = None,
) -> locks.TableAccess:
    return locks.TableAccess(table=table, operations=frozenset(operations), partitions=partitions)


def listed_lock(number: int, **parts: Any) -> locks.LockInfo:  # noqa: ANN401 - the fields of LockInfo
    """An exclusive lock on `default.t`, as a server lists it; its transaction has its number."""
    defaults = {
        "txn_id": TxnId(number),
        "db": "default",
        "table": "t",
        "partition": None,
        "state": LockState.ACQUIRED,
        "lock_type": LockType.EXCLUSIVE,
        "user": "",
        "host": "",
        "agent_info": "",
    }
    return locks.LockInfo(lock_id=LockId(number), **{**defaults, **parts})


def start(client: port.MetastorePort, *writes: locks.TableAccess) -> Started:
    """Open, allocate for the first table, ask for the locks once."""
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, writes[0].ref)
    components = locks.components_for([], writes, client.generation)
    request = locks.LockRequest(txn_id=txn_id, components=components, agent_info="by hand")
    return Started(client, txn_id, write_id, client.lock(request))


def wait_until(is_true: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    """Looks again and again, in real time."""
    give_up_s = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < give_up_s, "waited in vain"
        time.sleep(0.05)

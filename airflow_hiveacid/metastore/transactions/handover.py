"""Replaces a job's transaction with the next transaction; a kill can find the job at any time.

A process that kills a job may have access only to the metastore, and finds the job through its
locks (`fencing.abort_job`). So an old transaction stays open, with locks and heartbeats, until the
next one has requested its locks. The job then checks whether a different client has aborted the old
transaction, for example to kill the job, and ends it. See docs/decisions/restarts.md.

Between two transactions, the job may work for a long time, and may read tables that it has locked.
Meanwhile, a transaction with only shared locks replaces the old one (`hold_locks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.fencing import FencingToken, agent_info_of
from airflow_hiveacid.metastore.transactions.heartbeat import open_beating


class Handover:
    """The open transactions of a job that the job's next transaction replaces. Mutable.

    `first_txn_id` keeps the job's rank among its copies. `began` are the write IDs that were
    committed when the job began, of the tables where a commit of another transaction may end it.
    """

    def __init__(self, client: MetastorePort, first_txn_id: TxnId | None = None) -> None:
        self._client = client
        self._left: dict[TxnId, ExitStack] = {}
        self.first_txn_id = first_txn_id
        self.began: Mapping[TableRef, ValidWriteIdList] = {}

    def leave(self, txn_id: TxnId, undo: ExitStack) -> None:
        """Keep a replaced transaction open; `undo` ends its heartbeats and the transaction."""
        self._left[txn_id] = undo

    def hold_locks(self, terms: JobTerms, refs: Iterable[TableRef]) -> None:
        """Replace the kept transactions, if any, with a new one that requests shared locks.

        They need not be granted, because a process that kills the job also finds waiting requests.
        """
        components = tuple(
            LockComponent(table=ref, lock_type=LockType.SHARED_READ, operation=DataOperation.SELECT)
            for ref in sorted(set(refs))
        )
        if self.first_txn_id is None or not self._left or not components:
            return
        with ExitStack() as undo:
            txn_id, _ = open_beating(self._client, terms.clock, undo)
            agent_info = agent_info_of(FencingToken.of(terms, self.first_txn_id))
            self._client.lock(
                LockRequest(txn_id=txn_id, components=components, agent_info=agent_info)
            )
            self.step_over()
            self.leave(txn_id, undo.pop_all())

    def step_over(self) -> bool:
        """End the kept transactions, after the next one has requested its locks.

        Return True if there were any, because they may have blocked the request. Raises
        TransactionAbortedError if another client has ended one, for example to kill the job.
        """
        was_any = bool(self._left)
        for txn_id in self._left:
            self._client.heartbeat(txn_id)
        self.close()
        return was_any

    def close(self) -> None:
        """End the kept transactions without checking their state."""
        while self._left:
            _, undo = self._left.popitem()
            undo.close()

"""Detection of commits, during a wait for locks, that require a new transaction.

A transaction that changes rows must see all earlier commits. If another transaction commits during
the wait, the waiting transaction must be reopened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_hiveacid.format.conflicts import LockState
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort


class WaitedInVainError(Exception):
    """A holder of the lock has committed, so the waiting transaction must be reopened."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """Looks for new commits during one wait for locks. Mutable: records the holders of the locks.

    On 3.1, transactions that change rows of the same partition wait in a queue. Each transaction in
    the queue must see the writes of all earlier transactions in the queue. So after each commit,
    all waiting transactions must be reopened. It is faster to reopen all waiting transactions
    directly after the commit than to reopen each transaction after it gets its lock.
    """

    client: MetastorePort
    writes: Sequence[TableAccess]
    txn_id: TxnId
    before: Mapping[TableRef, ValidWriteIdList]
    holders: frozenset[TxnId] = frozenset()
    has_waited: bool = False

    def look(self) -> None:
        """Check whether a holder of the locks has committed; called before each pause.

        Raises:
            WaitedInVainError: the transaction must be reopened.
        """
        self.has_waited = True
        if not self.before:
            return
        if not self.holders:
            self.holders = frozenset(self._holders())
            return
        txns = self.client.valid_txns()
        left = self.holders.intersection(txns.open)
        if left == self.holders or self.txn_id not in txns.open:
            # Either no holder has ended, or this transaction was aborted. An aborted transaction
            # must not be reopened. The next check of the lock raises an error.
            return
        self.holders = left
        if is_overtaken(self.before, self.client.valid_write_ids(self.before, txns)):
            raise WaitedInVainError

    def _holders(self) -> Iterable[TxnId]:
        """Yield the transactions that hold locks on the tables or partitions to write."""
        for access in self.writes:
            names = {str(name).lower() for name in access.partitions or ()}
            for lock in self.client.show_locks(access.ref):
                is_here = not names or lock.partition is None or lock.partition.lower() in names
                if is_here and lock.state is LockState.ACQUIRED and lock.txn_id is not None:
                    yield lock.txn_id


def is_overtaken(
    before: Mapping[TableRef, ValidWriteIdList], now: Mapping[TableRef, ValidWriteIdList]
) -> bool:
    """Return True if the newer lists contain a commit that the older lists lack."""
    return any(now[ref].shows_more_than(old) for ref, old in before.items())

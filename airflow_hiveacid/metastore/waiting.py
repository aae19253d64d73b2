"""Looks, while locks are waited for, whether they are waited for in vain.

Whoever changes rows has to see what was committed before it; who commits while it waits makes it
begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import LockState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.metastore.port import MetastorePort


class WaitedInVainError(Exception):
    """Whoever is waited for has committed: with the lock in hand it would be too late."""

    def __init__(self, began: Mapping[TableRef, ValidWriteIdList]) -> None:
        self.began = began
        super().__init__()


@dataclass(slots=True, kw_only=True)
class Waiting:
    """Looks, while locks are waited for, whether they are waited for in vain. Mutable.

    On 3.1 those who change rows of a partition queue up, and each has to see what those before it
    have done: who has committed makes all others begin anew, and they had better do so at once
    than one after another, each with the lock in hand.
    """

    client: MetastorePort
    writes: Sequence[TableAccess]
    txn_id: TxnId
    before: Mapping[TableRef, ValidWriteIdList]
    began: Mapping[TableRef, ValidWriteIdList]
    holders: frozenset[TxnId] = frozenset()
    has_waited: bool = False

    def look(self) -> None:
        """Called before each pause.

        Raises:
            WaitedInVainError: begin anew.
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
            return  # whoever was ended hears so from its lock, and may not begin anew
        self.holders = left
        if is_overtaken(self.before, self.client.valid_write_ids(self.before, txns)):
            raise WaitedInVainError(self.began)

    def _holders(self) -> Iterable[TxnId]:
        """Who has a lock on a partition, or the table, that is waited for."""
        for access in self.writes:
            names = {str(name).lower() for name in access.partitions or ()}
            for lock in self.client.show_locks(access.ref):
                is_here = not names or lock.partition is None or lock.partition.lower() in names
                if is_here and lock.state is LockState.ACQUIRED and lock.txn_id is not None:
                    yield lock.txn_id


def is_overtaken(
    before: Mapping[TableRef, ValidWriteIdList], now: Mapping[TableRef, ValidWriteIdList]
) -> bool:
    """Whether anything was committed of these tables between two lists of each."""
    return any(now[ref].shows_more_than(old) for ref, old in before.items())

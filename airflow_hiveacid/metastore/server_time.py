"""What time it is at the metastore, told by the one answer of it that says so: when a lock was got.

Takes two readings of our own clock, before and after a request, and the server's time of what it
did in between; gives bounds of the server's time at other readings of our clock. Both clocks are
taken to run alike within one transaction, not to agree.

Example:
    >>> time = ServerTime.of(1000.0, before_s=5.0, after_s=5.2)
    >>> time.earliest(7.0), time.latest(7.0)
    (1001.799, 1002.001)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.metastore.txn_values import TxnType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.metastore.locks import LockInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.history import Between

_RESOLUTION_S: Final = 0.001
"""Times of locks are milliseconds; databases round them either way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """The server's clock less our own, in seconds: at least and at most."""

    least_s: float
    most_s: float

    @classmethod
    def of(cls, server_s: float, *, before_s: float, after_s: float) -> Self:
        """From a time of the server's that lies between two readings of our clock."""
        return cls(
            least_s=round(server_s - after_s - _RESOLUTION_S, 6),
            most_s=round(server_s - before_s + _RESOLUTION_S, 6),
        )

    def earliest(self, reading_s: float) -> float:
        """The earliest that it can have been at the server at a reading of our clock."""
        return round(self.least_s + reading_s, 6)

    def latest(self, reading_s: float) -> float:
        """The latest that it can have been."""
        return round(self.most_s + reading_s, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimes:
    """When a committed transaction did what, by the server's clock, seconds since 1970.

    Its write IDs were given out after `opened_s`, its snapshot was taken within `seen`.
    """

    opened_s: float
    seen: Between
    committed: Between


def server_now(client: MetastorePort) -> float | None:
    """A moment by the server's clock that is over; None if it does not tell the time.

    By a transaction that is opened for it, and reads nothing.
    """
    txn_id = client.open_txn(TxnType.READ_ONLY)
    try:
        found = [t.started_s for t in client.open_txns_info() if t.txn_id == txn_id]
    finally:
        client.commit_txn(txn_id)
    return found[0] - _RESOLUTION_S if found and found[0] is not None else None


def time_of_lock(
    locks: Iterable[LockInfo], txn_id: TxnId, *, before_s: float, after_s: float
) -> ServerTime | None:
    """The server's time by a transaction's own lock; None if it does not say when it was got.

    Args:
        locks: as `show_locks` answers.
        txn_id: the transaction.
        before_s: our clock before the lock was asked for.
        after_s: our clock when all of it was granted.
    """
    got = [one.acquired_s for one in locks if one.txn_id == txn_id and one.acquired_s]
    if not got:
        return None
    # The last one: the others may have been granted at an earlier request.
    return ServerTime.of(max(got), before_s=before_s, after_s=after_s)

"""Bounds of the metastore's current time, derived from the time at which a lock was granted.

The clocks may differ, but must run at the same rate within one transaction.

Example:
    >>> time = ServerTime.of(1000.0, before_s=5.0, after_s=5.2)
    >>> time.earliest(7.0), time.latest(7.0)
    (1001.799, 1002.001)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.records import TimeBounds
from airflow_hiveacid.metastore.locks import LockInfo
from airflow_hiveacid.metastore.port import MetastorePort, TxnType

_RESOLUTION_S: Final = 0.001
"""Lock times have millisecond resolution; databases round them up or down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """Lower and upper bounds for the server's clock minus the local clock, in seconds."""

    least_s: float
    most_s: float

    @classmethod
    def of(cls, server_s: float, *, before_s: float, after_s: float) -> Self:
        """Derive the bounds; `server_s` is a time between the two readings of the local clock."""
        return cls(
            least_s=round(server_s - after_s - _RESOLUTION_S, 6),
            most_s=round(server_s - before_s + _RESOLUTION_S, 6),
        )

    def earliest(self, reading_s: float) -> float:
        """Return the earliest possible server time at a reading of the local clock."""
        return round(self.least_s + reading_s, 6)

    def latest(self, reading_s: float) -> float:
        """Return the latest possible server time at a reading of the local clock."""
        return round(self.most_s + reading_s, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimes:
    """The times of a committed transaction's steps, by the server's clock, in seconds since 1970.

    Write IDs were allocated after `opened_s`. `seen` bounds the time of the snapshot.
    """

    opened_s: float
    seen: TimeBounds
    committed: TimeBounds


def server_now(client: MetastorePort) -> float | None:
    """Return the server's time, never a later one; None if the server reports no times.

    The function opens a read-only transaction, whose start the server records by its clock.
    """
    txn_id = client.open_txn(TxnType.READ_ONLY)
    try:
        start_times = [t.started_s for t in client.open_txns_info() if t.txn_id == txn_id]
    finally:
        client.commit_txn(txn_id)
    return start_times[0] - _RESOLUTION_S if start_times and start_times[0] is not None else None


def time_of_lock(
    locks: Iterable[LockInfo], txn_id: TxnId, *, before_s: float, after_s: float
) -> ServerTime | None:
    """Derive the server's time from a transaction's listed locks; None if they have no time.

    The readings of the local clock are from before the request, and from after it was granted.
    """
    times = [lock.acquired_s for lock in locks if lock.txn_id == txn_id and lock.acquired_s]
    if not times:
        return None
    # Only the lock with the latest time certainly belongs to this request. Other locks may be from
    # an earlier request.
    return ServerTime.of(max(times), before_s=before_s, after_s=after_s)

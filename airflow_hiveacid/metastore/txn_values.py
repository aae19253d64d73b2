"""Values for a metastore's transactions: types, states, and list entries.

Does not depend on Thrift. Makes no call.

Example:
    >>> TxnType.COMPACTION.value
    'compaction'
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.server_enum import ServerEnum


class TxnType(enum.Enum):
    """The purpose of a transaction. A 3.1 server has no types; all of its transactions are DEFAULT.

    A READ_ONLY transaction must not allocate write IDs. The commit of a COMPACTION also sets the
    queue entry's `next_txn_id`.
    """

    DEFAULT = "default"
    READ_ONLY = "read_only"
    COMPACTION = "compaction"


class TxnState(ServerEnum):
    """The state of a transaction. The metastore soon deletes committed transactions."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """A transaction that the metastore still lists: open, or aborted and not yet cleaned up.

    Times are seconds since 1970, by the clock of the server's database. A time is None if the
    server does not report it.
    """

    txn_id: TxnId
    state: TxnState
    user: str
    host: str
    started_s: float | None = None
    last_heartbeat_s: float | None = None

    @property
    def may_be_open(self) -> bool:
        """True if the transaction is open, or in a state of a newer server."""
        return self.state not in (TxnState.ABORTED, TxnState.COMMITTED)

"""What a transaction is to the metastore: its type, its state and what is told about open ones.

Plain values; knows no Thrift and no call.

Example:
    >>> TxnType.COMPACTION.value
    'compaction'
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_hiveacid.format.ids import TxnId


class TxnType(enum.Enum):
    """What a transaction is for. A 3.1 server knows no types, there all are DEFAULT.

    READ_ONLY may not allocate write IDs. COMPACTION makes commit stamp the entry of the queue.
    """

    DEFAULT = "default"
    READ_ONLY = "read_only"
    COMPACTION = "compaction"


class TxnState(enum.Enum):
    """Where a transaction stands. Committed ones are forgotten at once or soon."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """One transaction that the metastore still keeps: open, or aborted and not yet cleaned up.

    Times are seconds since 1970 by the clock of the server's database, None if it does not say.
    """

    txn_id: TxnId
    state: TxnState
    user: str
    host: str
    started_s: float | None = None
    last_heartbeat_s: float | None = None

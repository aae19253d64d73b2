"""What a write is asked for. Plain values; what becomes of them is the business of `write`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.plan.reruns import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """What is to be written, by which run of which job, and within which bounds.

    `accesses` are the tables written, one each; `reads` those that are only read. `first_txn_id`
    keeps the rank of a write that begins anew.
    """

    run: Run
    accesses: tuple[TableAccess, ...]
    reads: tuple[TableAccess, ...] = ()
    lock_timeout_s: float
    heartbeat_s: float | None = None
    ledger_retention_s: float
    first_txn_id: TxnId | None = None
    clock: Clock | None = None
    on_step: Callable[[str], None]
    on_lost: Callable[[], None] = lambda: None
    now_s: Callable[[], float] = time.time

"""What a write is asked for. Plain values; what becomes of them is the business of `write`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.metastore.succession import Succession
    from airflow_hiveacid.plan.reruns import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """What is to be written, by which run of which job, and within which bounds.

    `accesses` are the tables written, one each; `reads` those that are only read. `first_txn_id`
    keeps the rank of a write that begins anew, `began` what was committed when it first began, and
    `succession` the transactions out of which it does.
    With `keeps_staged` an abort leaves in staging what was staged, for whoever tries again.
    """

    run: Run
    accesses: tuple[TableAccess, ...]
    reads: tuple[TableAccess, ...] = ()
    lock_timeout_s: float
    heartbeat_s: float | None = None
    ledger_retention_s: float
    first_txn_id: TxnId | None = None
    began: Mapping[TableRef, ValidWriteIdList] | None = None
    succession: Succession | None = None
    clock: Clock | None = None
    on_step: Callable[[str], None]
    on_lost: Callable[[], None] = lambda: None
    keeps_staged: bool = False
    now_s: Callable[[], float] = time.time

"""The request for one write, as plain values; `write` executes it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.metastore.transactions.handover import Handover
    from airflow_hiveacid.metastore.transactions.terms import JobTerms
    from airflow_hiveacid.plan.reruns import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """The tables to write, the job's run that writes them, and its terms.

    `accesses` has one entry per written table; `reads` are the tables that are only read. Two
    fields are for a restart. `handover` contains the transactions that the restart replaces, and
    the job's rank. With `keeps_staged`, an abort leaves staged files in place for a restart.
    """

    run: Run
    terms: JobTerms
    accesses: tuple[TableAccess, ...]
    reads: tuple[TableAccess, ...] = ()
    ledger_retention_s: float
    handover: Handover | None = None
    keeps_staged: bool = False
    now_s: Callable[[], float] = time.time

    @property
    def job_key(self) -> str:
        """The key of the job, which the ledger needs."""
        if self.terms.job_key is None:
            raise TypeError("a write needs the key of its job")
        return self.terms.job_key

"""Input for cleaning: open readers, unfinished uploads, and the age of replacement directories."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.words import age_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSeen:
    """The time and transaction high watermark when a cleaner first saw a replacement directory."""

    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An open transaction that may read the table, with its user and job if they are known.

    `why` explains why the transaction may read the table. `job_key` comes from the transaction's
    locks. The key identifies one of our jobs or a query of another engine.
    """

    txn_id: TxnId
    why: str = ""
    user: str = ""
    host: str = ""
    job_key: str = ""
    open_for_s: float | None = None

    def __str__(self) -> str:
        owner = "@".join(part for part in (self.user, self.host) if part)
        job = f"job {self.job_key}" if self.job_key else ""
        details = "; ".join(part for part in (owner, job, self.why) if part)
        age = "is open"
        if self.open_for_s is not None:
            age = f"has been open for {age_text(self.open_for_s)}"
        is_open = f"transaction {self.txn_id} {age} and may read it"
        return f"{is_open} ({details})" if details else is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftUpload:
    """An unfinished upload to a path below the location."""

    path: str
    upload_id: str
    begun_s: float

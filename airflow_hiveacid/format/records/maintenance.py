"""What maintenance of a table records or finds: readers, uploads, owners, moves, failures."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.words import age_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSeen:
    """The time and transaction high watermark when a cleaner first saw a replacement directory."""

    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An open transaction that may read the table, for the reason `why`.

    `job_key`, from its locks, identifies one of our jobs or a query of another engine.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The table that a directory belongs to.

    `metastore` is the ID of its database. `table_id` tells the table from an earlier one of the
    same name. `is_checked` is False until a maintenance job has found that no other table of the
    metastore shares the directory.
    """

    metastore: str
    table: TableRef
    table_id: str
    is_checked: bool = False

    def __str__(self) -> str:
        return f"table {self.table} of the metastore {self.metastore}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file to rename; both paths are relative to the location of a table or partition."""

    location: str
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailures:
    """The number of jobs that failed since the last success, and what the last one reported.

    `job_key` is the last job, whose retries do not count again. `last_s` is the time of its
    failure, in seconds since 1970. `why` is its error.
    """

    count: int
    job_key: str
    last_s: float
    why: str

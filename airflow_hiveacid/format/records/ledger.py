"""The ledger entry of an attempt, and functions that compare it with other sources.

Other programs can write ledger files, so `doubt_of` verifies that an entry's transaction and write
ID are allocated and committed in the metastore, and `is_twin` that another table's ledger agrees.
See docs/decisions/ledger.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_hiveacid.format.codec import stored_as
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One attempt's change of one table, as recorded in the ledger.

    `statement` maps each part of the job description to a digest. `table_id` tells the table from
    an earlier one of the same name and location. `directories` are the URIs that the attempt
    publishes. `result` is the job's result as JSON text. The entry is kept for at least
    `retention_s` seconds after `recorded_s`, which is since 1970. Not stored: `is_legible` is False
    if the entry is damaged and only its owner is known, and `doubt` is why a confirmed entry is not
    trusted.
    """

    job_key: str
    generation: int
    attempt: AttemptId
    statement: Mapping[str, str]
    table_id: str
    txn_id: TxnId
    write_id: WriteId
    directories: tuple[str, ...]
    result: str
    recorded_s: float
    retention_s: float
    is_confirmed: bool = False
    is_legible: bool = field(default=True, metadata=stored_as(None))
    doubt: str = field(default="", metadata=stored_as(None))

    @property
    def when(self) -> str:
        """The time of recording as a string in UTC."""
        return datetime.fromtimestamp(self.recorded_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def is_twin(self, other: LedgerEntry) -> bool:
        """Return True if both are entries of one transaction, as its tables' ledgers have them.

        A damaged entry still counts by its name.
        """
        if (self.txn_id, self.generation) != (other.txn_id, other.generation):
            return False
        return self.result == other.result or not (self.is_legible and other.is_legible)


def doubt_of(entry: LedgerEntry, write_ids: ValidWriteIdList, txns: ValidTxnList) -> str:
    """Return why the metastore contradicts a confirmed entry; "" if they agree.

    A write ID stays visible after its rows are compacted, and after the table is truncated. In
    `write_ids`, which the reader sees, its own write ID must be open.
    """
    if entry.txn_id > txns.high_watermark:
        return _doubt(
            f"transaction {entry.txn_id}",
            f"has allocated transactions only up to {txns.high_watermark}",
        )
    if not txns.is_visible(entry.txn_id):
        state = "aborted" if txns.is_aborted(entry.txn_id) else "open"
        return _doubt(f"transaction {entry.txn_id}", f"lists it as {state}")
    if write_ids.is_visible(entry.write_id):
        return ""
    if entry.write_id <= write_ids.high_watermark:
        state = "aborted" if write_ids.is_aborted(entry.write_id) else "open"
        return _doubt(f"write ID {entry.write_id}", f"lists it as {state}")
    return _doubt(
        f"write ID {entry.write_id}",
        f"has allocated write IDs of the table only up to {write_ids.high_watermark}",
    )


def doubt_without_twins(tables: Iterable[object]) -> str:
    """Return why an entry is not trusted that these tables of its job lack; "" for no table."""
    names = ", ".join(map(str, tables))
    if not names:
        return ""
    return (
        "a job adds an entry to the ledger of each of its tables before it commits, but the ledger"
        f" of {names} has no entry of this transaction with the same result. Either that table was"
        " dropped and made again, or its entry has expired, or another program wrote the entry"
    )


def _doubt(what: str, why: str) -> str:
    return (
        f"the entry says that {what} was committed, but the metastore {why}. Either the metastore"
        " was restored from a backup that is older than the table's files (restore both to the same"
        " time before anything else is written), or another program wrote the entry"
    )

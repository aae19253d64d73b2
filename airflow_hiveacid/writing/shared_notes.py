"""A table's hidden directory; a job lists it once for all partitions that it compacts.

But each partition has its own, later snapshot. The first listing is used for all partitions. The
directory is listed again only if the first listing may lack an entry that a partition needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Self

from airflow_hiveacid.format.records.ledger import LedgerEntry
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import AcidState
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.storage.stores.notes.job_ledger import Ledger
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes
from airflow_hiveacid.writing.replacement import live_names


@dataclass(slots=True, kw_only=True)
class SharedNotes:
    """The ledger and the notes of one table. Mutable and thread-safe: it remembers listings.

    `versions` are the notes about past versions, with one listing.
    """

    ledger: Ledger
    versions: VersionNotes
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _covered: ValidWriteIdList | None = field(default=None, init=False, repr=False)
    _unconfirmed: tuple[LedgerEntry, ...] = field(default=(), init=False, repr=False)

    @classmethod
    def of(cls, table: TableInfo) -> Self:
        """Return the notes of a table, without listing anything yet."""
        return cls(ledger=Ledger.of(table), versions=VersionNotes.of(table).listed_once())

    def confirm_writers(
        self, state: AcidState, write_ids: ValidWriteIdList, txns: ValidTxnList
    ) -> None:
        """Confirm the ledger's entries of a partition's committed writes.

        `write_ids` and `txns` are of the snapshot of `state`. A writer writes its entry before it
        commits. So if a listing is newer than a snapshot, it contains the entries of all writes
        that the snapshot shows as committed. The ledger is listed again only if the partition has a
        write that is not committed in the older snapshot.
        """
        location = state.location.rstrip("/")
        with self._lock:
            if self._covered is None or _has_later_write(state, write_ids, self._covered):
                self._unconfirmed = self.ledger.unconfirmed(txns)
                self._covered = write_ids
            self._unconfirmed = self.ledger.confirm_committed(
                self._unconfirmed,
                {f"{location}/{name}" for name in live_names(state)},
                write_ids,
                txns,
            )


def _has_later_write(
    state: AcidState, write_ids: ValidWriteIdList, covered: ValidWriteIdList
) -> bool:
    """Return True if a live directory has a committed write that `covered` lacks.

    Only a directory's highest write ID is compared. A directory of several writes comes from a
    compactor or a streaming client, and no ledger entry names it.
    """
    return any(write_ids.is_visible(d.high) and not covered.is_visible(d.high) for d in state.live)

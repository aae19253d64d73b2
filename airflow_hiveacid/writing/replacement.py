"""Replacement of a compaction's inputs by its result, and removal of the result after an abort.

A result with a `_v` suffix is invalid if its transaction aborts. One without a suffix contains the
rows of its inputs, and is valid once renamed, so it is kept even then, unless it would duplicate
the rows of another compactor's result (`plan.compaction.doubles_rows`).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Self

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.plan.compaction import CompactionPlan, doubles_rows
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.listing import give_up, list_directories, open_uploads
from airflow_hiveacid.storage.stores.locations import open_location, publishes_files, scheme_of
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.writing.publish import Publication, StagedDirectory

log = logging.getLogger("hiveacid")


def live_names(state: AcidState) -> set[str]:
    """Return the names of the live directories."""
    return {d.text for d in state.live}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The staged result of a compaction; `look` lists the partition under its snapshot."""

    plan: CompactionPlan
    directories: tuple[StagedDirectory, ...]
    look: Callable[[], AcidState]
    _publication: Publication = field(default_factory=Publication)

    def remove_dead_siblings(self) -> None:
        """Remove directories that aborted compactors have left for the same write IDs.

        Of `delta_1_5_v12` and `delta_1_5_v15`, Hive reads only one, but Trino reads both. The
        caller holds the lock that only compactors request, so the other compactor has ended. A
        directory that is not aborted in the snapshot taken with the lock is kept: an input or, if
        this process was suspended, the next compactor's result.
        """
        location = self.plan.state.location.rstrip("/")
        if publishes_files(scheme_of(location)):
            # Uploads first, so that `look` lists all that suspended compactors published.
            self._stop_the_dead(location)
        ranges = {_without_suffix(name) for name in self._names}
        for name in sorted({d.text for d in self.look().aborted} - self._names):
            if name != _without_suffix(name) in ranges:
                log.info("removing a directory of an aborted compactor: %s/%s", location, name)
                delete_directory(*open_location(f"{location}/{name}"))

    def _stop_the_dead(self, location: str) -> None:
        """Abort the open uploads of a suspended compactor, so that it cannot publish them later."""
        dead = [
            upload
            for upload in open_uploads(location)
            if (name := upload.path.partition("/")[0]) not in self._names
            and name != _without_suffix(name)
        ]
        for upload in dead:
            log.info("aborting an upload of an aborted compactor: %s/%s", location, upload.path)
        give_up(location, dead)

    def publish(self) -> None:
        """Publish the result of the compaction."""
        self._publication.publish(self.directories)

    def take_back(self) -> None:
        """Remove the result if it is invalid; call this only if the transaction was aborted."""
        is_void = any(name != _without_suffix(name) for name in self._names)
        if is_void or doubles_rows(self.plan, self._present()):
            self._publication.take_back()

    @property
    def _names(self) -> set[str]:
        return {d.directory for d in self.directories}

    def _present(self) -> list[BaseName | DeltaName]:
        names = list_directories(*open_location(self.plan.state.location))
        return [parsed for name in names if (parsed := parse_directory_name(name)) is not None]


def _without_suffix(directory: str) -> str:
    name = parse_directory_name(directory)
    return str(dataclasses.replace(name, visibility_txn_id=None)) if name else directory


@dataclass(slots=True, kw_only=True)
class SharedNotes:
    """The ledger and the notes of one table, listed once. Mutable and thread-safe."""

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
        commits, so the ledger is listed again only if the partition has a write that is not
        committed in the snapshot of the last listing.
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

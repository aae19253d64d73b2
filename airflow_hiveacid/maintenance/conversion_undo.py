"""Recovery of an interrupted conversion: undo it, or finish it if it was verified.

The input is the conversion's note and the existing files. The caller holds an exclusive lock. The
caller passes a `guard` that raises an error if the lock is lost. Without the lock, another job may
work on the same note. Must not depend on Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import HiveAcidError, StorageError
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.names import looks_like_directory_name
from airflow_hiveacid.format.state.directories import Listing
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.plan.conversion import visible_files, why_not_noted
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.listing import files_below
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.notes.conversion_note import ConversionNote

if TYPE_CHECKING:
    from airflow_hiveacid.maintenance.conversion_survey import ConversionSurvey

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """Recovery of one table's interrupted conversions."""

    survey: ConversionSurvey
    guard: Callable[[], None]

    def recover(self) -> None:
        """Finish or undo a conversion that was killed."""
        table = self.survey.table()
        note = ConversionNote.read(table.location)
        if note is None:
            return
        if note.table_id != table.table_id:
            ConversionNote.remove(table.location)
            return
        self._require_own(table, note)
        if note.is_verified:
            log.warning("finishing a conversion of %s to %s", table.ref, note.to)
            self.tidy(note)
        else:
            log.warning("undoing a conversion of %s to %s", table.ref, note.to)
            self.undo(note)

    def undo_own(self, location: str, attempt: AttemptId) -> None:
        """Undo this attempt's conversion, unless it is already undone or verified.

        Raises:
            HiveAcidError: the lock is lost, or the undo failed. The next conversion repeats the
                undo.
        """
        note = ConversionNote.read(location)
        if note is not None and note.attempt == str(attempt) and not note.is_verified:
            self.undo(note)

    def undo(self, note: ConversionNote) -> None:
        """Restore the table to its state before the conversion; a failed undo can be repeated."""
        table = self.survey.table()
        self._require_untouched(table, note)
        self.guard()
        if any(table.parameters.get(name) != value for name, value in note.undo.items()):
            self.survey.client.set_table_parameters(table.ref, note.undo)
        note.move_back(self.guard)
        # A stalled process that seemed to have ended may have moved one more file.
        if remainder := note.not_back():
            raise StorageError(f"{remainder[0]} was moved again while it was moved back; try again")
        for uri in sorted(_made_by(note)):
            _remove_empty(uri)
        ConversionNote.remove(table.location)

    def tidy(self, note: ConversionNote) -> None:
        """Remove the emptied directories and the note of a conversion; errors are only logged."""
        ref = self.survey.ref
        try:
            for move in note.emptied:
                delete_directory(*open_location(f"{move.location.rstrip('/')}/{move.target}"))
            self.guard()
            ConversionNote.remove(self.survey.table().location)
        except HiveAcidError as error:
            log.warning("converted %s to %s, but cannot remove the note: %s", ref, note.to, error)

    def _require_own(self, table: TableInfo, note: ConversionNote) -> None:
        """Check that a conversion of this table can have written the note."""
        locations = {table.location, *(p.location for p in self.survey.partitions(table))}
        why = why_not_noted(note.moves, note.emptied, note.undo, note.write_id, locations=locations)
        if why is None and (note.write_id or 0) > self.survey.client.max_write_id(table.ref):
            why = f"the metastore has not allocated its write ID {note.write_id}"
        if why is not None:
            raise self.survey.refused(
                f"no conversion of it can have written {ConversionNote.uri(table.location)}: {why}."
                " Nothing was changed. If the table or a partition was moved after an interrupted"
                " conversion, give it its earlier location, and convert again. Remove the note only"
                " if another program wrote it, because it may be the only list of moved files"
            )

    def _require_untouched(self, table: TableInfo, note: ConversionNote) -> None:
        """Check that an undo neither hides new rows nor brings back old rows."""
        why_not = _why_not_in if note.write_id is not None else _why_not_out
        for listing in self.survey.listings(table):
            reason = why_not(table, note, listing)
            if reason is not None:
                note_uri = ConversionNote.uri(table.location)
                raise self.survey.refused(
                    f"{reason} after an earlier conversion was interrupted, so that conversion can"
                    f" be neither finished nor undone; {note_uri} lists the files that it moved."
                    " Move these files to their correct places, then remove that note"
                )


def _why_not_in(table: TableInfo, note: ConversionNote, listing: Listing) -> str | None:
    """Return why files cannot be moved back out of a delta; None if they can.

    An undo would hide directories that were added after the move. Writers can add such directories
    only if the table is already insert-only.
    """
    if table.kind is not TransactionalKind.INSERT_ONLY:
        return None
    own = {move.target.partition("/")[0] for move in note.moves}
    directories = _directories(listing) - own
    return f"{listing.location}/{min(directories)} was written" if directories else None


def _why_not_out(table: TableInfo, note: ConversionNote, listing: Listing) -> str | None:
    """Return why files cannot be moved back into deltas; None if they can.

    After such a move, new flat files would be invisible, and a new base would hide the moved files.
    """
    moves = [move for move in note.moves if move.location == listing.location]
    if table.kind is TransactionalKind.NONE:
        differing = {file.path for file in visible_files(listing)} ^ {m.target for m in moves}
        return f"{listing.location}/{min(differing)} was written or removed" if differing else None
    own = {move.source.partition("/")[0] for move in moves}
    bases = {name for name in _directories(listing) - own if name.startswith("base_")}
    return f"{listing.location}/{min(bases)} was written" if bases else None


def _directories(listing: Listing) -> set[str]:
    return set(
        filter(looks_like_directory_name, (d.partition("/")[0] for d in listing.directories))
    )


def _made_by(note: ConversionNote) -> set[str]:
    return {
        f"{move.location.rstrip('/')}/{move.target.partition('/')[0]}"
        for move in note.moves
        if "/" in move.target
    }


def _remove_empty(uri: str) -> None:
    location, _, name = uri.rpartition("/")
    if files := files_below(location, name):
        raise StorageError(f"{location}/{files[0].path} still exists; try again")
    delete_directory(*open_location(uri))

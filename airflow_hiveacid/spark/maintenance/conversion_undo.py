"""The way back of a conversion: what one has left is undone, or finished where it was verified.

Takes what a note says and what is there. Whoever calls it has everybody else locked out, and gives
a `guard` that raises as soon as that is over: another one may then be at work on the same note.
Must not know Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import HiveAcidError, StorageError
from airflow_hiveacid.format.names import looks_like_directory_name
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.plan.conversion import visible_files
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.listing import files_below
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.spark.maintenance.conversion_survey import ConversionSurvey

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """Undoes or finishes conversions of one table."""

    survey: ConversionSurvey
    guard: Callable[[], None]

    def recover(self) -> None:
        """Finish or undo what a killed conversion has left.

        Raises:
            ConversionRefusedError: somebody has written behind it.
            HiveAcidError: it cannot be done.
        """
        table = self.survey.table()
        note = ConversionNote.read(table.location)
        if note is None:
            return
        if note.table_id != table.table_id:
            ConversionNote.remove(table.location)
        elif note.is_verified:
            log.warning("finishing a conversion of %s to %s", table.ref, note.to)
            self.tidy(note)
        else:
            log.warning("undoing a conversion of %s to %s", table.ref, note.to)
            self.undo(note)

    def undo_own(self, location: str, attempt: AttemptId) -> None:
        """Undo what this very attempt has done, unless it is undone, or done for good.

        Raises:
            HiveAcidError: the lock is gone, or it cannot be done; the next conversion does it.
        """
        note = ConversionNote.read(location)
        if note is not None and note.attempt == str(attempt) and not note.is_verified:
            self.undo(note)

    def undo(self, note: ConversionNote) -> None:
        """Make the table what it was. Whatever has broken off before, it can be called again."""
        table = self.survey.table()
        self._require_untouched(table, note)
        self.guard()
        if any(table.parameters.get(name) != value for name, value in note.undo.items()):
            self.survey.client.set_table_parameters(table.ref, note.undo)
        note.move_back(self.guard)
        # A process that was taken for dead may have had one move on its way.
        if left := note.not_back():
            raise StorageError(f"{left[0]} was moved again while it was moved back; try again")
        for place in sorted(_made_by(note)):
            _remove_empty(place)
        ConversionNote.remove(table.location)

    def tidy(self, note: ConversionNote) -> None:
        """Remove what a conversion that is done needs no more; nothing of it fails the job."""
        ref = self.survey.ref
        try:
            for move in note.emptied:
                delete_directory(*open_location(f"{move.location.rstrip('/')}/{move.target}"))
            self.guard()
            ConversionNote.remove(self.survey.table().location)
        except HiveAcidError as error:
            log.warning("converted %s to %s, but its note stays: %s", ref, note.to, error)

    def _require_untouched(self, table: TableInfo, note: ConversionNote) -> None:
        """See that what is to be undone hides or brings back no row that counts by now.

        Raises:
            ConversionRefusedError: somebody has written, or compacted, what lies there now.
        """
        why_not = _why_not_in if note.write_id is not None else _why_not_out
        for listing in self.survey.listings(table):
            found = why_not(table, note, listing)
            if found is not None:
                note_place = ConversionNote.place(table.location)
                raise self.survey.refused(
                    f"{found} after an earlier conversion broke off, which can be neither finished"
                    f" nor undone beside it; {note_place} says which files it has moved. Remove"
                    " that note when they are where they belong"
                )


def _why_not_in(table: TableInfo, note: ConversionNote, listing: Listing) -> str | None:
    """Into one delta: once the table is insert-only, whatever else is written would be hidden."""
    if table.kind is not TransactionalKind.INSERT_ONLY:
        return None
    own = {move.target.partition("/")[0] for move in note.moves}
    found = _directories(listing) - own
    return f"{listing.location}/{min(found)} was written" if found else None


def _why_not_out(table: TableInfo, note: ConversionNote, listing: Listing) -> str | None:
    """Out of the deltas: flat files would be hidden, and a new base would hide what is put back."""
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
    """The directories that a conversion made for files to be moved into."""
    return {
        f"{move.location.rstrip('/')}/{move.target.partition('/')[0]}"
        for move in note.moves
        if "/" in move.target
    }


def _remove_empty(place: str) -> None:
    location, _, name = place.rpartition("/")
    if found := files_below(location, name):
        raise StorageError(f"{location}/{found[0].path} is there still; try again")
    delete_directory(*open_location(place))

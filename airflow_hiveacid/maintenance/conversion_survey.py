"""A table before its conversion: its files, reasons to refuse, and an interrupted conversion.

A survey changes nothing, and needs no Spark. A recovery undoes an interrupted conversion, or
finishes it if it was verified, by its note and the existing files. Its caller holds an exclusive
lock, and passes a `guard` that raises an error if the lock is lost: another job may then work on
the note.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.ids import LONG_MAX, AttemptId, StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName, looks_like_directory_name, parse_directory_name
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import (
    FileFormat,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.words import first_few
from airflow_hiveacid.jobs.maintenance import ConversionTarget
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan import conversion
from airflow_hiveacid.storage.plain.compact import require_compactable
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.text_form import check_text_writable
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.listing import files_below, list_roots
from airflow_hiveacid.storage.stores.locations import locate, open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.column_types import row_type

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionSurvey:
    """The survey of one table that is to be converted."""

    client: MetastorePort
    ref: TableRef
    to: ConversionTarget

    def table(self) -> TableInfo:
        """Return the table as it is now."""
        return self.client.get_table(self.ref)

    def plan(self) -> conversion.ConversionOutcome:
        """Return the outcome that a conversion would have now."""
        table = self.table()
        note = ConversionNote.read(table.location)
        if note is not None and note.table_id == table.table_id:
            step = (
                f"an earlier conversion to {note.to} was interrupted, or still runs: the next"
                " conversion first finishes or undoes it. Plan again after that"
            )
            return conversion.outcome_of(table, self.to, steps=(step,))
        if table.kind is conversion.KINDS[self.to]:
            return self.nothing(table)
        self.check(table)
        if self.to is not ConversionTarget.FLAT:
            count = len(self.files(table))
        elif table.kind is TransactionalKind.FULL_ACID:
            count = 0  # its rows are copied to another table
        else:
            count = len(self.moves(table, self.write_ids(), None))
        return conversion.outcome_of(
            table, self.to, steps=conversion.steps_of(table, self.to, count)
        )

    def nothing(self, table: TableInfo) -> conversion.ConversionOutcome:
        """Return the outcome for a table that is already of the requested kind."""
        return conversion.outcome_of(table, self.to, steps=("it is already of that kind",))

    def check(self, table: TableInfo) -> None:
        """Raise ConversionRefusedError if definition, file names or Parquet footers forbid it."""
        why = conversion.why_not_table(table, self.to)
        if why is None:
            why = self._why_not_partitions(table)
        if why is None and self.to is not ConversionTarget.FLAT:
            reasons = (
                conversion.why_not_files(listing, self.to) for listing in self.listings(table)
            )
            why = next((reason for reason in reasons if reason is not None), None)
        if why is None and self.to is not ConversionTarget.FLAT:
            why = self._why_not_compactable(table)
        if why is None and table.kind is TransactionalKind.INSERT_ONLY:
            why = self._why_not_queue()
        if why is None and self.to is ConversionTarget.FULL_ACID:
            why = self._why_not_numbers()
        if why is not None:
            raise self.refused(why)

    def refused(self, why: str) -> errors.ConversionRefusedError:
        """Return the error that refuses a conversion, for the caller to raise."""
        return errors.ConversionRefusedError(table=self.ref, to=self.to.value, why=why)

    def _why_not_partitions(self, table: TableInfo) -> str | None:
        table_format = table.storage.format
        for partition in self.client.list_partitions(table):
            format_ = table_format if partition.storage is None else partition.storage.format
            if format_ is not table_format:
                return f"it is stored as {table.storage}, but its partition {partition.name} is not"
        return None

    def _why_not_compactable(self, table: TableInfo) -> str | None:
        """Return why the converted table could be read, but not compacted."""
        try:
            row_type(table.columns)
            check_text_writable(table, self.client.list_partitions(table))
            if table.storage.format is FileFormat.PARQUET:
                each_in_threads(require_compactable, self._plain_files(table))
        except (errors.UnsupportedTableError, errors.UnsupportedFileError) as error:
            return not_compactable(error)
        return None

    def _plain_files(self, table: TableInfo) -> list[PlainFile]:
        return [
            PlainFile(
                store=store,
                path=f"{root}/{file.path}",
                key=file.path,
                length=file.size_bytes,
                format=FileFormat.PARQUET,
            )
            for listing in self.listings(table)
            for store, root in [locate(listing.location)]
            for file in conversion.visible_files(listing)
            if file.size_bytes
        ]

    def _why_not_numbers(self) -> str | None:
        # The metastore allocates the first write ID of a new full-ACID table. The metastore fails
        # if the table already has a write ID (TxnHandler.seedWriteId).
        if self.write_ids().high_watermark:
            return (
                "it, or an earlier table with its name, was insert-only, and the metastore cannot"
                " convert a table whose write IDs it remembers; use CREATE TABLE ... AS SELECT"
            )
        return None

    def _why_not_queue(self) -> str | None:
        # Some of Hive's compactors take no locks. A compactor without locks would write a base next
        # to the flat files.
        at_work = (s for s in unfinished(self.client, self.ref) if s.entry.is_at_work)
        status = next(at_work, None)
        return None if status is None else f"a compaction is queued or running: {status}"

    def listings(self, table: TableInfo) -> Sequence[Listing]:
        """Return the listing of each partition's directory."""
        return list_roots(self.client.list_partitions(table))

    def files(self, table: TableInfo) -> list[tuple[str, str, int]]:
        """Return the files of a flat table: location, path below the location, size in bytes."""
        return [
            (listing.location, file.path, file.size_bytes)
            for listing in self.listings(table)
            for file in conversion.visible_files(listing)
        ]

    def paths(self, table: TableInfo) -> list[tuple[str, str]]:
        """Return the location and path of each file in `files`."""
        return [(location, path) for location, path, _ in self.files(table)]

    def write_ids(self) -> ValidWriteIdList:
        """Return the table's valid write IDs now."""
        return self.client.valid_write_ids([self.ref], self.client.valid_txns())[self.ref]

    def moves(
        self, table: TableInfo, write_ids: ValidWriteIdList, own: WriteId | None
    ) -> list[Move]:
        """Return the files to move, and their new paths.

        Only files of live directories are moved out; others refuse the conversion. `own` is the
        write ID of the delta for the moved files; None to move files out of deltas.
        """
        listings = self.listings(table)
        if own is not None:
            delta = DeltaName(low=own, high=own, statement_id=StatementId(0))
            return [move for listing in listings for move in conversion.moves_in(listing, delta)]
        txns = self.client.valid_txns()
        states = [resolve(listing, write_ids, txns, table.kind) for listing in listings]
        for state in states:
            if (why := conversion.why_not_state(state)) is not None:
                raise self.refused(why)
        return [move for state in states for move in conversion.moves_out(state)]


def not_compactable(error: errors.HiveAcidError) -> str:
    """Return the reason that refuses a conversion for an error of a later compaction."""
    return f"it could not be compacted afterwards: {error}"


def no_write_ids(ref: TableRef) -> ValidWriteIdList:
    """Return the list of valid write IDs of a table that never had a transactional write."""
    return ValidWriteIdList.parse(f"{ref}:0:{LONG_MAX}::")


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

        If the lock is lost, or the undo fails, the next conversion repeats the undo.
        """
        note = ConversionNote.read(location)
        if note is not None and note.attempt == str(attempt) and not note.is_verified:
            self.undo(note)

    def undo(self, note: ConversionNote) -> None:
        """Restore the table to its state before the conversion; a failed undo can be repeated."""
        table = self.survey.table()
        reasons = self._why_not_back(table, note)
        # In these cases, the table has its new kind, so the conversion had moved all files.
        if reasons and (note.write_id is not None or table.kind is TransactionalKind.NONE):
            raise self._stuck(reasons, _leave(table))
        self.guard()
        if any(table.parameters.get(name) != value for name, value in note.undo.items()):
            self.survey.client.set_table_parameters(table.ref, note.undo)
        self._move_back(note.part(lambda location: location.rstrip("/") not in reasons))
        if not reasons:
            ConversionNote.remove(table.location)
            return
        rest = note.part(lambda location: location.rstrip("/") in reasons)
        self.guard()
        rest.write(table.location)
        raise self._stuck(reasons, _rescue(table, rest))

    def _move_back(self, note: ConversionNote) -> None:
        note.move_back(self.guard)
        # A stalled process that seemed to have ended may have moved one more file.
        if remainder := note.not_back():
            raise errors.StorageError(
                f"{remainder[0]} was moved again while it was moved back; try again"
            )
        made = {
            f"{move.location.rstrip('/')}/{move.target.partition('/')[0]}"
            for move in note.moves
            if "/" in move.target
        }
        for uri in sorted(made):
            location, _, name = uri.rpartition("/")
            if files := files_below(location, name):
                raise errors.StorageError(f"{location}/{files[0].path} still exists; try again")
            delete_directory(*open_location(uri))

    def tidy(self, note: ConversionNote) -> None:
        """Remove the emptied directories and the note of a conversion; errors are only logged."""
        ref = self.survey.ref
        try:
            for move in note.emptied:
                delete_directory(*open_location(f"{move.location.rstrip('/')}/{move.target}"))
            self.guard()
            ConversionNote.remove(self.survey.table().location)
        except errors.HiveAcidError as error:
            log.warning("converted %s to %s, but cannot remove the note: %s", ref, note.to, error)

    def _require_own(self, table: TableInfo, note: ConversionNote) -> None:
        """Check that a conversion of this table can have written the note."""
        partitions = self.survey.client.list_partitions(table)
        locations = {table.location, *(partition.location for partition in partitions)}
        why = conversion.why_not_noted(
            note.moves, note.emptied, note.undo, note.write_id, locations=locations
        )
        if why is None and (note.write_id or 0) > self.survey.client.max_write_id(table.ref):
            why = f"the metastore has not allocated its write ID {note.write_id}"
        if why is not None:
            raise self.survey.refused(
                f"no conversion of it can have written {ConversionNote.uri(table.location)}: {why}."
                " Nothing was changed. If the table or a partition was moved or renamed after an"
                " interrupted conversion, give it its earlier location, and convert again; if a"
                " partition was dropped, first add it again there. Remove the note only if another"
                " program wrote it, because it may be the only list of moved files"
            )

    def _why_not_back(self, table: TableInfo, note: ConversionNote) -> dict[str, str]:
        """Return why an undo would hide new rows or bring back old rows, by location."""
        why_not = _why_not_in if note.write_id is not None else _why_not_out
        listings = self.survey.listings(table)
        reasons = {each.location.rstrip("/"): why_not(table, note, each) for each in listings}
        return {location: why for location, why in reasons.items() if why is not None}

    def _stuck(self, reasons: Mapping[str, str], remedy: str) -> errors.ConversionRefusedError:
        return self.survey.refused(
            f"{first_few(sorted(reasons.values()))} after an earlier conversion was interrupted, so"
            f" that conversion can be neither finished nor undone. {remedy}"
        )


def _leave(table: TableInfo) -> str:
    return (
        "That conversion had moved all files, and set the parameters: leave all files where they"
        f" are, check the table's rows, and remove {ConversionNote.uri(table.location)}"
    )


def _rescue(table: TableInfo, note: ConversionNote) -> str:
    """Return what the owner does with files that an undo cannot move back.

    No file may go back to its old directory: a base or compacted delta may hide it there.
    """
    target = f"{table.ref} PARTITION (...)" if table.is_partitioned else table.ref
    return (
        "Do not move files back to their old directories, which may be replaced. These files are"
        f" outside of base and deltas: {first_few(note.not_back()) or 'none'}"
        f" ({ConversionNote.uri(table.location)} lists all as targets). If INSERT OVERWRITE or"
        " TRUNCATE ran, their rows are replaced: remove these files and that note. Otherwise, base"
        " and deltas lack their rows: move them to a new directory outside the table, one for each"
        " partition, remove that note, and load each directory (LOAD DATA INPATH ... INTO TABLE"
        f" {target}), which gives their rows a new write ID"
    )


def _why_not_in(table: TableInfo, note: ConversionNote, listing: Listing) -> str | None:
    """Return why files cannot be moved back out of a delta; None if they can.

    An undo would hide later directories, which writers add only to an insert-only table.
    """
    if table.kind is not TransactionalKind.INSERT_ONLY:
        return None
    own = {move.target.partition("/")[0] for move in note.moves}
    directories = _directories(listing) - own
    return f"{listing.location}/{min(directories)} was written" if directories else None


def _why_not_out(table: TableInfo, note: ConversionNote, listing: Listing) -> str | None:
    """Return why files cannot be moved back into deltas; None if they can.

    After such a move, new flat files would be invisible, and a new base or compacted delta would
    hide the moved files.
    """
    location = listing.location.rstrip("/")
    moves = [move for move in note.moves if move.location.rstrip("/") == location]
    if table.kind is TransactionalKind.NONE:
        differing = {file.path for file in conversion.visible_files(listing)} ^ {
            m.target for m in moves
        }
        return f"{listing.location}/{min(differing)} was written or removed" if differing else None
    if not moves:
        return None
    own = {move.source.partition("/")[0] for move in moves}
    if hiding := [name for name in sorted(_directories(listing) - own) if _hides(name, own)]:
        return f"{listing.location}/{hiding[0]} was written"
    paths = {file.path for file in listing.files}
    lost = [move.source for move in moves if paths.isdisjoint((move.source, move.target))]
    return f"{listing.location}/{lost[0]} was removed" if lost else None


def _hides(name: str, older: Iterable[str]) -> bool:
    """Return whether a directory may hide an older one: a base, or a delta of a compactor."""
    delta = parse_directory_name(name)
    if not isinstance(delta, DeltaName):
        return name.startswith("base_")
    return delta.statement_id is None and any(
        isinstance(other, DeltaName) and delta.low <= other.low and other.high <= delta.high
        for other in map(parse_directory_name, older)
    )


def _directories(listing: Listing) -> set[str]:
    return set(
        filter(looks_like_directory_name, (d.partition("/")[0] for d in listing.directories))
    )

"""Decides whether a table can be converted, and which of its files are moved.

In a flat table that becomes full ACID, files stay in place as original files (Hive's
OrcRawRecordMerger). See docs/decisions/conversion.md.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import names
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.ids import MAX_BUCKET_ID, BucketId, StatementId, WriteId
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.format.table import (
    COPY_OF,
    FileFormat,
    TableInfo,
    TableRef,
    TransactionalKind,
    kept_table,
)
from airflow_hiveacid.jobs.maintenance import ConversionTarget

KINDS: Final = {
    ConversionTarget.FULL_ACID: TransactionalKind.FULL_ACID,
    ConversionTarget.INSERT_ONLY: TransactionalKind.INSERT_ONLY,
    ConversionTarget.FLAT: TransactionalKind.NONE,
}

_NEW_TABLE: Final = "use CREATE TABLE ... AS SELECT to copy its rows to a new table"
_UNION_DIRECTORY: Final = re.compile(r"HIVE_UNION_SUBDIR_[0-9]+\Z")
_EXTERNAL: Final = "EXTERNAL"
# If a user requests a managed table without transactions, Hive 4 creates an external table instead
# and sets this parameter.
_TRANSLATED: Final = "TRANSLATED_TO_EXTERNAL"
_PURGED: Final = "external.table.purge"
_TRANSACTIONAL: Final = "transactional"
_PROPERTIES: Final = "transactional_properties"
_UNDONE: Final = frozenset({_EXTERNAL, _TRANSLATED, _PURGED, _TRANSACTIONAL, _PROPERTIES, COPY_OF})
"""The parameters that a conversion changes, and that its undo restores."""
_FLAT_FILE: Final = re.compile(r"[0-9]{6,}_0(\.[^/]*)?")
_READABLE: Final = frozenset({FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionOutcome:
    """The actual or expected result of a conversion; `steps` are sentences for users.

    `rows` is the number of rows, which does not change; None if the rows were not read.
    """

    before: str
    after: str
    done: bool
    steps: tuple[str, ...]
    rows: int | None = None
    files_moved: int = 0
    txn_id: int | None = None


def why_not_table(table: TableInfo, to: ConversionTarget) -> str | None:
    """Return why a table's definition prevents a conversion, or None if it does not prevent it."""
    if to is ConversionTarget.FLAT:
        return None
    if table.kind is not TransactionalKind.NONE:
        remedy = "make it flat first" if to is ConversionTarget.INSERT_ONLY else _NEW_TABLE
        return f"it is {table.kind.value}; {remedy}"
    parameters = {name: value.lower() for name, value in table.parameters.items()}
    if parameters.get(_EXTERNAL) == "true" and parameters.get(_TRANSLATED) != "true":
        return (
            "it is external: other programs may write its files, and DROP TABLE keeps them; if you"
            " intend neither, use ALTER TABLE ... SET TBLPROPERTIES ('EXTERNAL'='FALSE') first"
        )
    return _why_not_full(table) if to is ConversionTarget.FULL_ACID else _why_not_only(table)


def _why_not_full(table: TableInfo) -> str | None:
    if table.storage.format is not FileFormat.ORC:
        return f"it is stored as {table.storage}; full-ACID tables are ORC only"
    if table.sort_columns:
        return "it is SORTED BY, and full-ACID files are sorted by row ID"
    return None


def _why_not_only(table: TableInfo) -> str | None:
    if table.storage.format not in _READABLE:
        return f"it is stored as {table.storage}, a format that this provider cannot read"
    if table.num_buckets or table.sort_columns:
        return "it is CLUSTERED BY or SORTED BY; such insert-only tables cannot be written"
    return None


def parameters_of(table: TableInfo, to: ConversionTarget) -> dict[str, str | None]:
    """Return the parameters to set for a conversion; None means that the parameter is removed."""
    if to is ConversionTarget.FLAT:
        return {_TRANSACTIONAL: None, _PROPERTIES: None}
    is_full = to is ConversionTarget.FULL_ACID
    parameters: dict[str, str | None] = {
        _TRANSACTIONAL: "true",
        _PROPERTIES: "default" if is_full else "insert_only",
    }
    if COPY_OF in table.parameters:
        parameters[COPY_OF] = None
    if _EXTERNAL in table.parameters:
        parameters |= {_EXTERNAL: "FALSE", _TRANSLATED: None, _PURGED: None}
    return parameters


def why_not_files(listing: Listing, to: ConversionTarget) -> str | None:
    """Return why the files in a flat table's root prevent a conversion, or None if they do not.

    All readers of flat tables read the sub-directories of Hive's UNION ALL; only some read others.
    """
    for directory in listing.directories:
        if names.looks_like_directory_name(directory.partition("/")[0]):
            return f"{listing.location}/{directory} has a name like those of transactional tables"
    for file in visible_files(listing):
        reason = _why_not_file(file, to)
        if reason is not None:
            return f"{listing.location}/{file.path} {reason}"
    return None


def _why_not_file(file: FileEntry, to: ConversionTarget) -> str | None:
    *folders, name = file.path.split("/")
    if to is ConversionTarget.INSERT_ONLY:
        return "is in a sub-directory; move it up if it contains rows" if folders else None
    if not all(map(_UNION_DIRECTORY.match, folders)):
        return "is in a sub-directory that Hive did not create; move it up if it contains rows"
    parsed = names.parse_file_name(name)
    if not isinstance(parsed, names.OriginalFileName):
        return (
            "does not have a name in Hive's form, such as 000000_0, which determines its row IDs;"
            " rewrite the table with Hive (INSERT OVERWRITE), or create a new table"
        )
    if parsed.bucket_id > MAX_BUCKET_ID:
        return f"is named for a bucket above {MAX_BUCKET_ID}, which no row ID can contain"
    return None


def visible_files(listing: Listing) -> Iterator[FileEntry]:
    """Return the files that readers of a flat table read: those with no hidden name in the path."""
    return (f for f in listing.files if not names.is_below_hidden(f.path))


def moves_in(listing: Listing, delta: names.DeltaName) -> list[Move]:
    """Return the moves of a flat root's files into a delta; the files keep their names."""
    return [
        Move(location=listing.location, source=file.path, target=f"{delta}/{file.name}")
        for file in visible_files(listing)
    ]


def why_not_state(state: AcidState) -> str | None:
    """Return why a root of an insert-only table cannot become flat now, or None if it can."""
    rest = (*state.obsolete_directories, *state.aborted, *state.invisible)
    if rest:
        return (
            f"{state.location}/{rest[0].text} is obsolete or not yet visible; compact and clean the"
            " table first"
        )
    return None


def moves_out(state: AcidState) -> list[Move]:
    """Return the renames that give an insert-only root's visible files the names of flat files.

    The files of the base, then those of the deltas, get ascending free numbers. A file keeps its
    suffix, which readers need to decompress text files.
    """
    paths = {file.path for file in state.originals}
    moves: list[Move] = []
    number = 0
    for directory in state.live:
        for file in directory.files:
            _, dot, suffix = file.name.partition(".")
            while (target := f"{_name(number)}{dot}{suffix}") in paths:
                number += 1
            paths.add(target)
            moves.append(Move(location=state.location, source=file.path, target=target))
            number += 1
    return moves


def emptied_by(moves: Iterable[Move]) -> list[Move]:
    """Return the renames that hide the directories from which files are moved.

    Readers of a flat table would read the files that remain there, which an undo needs.
    """
    directories = {(m.location, m.source.partition("/")[0]) for m in moves if "/" in m.source}
    return [
        Move(location=location, source=name, target=_emptied(name))
        for location, name in sorted(directories)
    ]


def moved_to(moves: Iterable[Move]) -> set[tuple[str, str]]:
    """Return the location and path of each file after the moves."""
    return {(move.location, move.target) for move in moves}


def why_not_noted(
    moves: Sequence[Move],
    emptied: Sequence[Move],
    undo: Mapping[str, str | None],
    write_id: WriteId | None,
    *,
    locations: Collection[str],
) -> str | None:
    """Return why no conversion of a table can have noted this; None if one can.

    Other programs may write into a table's directory. So a note must not lead to other files,
    names or parameters than those that a conversion uses. `locations` are of the partitions.
    `write_id` is that of the delta into which files move; None if the table becomes flat.
    """
    if not set(undo) <= _UNDONE:
        return f"it sets the parameter {min(set(undo) - _UNDONE)}"
    roots = {location.rstrip("/") for location in locations}
    for move in (*moves, *emptied):
        if move.location.rstrip("/") not in roots:
            return f"{move.location} is not a location of the table"
    if write_id is None:
        wrong = [move for move in moves if not _is_move_out(move)]
        wrong += [move for move in emptied if not _is_emptying(move)]
    else:
        delta = str(names.DeltaName(low=write_id, high=write_id, statement_id=StatementId(0)))
        wrong = [*(move for move in moves if not _is_move_in(move, delta)), *emptied]
    if wrong:
        return f"no conversion moves {wrong[0].source!r} to {wrong[0].target!r}"
    return None


def _is_move_in(move: Move, directory: str) -> bool:
    is_visible = names.stays_below(move.source) and not names.is_below_hidden(move.source)
    return is_visible and move.target == f"{directory}/{posixpath.basename(move.source)}"


def _is_move_out(move: Move) -> bool:
    directory, slash, _ = move.source.partition("/")
    is_data = names.stays_below(move.source) and names.parse_directory_name(directory) is not None
    return bool(is_data and slash and _FLAT_FILE.fullmatch(move.target))


def _is_emptying(move: Move) -> bool:
    is_known = names.parse_directory_name(move.source) is not None
    return is_known and move.target == _emptied(move.source)


def _emptied(name: str) -> str:
    return names.staging_directory(f"emptied-{name}")


def _name(number: int) -> str:
    return names.data_file(BucketId(number), TransactionalKind.INSERT_ONLY)


def steps_of(table: TableInfo, to: ConversionTarget, files: int) -> tuple[str, ...]:
    """Return the steps of a conversion, in order, as sentences for users."""
    verified = "count and hashes of the rows are compared"
    switched = ", ".join(
        f"{name} removed" if value is None else f"{name}={value}"
        for name, value in parameters_of(table, to).items()
    )
    if to is ConversionTarget.FULL_ACID:
        return (
            "all other transactions are locked out",
            f"{verified}, read as a flat table and as original files of a full-ACID table",
            f"parameters: {switched}",
            f"{files} files stay in place; a major compaction rewrites them as bucket files",
        )
    if table.kind is TransactionalKind.FULL_ACID:
        return (
            "its rows are copied to another table, while other jobs read and write",
            "buckets, constraints, comments of columns and empty partitions are not copied",
            "all other transactions are locked out",
            f"{verified}, in the full-ACID table and in the copy",
            f"it is renamed to {kept_table(table.ref)}, and the copy gets its name",
            "a conversion back to full_acid restores it, as long as both have the same rows",
        )
    where = "out of base and deltas" if to is ConversionTarget.FLAT else "into one delta"
    return (
        "all other transactions are locked out",
        f"{files} files are moved {where}, by renames",
        f"parameters: {switched}",
        f"{verified}; if they differ, everything is undone",
    )


def steps_back(kept: TableRef) -> tuple[str, ...]:
    """Return the steps that bring back a full-ACID table that a flat copy has replaced."""
    return (
        "all other transactions are locked out",
        f"count and hashes of the rows are compared with those of {kept}",
        f"{kept} gets its name back, and the copy is dropped",
    )


def outcome_of(  # noqa: PLR0913 - what there is to say
    table: TableInfo,
    to: ConversionTarget,
    *,
    steps: Sequence[str],
    done: bool = False,
    rows: int | None = None,
    files_moved: int = 0,
    txn_id: int | None = None,
) -> ConversionOutcome:
    """Return a `ConversionOutcome` for a table; `before` is the table's current kind."""
    old_kind = next(target.value for target, kind in KINDS.items() if kind is table.kind)
    return ConversionOutcome(
        before=old_kind,
        after=to.value,
        done=done,
        steps=tuple(steps),
        rows=rows,
        files_moved=files_moved,
        txn_id=txn_id,
    )

"""Whether a table can be converted, and what has to happen to its files: decisions, never deeds.

Takes a table's definition and what lies in its directories; gives the reason why not, the
parameters that change, and the files that move.

A flat table becomes full ACID by its parameters alone: its files stay where they are, and count as
original files (OrcRawRecordMerger of Hive). It becomes insert-only by its files being moved into
the delta of one write; and back by all live files being moved out. For a full-ACID table to become
flat a copy takes its place: its files hold identities around the rows, and the metastore lets
nobody take its parameters away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import (
    OriginalFileName,
    data_file,
    is_hidden,
    looks_like_directory_name,
    parse_file_name,
    staging_directory,
)
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.conversion import ConversionTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import FileEntry, Listing
    from airflow_hiveacid.format.names import DeltaName
    from airflow_hiveacid.format.table import TableInfo, TableRef

KINDS: Final = {
    ConversionTarget.FULL_ACID: TransactionalKind.FULL_ACID,
    ConversionTarget.INSERT_ONLY: TransactionalKind.INSERT_ONLY,
    ConversionTarget.FLAT: TransactionalKind.NONE,
}
"""The kind of a table that is converted."""

COPY_OF: Final = "hiveacid.copy.of"
"""Table parameter of a flat copy: which table it is a copy of, by name and ID."""

_NEW_TABLE: Final = "CREATE TABLE ... AS SELECT makes a new one of its rows"
_UNION_DIRECTORY: Final = re.compile(r"HIVE_UNION_SUBDIR_[0-9]+\Z")
_EXTERNAL: Final = "EXTERNAL"
# Hive 4 makes an external table of one that was asked for as managed and is not transactional.
_TRANSLATED: Final = "TRANSLATED_TO_EXTERNAL"
_PURGED: Final = "external.table.purge"
_TRANSACTIONAL: Final = "transactional"
_PROPERTIES: Final = "transactional_properties"
_READABLE: Final = frozenset({FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One file that is renamed; both paths are below the location, a table's or partition's."""

    location: str
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionOutcome:
    """What became of a table, or would become of it: `steps` are sentences for people.

    `rows` are those that it has before and after; None where nobody has read them.
    """

    before: str
    after: str
    done: bool
    steps: tuple[str, ...]
    rows: int | None = None
    files_moved: int = 0
    txn_id: int | None = None


def why_not_table(table: TableInfo, to: ConversionTarget) -> str | None:
    """Why a table cannot become this, by its definition; None if it can."""
    match to:
        case ConversionTarget.FLAT:
            return None
        case ConversionTarget.FULL_ACID | ConversionTarget.INSERT_ONLY:
            return _why_not_in(table, to)
        case _:
            assert_never(to)


def _why_not_in(table: TableInfo, to: ConversionTarget) -> str | None:
    if table.kind is not TransactionalKind.NONE:
        remedy = "make it flat first" if to is ConversionTarget.INSERT_ONLY else _NEW_TABLE
        return f"it is {table.kind.value}; {remedy}"
    given = {name: value.lower() for name, value in table.parameters.items()}
    if given.get(_EXTERNAL) == "true" and given.get(_TRANSLATED) != "true":
        return (
            "it is external, so that others may write its files and a DROP leaves them; if neither"
            " is meant, ALTER TABLE ... SET TBLPROPERTIES ('EXTERNAL'='FALSE') first"
        )
    return _why_not_full(table) if to is ConversionTarget.FULL_ACID else _why_not_only(table)


def _why_not_full(table: TableInfo) -> str | None:
    if table.storage.format is not FileFormat.ORC:
        return f"it is stored as {table.storage}; full-ACID tables are ORC only"
    if table.sort_columns:
        return "it is SORTED BY, and full-ACID files are sorted by row identity"
    return None


def _why_not_only(table: TableInfo) -> str | None:
    if table.storage.format not in _READABLE:
        return f"it is stored as {table.storage}; of that format nothing is read here"
    if table.num_buckets or table.sort_columns:
        return "it is CLUSTERED BY or SORTED BY, and such insert-only tables are not written here"
    return None


def parameters_of(table: TableInfo, to: ConversionTarget) -> dict[str, str | None]:
    """The parameters that make a table what it is to be; None removes one."""
    if to is ConversionTarget.FLAT:
        return {_TRANSACTIONAL: None, _PROPERTIES: None}
    is_full = to is ConversionTarget.FULL_ACID
    found: dict[str, str | None] = {
        _TRANSACTIONAL: "true",
        _PROPERTIES: "default" if is_full else "insert_only",
    }
    if COPY_OF in table.parameters:
        found[COPY_OF] = None
    if _EXTERNAL in table.parameters:
        found |= {_EXTERNAL: "FALSE", _TRANSLATED: None, _PURGED: None}
    return found


def why_not_files(listing: Listing, to: ConversionTarget) -> str | None:
    """Why what lies at one root of a flat table keeps it from becoming this; None if it does not.

    Flat readers differ on what lies in sub-directories, except those that Hive's own UNION ALL
    makes.
    """
    for directory in listing.directories:
        if looks_like_directory_name(directory.partition("/")[0]):
            return f"{listing.location}/{directory} is named like one of a transactional table"
    for file in visible_files(listing):
        reason = _why_not_file(file, to)
        if reason is not None:
            return f"{listing.location}/{file.path} {reason}"
    return None


def _why_not_file(file: FileEntry, to: ConversionTarget) -> str | None:
    *folders, name = file.path.split("/")
    if to is ConversionTarget.INSERT_ONLY:
        return "lies in a sub-directory; move it up, if it is rows" if folders else None
    if not all(map(_UNION_DIRECTORY.match, folders)):
        return "lies in a sub-directory that Hive has not made; move it up, if it is rows"
    parsed = parse_file_name(name)
    if not isinstance(parsed, OriginalFileName):
        return (
            "has no name of Hive's, such as 000000_0, without which nobody knows its rows; have"
            " Hive rewrite the table (INSERT OVERWRITE), or make a new one"
        )
    if parsed.bucket_id > MAX_BUCKET_ID:
        return f"is named for a bucket above {MAX_BUCKET_ID}, which no row identity can hold"
    return None


def visible_files(listing: Listing) -> Iterator[FileEntry]:
    """The files that readers of a flat table see, by path."""
    return (f for f in listing.files if not any(map(is_hidden, f.path.split("/"))))


def moves_in(listing: Listing, delta: DeltaName) -> list[Move]:
    """How the files of a flat root become those of a delta, under their names."""
    return [
        Move(location=listing.location, source=file.path, target=f"{delta}/{file.name}")
        for file in visible_files(listing)
    ]


def why_not_state(state: AcidState) -> str | None:
    """Why one root of an insert-only table cannot become flat now; None if it can."""
    rest = (*state.obsolete_directories, *state.aborted, *state.invisible)
    if rest:
        return (
            f"{state.location}/{rest[0].text} is not read any more, or not yet; compact and clean"
            " the table first"
        )
    return None


def moves_out(state: AcidState) -> list[Move]:
    """How the files of the live directories of an insert-only table become those of a flat one.

    They are numbered in the order of base and deltas, around what is there. A suffix stays: by it
    text is known as compressed.
    """
    taken = {file.path for file in state.originals}
    moves: list[Move] = []
    number = 0
    for directory in state.live:
        for file in directory.files:
            while (target := f"{_name(number)}{_suffix(file.name)}") in taken:
                number += 1
            taken.add(target)
            moves.append(Move(location=state.location, source=file.path, target=target))
            number += 1
    return moves


def emptied_by(moves: Iterable[Move]) -> list[Move]:
    """How the directories that files are moved out of get hidden names.

    Flat readers would look into them; and what else lies in them is still needed if all of it has
    to be undone.
    """
    places = {(m.location, m.source.partition("/")[0]) for m in moves if "/" in m.source}
    return [
        Move(location=location, source=name, target=staging_directory(f"emptied-{name}"))
        for location, name in sorted(places)
    ]


def moved_to(moves: Iterable[Move]) -> set[tuple[str, str]]:
    """Where files are once they have been moved: location, and path below it."""
    return {(move.location, move.target) for move in moves}


def _name(number: int) -> str:
    return data_file(BucketId(number), TransactionalKind.INSERT_ONLY)


def _suffix(name: str) -> str:
    _, dot, suffix = name.partition(".")
    return f"{dot}{suffix}"


def steps_of(table: TableInfo, to: ConversionTarget, files: int) -> tuple[str, ...]:
    """What is done to make a table this, in order, as sentences for people."""
    verified = "count and hashes of the rows are compared"
    switched = ", ".join(
        f"{name} removed" if value is None else f"{name}={value}"
        for name, value in parameters_of(table, to).items()
    )
    if to is ConversionTarget.FULL_ACID:
        return (
            "everybody else is locked out",
            f"{verified}, as a flat table's and as original files of a full-ACID one",
            f"parameters: {switched}",
            f"{files} files stay where they are; a major compaction makes bucket files of them",
        )
    if table.kind is TransactionalKind.FULL_ACID:
        return (
            "its rows are copied to another table, while others read and write",
            "buckets, constraints, comments of columns and empty partitions are not copied",
            "everybody else is locked out",
            f"{verified}, as the full-ACID table's and as the copy's",
            f"it is called {table.ref}__acid from now on, and the copy gets its name",
            "converted to full_acid again it is what it was, as long as both have the same rows",
        )
    where = "out of base and deltas" if to is ConversionTarget.FLAT else "into one delta"
    return (
        "everybody else is locked out",
        f"{files} files are moved {where}, by renames",
        f"parameters: {switched}",
        f"{verified}; if they differ, all is undone",
    )


def steps_back(kept: TableRef) -> tuple[str, ...]:
    """What is done to put a full-ACID table in its place again that a flat copy has taken."""
    return (
        "everybody else is locked out",
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
    """What became of a table of this kind."""
    before = next(target.value for target, kind in KINDS.items() if kind is table.kind)
    return ConversionOutcome(
        before=before,
        after=to.value,
        done=done,
        steps=tuple(steps),
        rows=rows,
        files_moved=files_moved,
        txn_id=txn_id,
    )

"""Which files of an insert-only table one reader opens.

Takes the directories that a snapshot chose (`AcidState`); gives `PlainFile` values, in the order of
base, deltas, path. What a reader of such a table counts is directories: a file holds rows, without
identity, and all of them count. Must not know rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.table import READS_ORIGINALS
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm
from airflow_hiveacid.storage.stores.locations import client_of, locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import fs as pafs

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import FileEntry
    from airflow_hiveacid.format.table import Column, FileFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFile:
    """One file of rows. A plain value: tasks get it as it is.

    `path` is the file as its store (`client_of`) names it, `key` its path below the table's or
    partition's root, or below `root` (a URI) while it is staged; `length` its size in bytes. `text`
    says how lines of a text file become fields. `columns` are the first of the table's by which it
    is read, the others being NULL; None for all.
    """

    store: str
    path: str
    key: str
    length: int
    format: FileFormat
    text: TextForm = DEFAULT_TEXT
    columns: tuple[Column, ...] | None = None
    root: str | None = None

    @property
    def fs(self) -> pafs.FileSystem:
        """The client of its store, in this process.

        Raises:
            ConfigurationError: it is missing.
        """
        return client_of(self.store)

    def knows(self, name: str) -> bool:
        """Whether a column is not NULL for being younger than the file's partition."""
        return self.columns is None or any(column.name == name for column in self.columns)


def plain_files(
    state: AcidState,
    format_: FileFormat,
    *,
    with_originals: bool,
    text: TextForm = DEFAULT_TEXT,
    columns: tuple[Column, ...] | None = None,
) -> tuple[PlainFile, ...]:
    """The files of one root that a reader reads.

    Args:
        state: what the reader's snapshot chose, of an insert-only table.
        format_: of the files.
        with_originals: see `READS_ORIGINALS`.
        text: how lines become fields, if they are text.
        columns: see `PlainFile`.

    Raises:
        CorruptFileError: there are delete events, which no insert-only table has.
        UnsupportedFileError: rows that this reader sees are in one delta with others; or there are
            files outside of base and delta, and nobody says whether they count.
    """
    for delta in state.deltas:
        if not delta.is_resolved:
            # Of aborted writes there is nothing in it. Compactors of Hive hide such a delta from
            # older snapshots by its visibility suffix.
            raise UnsupportedFileError(
                path=f"{state.location}/{delta.text}",
                reason="it holds rows of writes that this snapshot does not see beside others, and"
                " nothing tells them apart. Read a newer snapshot",
            )
    if state.delete_deltas:
        raise CorruptFileError(
            path=f"{state.location}/{state.delete_deltas[0].text}",
            reason="an insert-only table has no delete events",
        )
    if state.originals and not with_originals:
        # Hive passes over them unless hive.mm.allow.originals is set; Trino reads them.
        raise UnsupportedFileError(
            path=f"{state.location}/{state.originals[0].path}",
            reason="it lies in no base or delta of an insert-only table: Hive leaves such files"
            f" out, Trino reads them. If they are rows, set the table parameter {READS_ORIGINALS}"
            "=true; else move them away",
        )
    store, root = locate(state.location)
    return tuple(
        PlainFile(
            store=store,
            path=f"{root if entry.root is None else locate(entry.root)[1]}/{entry.path}",
            key=entry.path,
            length=entry.size_bytes,
            format=format_,
            text=text,
            columns=columns,
            root=entry.root,
        )
        for entry in _entries(state)
    )


def _entries(state: AcidState) -> Iterator[FileEntry]:
    yield from state.originals
    for directory in state.live:
        yield from directory.files

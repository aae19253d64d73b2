"""Find the visible files of an insert-only table, and check that they can be read or written.

The files of the base come first, then those of deltas, each sorted by path. Rows have no row IDs.
Every reader, writer and compaction calls the checks, so add those of a new format here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import parse_directory_name
from airflow_hiveacid.format.table import (
    READS_ORIGINALS,
    Column,
    FileFormat,
    PartitionInfo,
    Storage,
    TableInfo,
    check_alike,
    check_format,
)
from airflow_hiveacid.storage.acid import read
from airflow_hiveacid.storage.plain.avro_schema import check_avro, check_avro_alike
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm, check_text_writable
from airflow_hiveacid.storage.stores.locations import locate


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFile(read.StoredFile):
    """A file of rows; `text` describes how lines of a text file are split into fields.

    `columns` are the leading columns of the table that the file's partition has; the others are
    NULL. None means all columns.
    """

    format: FileFormat
    text: TextForm = DEFAULT_TEXT
    columns: tuple[Column, ...] | None = None

    @property
    def is_in_directory(self) -> bool:
        """Whether the file lies in a base or delta, where only writers of ACID tables write."""
        return parse_directory_name(self.key.partition("/")[0]) is not None

    def as_acid(
        self, kind: read.FileKind, synthetic: read.SyntheticIdentity | None = None
    ) -> read.AcidFile:
        """Return the description for the reader of ORC files; any write ID fits."""
        return read.AcidFile(
            store=self.store,
            path=self.path,
            key=self.key,
            length=self.length,
            kind=kind,
            bucket_id=BucketId(0),
            synthetic=synthetic,
        )

    def knows(self, name: str) -> bool:
        """Return whether the file's partition has a column; a missing column is NULL."""
        return self.columns is None or any(column.name == name for column in self.columns)


def plain_files(
    state: AcidState,
    format_: FileFormat,
    *,
    with_originals: bool,
    text: TextForm = DEFAULT_TEXT,
    columns: tuple[Column, ...] | None = None,
) -> tuple[PlainFile, ...]:
    """Return the visible files of one root.

    If `with_originals`, files outside of bases and deltas are read (`READS_ORIGINALS`). For `text`
    and `columns`, see `PlainFile`. Raises CorruptFileError for delete events, and
    UnsupportedFileError if a delta is partly visible, a file in a base or delta may be data, or,
    without `with_originals`, a file is outside of them.
    """
    for delta in state.deltas:
        if not delta.is_resolved:
            # A delta with unresolved write IDs contains no rows of aborted writes. If Hive's
            # compactor wrote the delta, its visibility suffix hides it from older snapshots.
            raise UnsupportedFileError(
                path=f"{state.location}/{delta.text}",
                reason="it contains rows that this snapshot must not see, and they cannot be"
                " separated from the visible rows. Read a newer snapshot",
            )
    if state.delete_deltas:
        raise CorruptFileError(
            path=f"{state.location}/{state.delete_deltas[0].text}",
            reason="an insert-only table has no delete events",
        )
    if state.originals and not with_originals:
        # Hive ignores such files, unless hive.mm.allow.originals is set; Trino reads them.
        raise UnsupportedFileError(
            path=f"{state.location}/{state.originals[0].path}",
            reason="it is outside every base and delta of an insert-only table: Hive ignores such"
            " files, Trino reads them. If they hold rows, set the table parameter"
            f" {READS_ORIGINALS}=true; else move them away. If a conversion of the table was"
            " interrupted, convert it again instead",
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
        directory.require_known_files(state.location)
        yield from directory.files


def check_files_readable(
    table: object, storage: Storage, parameters: Mapping[str, str], columns: Sequence[Column]
) -> None:
    """Raise UnsupportedTableError if the format, or the columns' definition, is unsupported."""
    check_format(table, storage, parameters)
    check_avro(table, storage, parameters, columns)


def check_files_writable(
    table: TableInfo, partitions: Sequence[PartitionInfo] = (), *, keeps_text_form: bool = False
) -> None:
    """Raise UnsupportedTableError if Hive would not read the rows that this provider writes.

    The format must be able to store all columns, and `partitions`, to which files may be written,
    must have it. If `keeps_text_form`, files keep their partition's delimiters, as in compactions.
    """
    check_alike(table, partitions)
    check_avro(table.ref, table.storage, table.parameters, table.columns)
    check_avro_alike(table, partitions)
    check_text_writable(table, () if keeps_text_form else partitions)

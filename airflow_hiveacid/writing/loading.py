"""LOAD DATA by any engine: existing files, copied unchanged into a directory of a table.

Files are copied unchanged: readers derive the row IDs of a loaded file from its path (Hive's
OrcRawRecordMerger). Files are numbered in the order of their names, as in Hive (`Hive.copyFiles`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_hiveacid.format.errors import SourceUnreadableError
from airflow_hiveacid.format.ids import MAX_BUCKET_ID, BucketId
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import FileFormat, PartitionName, TableInfo, TransactionalKind
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.compact import PlainCompaction, compact_plain
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.loadable import (
    Each,
    LoadableFile,
    checked_here,
    copy_file,
    loadable_files,
)
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.threads import side_by_side
from airflow_hiveacid.writing.event_files import WritePlan
from airflow_hiveacid.writing.publish import StagedFile

# Loaded files contain plain rows, so they are named as in an insert-only table.
_PLAIN: Final = TransactionalKind.INSERT_ONLY


class Rewriting(NamedTuple):
    """The rows of a file to write to a new file, which states how to read them."""

    file: PlainFile
    table: TableInfo
    options: WriterOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToCopy:
    """A plan to copy one file, as plain values.

    None for `rewriting` copies the file byte by byte.
    """

    number: BucketId
    source: LoadableFile
    partition: PartitionName
    staging: Staging
    directory: str
    format: FileFormat
    rewriting: Rewriting | None = None

    def staged(self, attempt: str, size_bytes: int) -> StagedFile:
        """Return the copy of an attempt."""
        return StagedFile(
            partition=self.partition,
            directory=self.directory,
            bucket=self.number,
            attempt=attempt,
            rows=self.source.rows,
            size_bytes=size_bytes,
            kind=_PLAIN,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgram:
    """A checked LOAD DATA: the files, ordered by name, and their target partition."""

    table: TableInfo
    files: tuple[LoadableFile, ...]
    partition: PartitionName

    @property
    def fixed(self) -> tuple[PartitionName, ...] | None:
        """The partition that the statement names; None in a table without partitions."""
        return (self.partition,) if self.table.is_partitioned else None

    def copies(self, plan: WritePlan) -> list[FileToCopy]:
        """Return the files to copy to staging."""
        return [
            FileToCopy(
                number=BucketId(number),
                source=file,
                partition=self.partition,
                staging=plan.staging(self.partition),
                directory=str(plan.insert_directory),
                format=self.table.storage.format,
            )
            for number, file in enumerate(self.files)
        ]


def checked_load(  # noqa: PLR0913, PLR0917 - both last arguments have defaults
    client: MetastorePort,
    table: TableInfo,
    location: str,
    partition: PartitionName,
    allow: Callable[[int], None] = lambda _: None,
    each: Each = checked_here,
) -> LoadProgram:
    """Check every file of a LOAD DATA, and their number; see `loadable_files`."""
    existing = client.get_partitions(table, [partition]) if table.is_partitioned else ()
    found = next(iter(existing), None)
    files = loadable_files(table, location, client.generation, found, allow=allow, each=each)
    if len(files) > MAX_BUCKET_ID + 1:
        raise SourceUnreadableError(
            source=location,
            reason=f"it contains {len(files)} files, but a table's directory may contain at most"
            f" {MAX_BUCKET_ID + 1}; load them in several statements",
        )
    return LoadProgram(table=table, files=files, partition=partition)


def copied_here(copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
    """Copy files to staging in this process, each with its own bucket number and partition."""
    return tuple(side_by_side(lambda copy: copy.staged(*copied(copy)), copies))


def copied(copy: FileToCopy) -> tuple[str, int]:
    """Copy one file to a path unique to this attempt; return the attempt, and the bytes written."""
    attempt = uuid.uuid4().hex
    if copy.rewriting is not None:
        file, table, options = copy.rewriting
        work = PlainCompaction(
            table=table.ref,
            files=(file,),
            columns=table.columns,
            format=copy.format,
            number=copy.number,
            directory=copy.directory,
            staging=copy.staging,
            options=options,
        )
        return attempt, compact_plain(work, attempt).size_bytes
    uri = copy.staging.attempt_path(copy.directory, data_file(copy.number, _PLAIN), attempt)
    copy_file(copy.source, uri, copy.format)
    return attempt, copy.source.length

"""Merge several files of an insert-only table into one file; the rows keep their order.

If a value cannot be stored unchanged, the compaction fails.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from airflow_hiveacid.format.directories import combined
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import Column, FileFormat, TableRef, TransactionalKind
from airflow_hiveacid.storage.acid.write.bucket_merge import CompactedFile
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_footer import TimestampStorage, read_facts
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.stream_writer import WrittenRows
from airflow_hiveacid.storage.plain.write import check_values, rows_writer
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.values.column_types import types_from
from airflow_hiveacid.storage.values.timestamps import TimestampForm

_R = TypeVar("_R")

# All timestamps of a Parquet file have the same unit. Spark's unit (microseconds) has a longer
# range; Hive's unit (nanoseconds) is finer.
_FORMS: Final = {
    FileFormat.ORC: (TimestampForm.PAIR,),
    FileFormat.AVRO: (TimestampForm.PAIR,),
    FileFormat.TEXT: (TimestampForm.PAIR,),
    FileFormat.PARQUET: (TimestampForm.MICROSECONDS, TimestampForm.NANOSECONDS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCompaction:
    """One file to write, as a plain value; `number` is the file's number in its directory."""

    table: TableRef
    files: tuple[PlainFile, ...]
    columns: tuple[Column, ...]
    format: FileFormat
    number: BucketId
    directory: str
    staging: Staging
    options: WriterOptions


def put_together(files: Sequence[PlainFile]) -> list[tuple[PlainFile, ...]]:
    """Group consecutive files as `format.directories.combined` numbers them.

    Example:
        >>> put_together([])
        []
    """
    numbered = zip(files, combined([file.length for file in files]), strict=True)
    groups = itertools.groupby(numbered, key=lambda pair: pair[1])
    return [tuple(file for file, _ in group) for _, group in groups]


def compact_plain(work: PlainCompaction, attempt: str) -> WrittenRows:
    """Write the merged file for one attempt of a task, unless a value cannot stay unchanged."""
    for file in work.files:
        require_compactable(file)
    return _in_a_form(work.format, partial(_written, work, attempt))


def compactable_form(
    file: PlainFile,
    columns: Sequence[Column],
    *,
    table: object,
    form: TimestampForm | None = None,
) -> TimestampForm:
    """Read a file to its end; return the first form in which `compact_plain` can write its rows.

    With `form`, try only this one. Raises the error with which the compaction would fail.
    """
    require_compactable(file)
    nodes = types_from(columns, 1)

    def read(form: TimestampForm) -> TimestampForm:
        for batch in read_rows(file, columns, timestamps=form):
            check_values(file.format, batch.to_struct_array(), nodes, table=table)
        return form

    return _in_a_form(file.format, read) if form is None else read(form)


def _in_a_form(format_: FileFormat, act: Callable[[TimestampForm], _R]) -> _R:
    *first_forms, last = _FORMS[format_]
    for form in first_forms:
        try:
            return act(form)
        except UnsupportedFileError:
            continue  # if the failure had a different reason, the next form also fails
    return act(last)


def compacted_plain(work: PlainCompaction) -> CompactedFile:
    """Combine some files of an insert-only table, as one task."""
    attempt = uuid.uuid4().hex
    written = compact_plain(work, attempt)
    return CompactedFile(
        directory=work.directory,
        bucket_id=work.number,
        attempt=attempt,
        rows=written.rows,
        size_bytes=written.size_bytes,
    )


def require_compactable(file: PlainFile) -> None:
    """Refuse a file with instants of 64 bits, which Hive shows in its own time zone."""
    if file.format is FileFormat.PARQUET and read_facts(file).clock is TimestampStorage.UTC:
        raise UnsupportedFileError(
            path=file.path,
            reason="its timestamps are instants (isAdjustedToUTC), which each Hive shows in its"
            " own time zone. Rewrite the table or partition in Hive: INSERT OVERWRITE with its"
            " own rows",
        )


def _written(work: PlainCompaction, attempt: str, form: TimestampForm) -> WrittenRows:
    name = data_file(work.number, TransactionalKind.INSERT_ONLY)
    fs, path = open_location(work.staging.attempt_path(work.directory, name, attempt))
    text = work.files[0].text  # all files belong to one partition
    with rows_writer(
        work.format, fs, path, work.columns, work.options, work.table, timestamps=form, text=text
    ) as writer:
        for file in work.files:
            for batch in read_rows(file, work.columns, timestamps=form):
                writer.write(batch.to_struct_array())
        return writer.close()

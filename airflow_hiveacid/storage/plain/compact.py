"""How several files of an insert-only table become one: their rows, in their order.

Takes files and a place; gives one staged file. Rows are read and written again, a batch at a time:
they have no identity to keep, but each value has to be what it was, so what cannot be stored again
as it is ends the compaction.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.names import data_file
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from airflow_hiveacid.format.ids import BucketId
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.orc.encoders import WriterOptions
    from airflow_hiveacid.storage.plain.files import PlainFile
    from airflow_hiveacid.storage.plain.written import WrittenRows
    from airflow_hiveacid.storage.stores.staging import Staging

_FILE_BYTES: Final = 256 << 20
# Parquet has one unit in a file: that of Spark, which reaches far, or that of Hive, which is fine.
_FORMS: Final = {
    FileFormat.ORC: (TimestampForm.PAIR,),
    FileFormat.AVRO: (TimestampForm.PAIR,),
    FileFormat.TEXT: (TimestampForm.PAIR,),
    FileFormat.PARQUET: (TimestampForm.MICROSECONDS, TimestampForm.NANOSECONDS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCompaction:
    """One file to be made, number `number` of a directory; plain values."""

    files: tuple[PlainFile, ...]
    columns: tuple[Column, ...]
    format: FileFormat
    number: BucketId
    directory: str
    staging: Staging
    options: WriterOptions


def put_together(files: Sequence[PlainFile]) -> list[tuple[PlainFile, ...]]:
    """Which files become one: neighbours, until it is large.

    Example:
        >>> put_together([])
        []
    """
    ends = itertools.accumulate(file.length for file in files)
    numbered = zip(files, ends, strict=True)
    groups = itertools.groupby(numbered, key=lambda one: (one[1] - one[0].length) // _FILE_BYTES)
    return [tuple(file for file, _ in group) for _, group in groups]


def compact_plain(work: PlainCompaction, attempt: str) -> WrittenRows:
    """Make the file, as this attempt of a task.

    Raises:
        UnsupportedFileError, TypeMismatchError: a value cannot be told, or cannot be stored again.
        HiveAcidError: as `rows.read_rows` and `write.rows_writer`.
    """
    *others, last = _FORMS[work.format]
    for form in others:
        try:
            return _written(work, attempt, form)
        except UnsupportedFileError:
            continue  # the next form says whether it was for this one's sake
    return _written(work, attempt, last)


def _written(work: PlainCompaction, attempt: str, form: TimestampForm) -> WrittenRows:
    name = data_file(work.number, TransactionalKind.INSERT_ONLY)
    fs, path = open_location(work.staging.attempt_path(work.directory, name, attempt))
    text = work.files[0].text  # they are of one partition
    with rows_writer(
        work.format, fs, path, work.columns, work.options, timestamps=form, text=text
    ) as writer:
        for batch in _rows(work, form):
            writer.write(batch.to_struct_array())
        return writer.close()


def _rows(work: PlainCompaction, form: TimestampForm) -> Iterator[pa.RecordBatch]:
    for file in work.files:
        yield from read_rows(file, work.columns, timestamps=form)

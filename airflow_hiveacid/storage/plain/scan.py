"""The rows of one directory of an insert-only table under one snapshot, without a metastore.

Takes a location, the table's columns and the two lists of a snapshot; gives batches: base first,
then deltas in Hive's order, each file from its start. One file is open at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.storage.plain.files import plain_files
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import Column, FileFormat


def scan_plain(  # noqa: PLR0913 - a snapshot is two lists, and everything after them has its default
    location: str,
    columns: Sequence[Column],
    format_: FileFormat,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None = None,
    *,
    with_originals: bool = False,
    text: TextForm = DEFAULT_TEXT,
    own: tuple[Column, ...] | None = None,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.UNAMBIGUOUS,
    state: AcidState | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the live rows of one directory.

    Args:
        location: the directory of an unpartitioned table, or of one partition.
        columns: its data columns; partition columns are not in the files.
        format_: of the files.
        write_ids: which writes the reader sees.
        txns: which compactions it sees; None for all.
        with_originals: whether files outside of base and delta count.
        text: how lines become fields, if they are text.
        own: see `PlainFile.columns`.
        timestamps: the form of timestamp columns.
        matching: how columns are found in ORC files.
        state: the files of a past version; by default those that the lists choose.

    Raises:
        HiveAcidError: as `files.plain_files` and `rows.read_rows`, or listing failed.
    """
    if state is None:
        state = resolve(list_table(location), write_ids, txns, TransactionalKind.INSERT_ONLY)
    files = plain_files(state, format_, with_originals=with_originals, text=text, columns=own)
    for file in files:
        yield from read_rows(file, columns, timestamps=timestamps, matching=matching)

"""Read the rows of one root of an insert-only table in one snapshot, without a metastore.

Input is a location, the table's columns, and the write ID list and transaction list of a snapshot.
Output is batches: first of the base, then of the deltas in Hive's order. Only one file is open at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import AcidState, resolve
from airflow_hiveacid.format.table import Column, FileFormat, TransactionalKind
from airflow_hiveacid.storage.plain.files import plain_files
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm


def scan_plain(  # noqa: PLR0913 - a snapshot is two lists, and all later arguments have defaults
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
    """Read the visible rows of one root.

    For `own`, see `PlainFile.columns`; for other arguments, see `scan` and `plain_files`.
    """
    if state is None:
        state = resolve(list_table(location), write_ids, txns, TransactionalKind.INSERT_ONLY)
    files = plain_files(state, format_, with_originals=with_originals, text=text, columns=own)
    for file in files:
        yield from read_rows(file, columns, timestamps=timestamps, matching=matching)

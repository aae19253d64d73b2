"""Read the rows of one table or partition directory in one snapshot, without a metastore.

Only one batch of each open file is in memory. A file is opened when the output reaches its first
identity.

Example:
    for batch in scan("file:/warehouse/t", columns, write_ids):
        print(batch.to_pylist())
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS, ROW, merge
from airflow_hiveacid.storage.acid.read import AcidFile, reader
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.orc.view import DEFAULT_BATCH_ROWS
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.nested import batch_of
from airflow_hiveacid.storage.values.timestamps import TimestampForm

IDENTITY: Final = "row__id"
"""The name of the first column if row identities are requested; Hive uses the same name."""

IDENTITY_TYPE: Final = pa.struct(
    [("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())]
)
"""The original write ID, the bucket property and the row ID, named as in Hive's ROW__ID."""


def scan(  # noqa: PLR0913 - a snapshot is two lists, and all later arguments have defaults
    location: str,
    columns: Sequence[Column],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None = None,
    *,
    data_columns: Sequence[str] | None = None,
    with_identity: bool = False,
    buckets: Collection[BucketId] | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
    matching: Matching = Matching.NAME,
    state: AcidState | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the live rows of one table or partition directory.

    `columns` are the table's data columns; `data_columns` are those to return, in this order. If
    `with_identity`, `row__id` is the first column. `txns` are the transactions whose compactions
    are visible. For `txns`, `data_columns` and `buckets`, None means all. `state` has the files of
    a past version; by default, `write_ids` and `txns` select the files. Batches are not empty, and
    in ascending order of identity within and across batches. For errors, see `resolve`.
    """
    if state is None:
        state = resolve(list_table(location), write_ids, txns)
    selection = reader.chosen_columns(columns, data_columns)
    schema = scan_schema(selection, with_identity=with_identity, timestamps=timestamps)
    chosen = [
        b for b in bucket_files(state, write_ids) if buckets is None or b.bucket_id in buckets
    ]
    inserts = [file for bucket in chosen for file in bucket.inserts]
    deletes = {file.path: file for bucket in chosen for file in bucket.deletes}
    read = functools.partial(
        reader.read_events,
        columns=columns,
        data_columns=data_columns,
        batch_rows=batch_rows,
        timestamps=timestamps,
        matching=matching,
    )
    read_deletes = functools.partial(reader.read_identity, batch_rows=batch_rows)
    for batch in live_in(inserts, list(deletes.values()), write_ids, read, read_deletes):
        yield _output(batch, schema, with_identity=with_identity)


def scan_schema(
    columns: Sequence[Column],
    *,
    with_identity: bool = False,
    timestamps: TimestampForm = TimestampForm.NANOSECONDS,
) -> pa.Schema:
    """Return the schema of the batches that `scan` yields for these columns."""
    row = list(reader.read_schema(columns, timestamps).field(ROW).type)
    return pa.schema([pa.field(IDENTITY, IDENTITY_TYPE), *row] if with_identity else row)


def _output(batch: pa.RecordBatch, schema: pa.Schema, *, with_identity: bool) -> pa.RecordBatch:
    # Flatten the struct once, because extracting one field costs as much as extracting all fields.
    columns = batch.column(ROW).flatten()
    if with_identity:
        parts = [batch.column(name) for name in IDENTITY_COLUMNS]
        columns.insert(0, pa.StructArray.from_arrays(parts, fields=list(IDENTITY_TYPE)))
    return batch_of(columns, schema, batch.num_rows)


ReadFile = Callable[[AcidFile], merge.Batches]


def visible_in(
    files: Sequence[AcidFile], write_ids: ValidWriteIdList, read: ReadFile = reader.read_identity
) -> merge.Batches:
    """Return the merged visible events of the files; a file is opened when the merge reaches it."""
    streams = [merge.visible_events(read(file), write_ids) for file in files]
    return merge.merge_sorted(streams, [file.least_key for file in files])


def live_in(
    inserts: Sequence[AcidFile],
    deletes: Sequence[AcidFile],
    write_ids: ValidWriteIdList,
    read: ReadFile,
    read_deletes: ReadFile = reader.read_identity,
) -> merge.Batches:
    """Return the visible inserts without a visible delete event; `deletes` may lack `row`."""
    return merge.subtract_deletes(
        visible_in(inserts, write_ids, read), visible_in(deletes, write_ids, read_deletes)
    )

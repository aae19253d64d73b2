"""What an ACID event is: a row or its deletion under an identity; how events are made and checked.

Takes rows, or identities of rows; gives record batches of the ACID schema, and refuses batches that
no file may hold. Must not know files.

Example:
    >>> rows = pa.record_batch({"id": pa.array([7, 8])})
    >>> events = insert_events(rows, WriteId(3), BucketProperty(536870912), RowId(0))
    >>> events["rowId"].to_pylist()
    [0, 1]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.bucket_codec import decode
from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.acid.row_schema import (
    BUCKET_PROPERTY,
    CURRENT_WRITE_ID,
    IDENTITY_COLUMNS,
    IDENTITY_SCHEMA,
    OPERATION,
    ORIGINAL_WRITE_ID,
    ROW,
    Operation,
    RecordIdentifier,
    root_schema,
)
from airflow_hiveacid.storage.values.column_types import row_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import Column


def insert_events(
    rows: pa.RecordBatch | pa.StructArray,
    write_id: WriteId,
    bucket_property: BucketProperty,
    first_row_id: RowId,
) -> pa.RecordBatch:
    """Insert events for these rows, with row IDs counting up from `first_row_id`.

    Row IDs restart at 0 for every file and write ID (OrcRecordUpdater); the caller counts on over
    the batches of one file. Rows come out in the order they went in.
    """
    count = rows.num_rows if isinstance(rows, pa.RecordBatch) else len(rows)
    row = rows.to_struct_array() if isinstance(rows, pa.RecordBatch) else rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(int(Operation.INSERT), pa.int32()), count),
            pa.repeat(pa.scalar(write_id, pa.int64()), count),
            pa.repeat(pa.scalar(bucket_property, pa.int32()), count),
            pa.array(np.arange(first_row_id, first_row_id + count, dtype=np.int64)),
            pa.repeat(pa.scalar(write_id, pa.int64()), count),
            row,
        ],
        schema=root_schema(row.type),
    )


def delete_events(
    identity: pa.RecordBatch, write_id: WriteId, columns: Sequence[Column]
) -> pa.RecordBatch:
    """Delete events of the transaction `write_id` for the rows with these identities.

    Args:
        identity: The columns `IDENTITY_COLUMNS`, perhaps among others; the order stays as it is,
        and
            a file wants it ascending.
        write_id: Of the deleting transaction.
        columns: The table's columns, whose type the (NULL) row has.

    Raises:
        InvalidNameError: a type text is no Hive type.
        UnsupportedTableError: a column is or holds a union.
    """
    row = row_type(columns)
    count = identity.num_rows
    original, bucket, row_id = (identity.column(name) for name in IDENTITY_COLUMNS)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(int(Operation.DELETE), pa.int32()), count),
            original,
            bucket,
            row_id,
            pa.repeat(pa.scalar(write_id, pa.int64()), count),
            pa.nulls(count, row),
        ],
        schema=root_schema(row),
    )


def identity_at(events: pa.RecordBatch, index: int) -> RecordIdentifier:
    """The identity of one event; a negative index counts from the end."""
    original, bucket, row_id = (events.column(name)[index].as_py() for name in IDENTITY_COLUMNS)
    return RecordIdentifier(WriteId(original), BucketProperty(bucket), RowId(row_id))


class EventCheck:
    """Sees batch by batch that the events may stand in one file; keeps the last identity in mind.

    Every batch costs a few passes over its five integer columns. What is refused would be read as
    lost or resurrected rows: readers merge files and search delete events by this order
    (RecordIdentifier.compareTo, VectorizedOrcAcidRowBatchReader of Hive), and Hive 4 fails when a
    file holds another bucket's rows.
    """

    def __init__(self, path: str, bucket_id: BucketId, *, is_delete: bool) -> None:
        self._path = path
        self._bucket_id = bucket_id
        self._operation = Operation.DELETE if is_delete else Operation.INSERT
        self._last: Key | None = None

    def check(self, events: pa.RecordBatch) -> None:
        """Accept a batch that is not empty.

        Raises:
            CorruptFileError: the file would not be one that readers understand; says why.
        """
        for name in IDENTITY_SCHEMA.names:
            if events.column(name).null_count:
                raise self._refused(f"column {name} holds NULL")
        self._check_operation(events)
        self._check_bucket(_numbers(events, BUCKET_PROPERTY))
        self._check_order(Keys.of(events))

    def _check_operation(self, events: pa.RecordBatch) -> None:
        found = _numbers(events, OPERATION)
        if not np.all(found == self._operation):
            raise self._refused(f"it holds other events than {self._operation.name}")
        rows = events.column(ROW)
        if self._operation is Operation.DELETE:
            if rows.null_count != len(rows):
                raise self._refused("a delete event holds a row")
        elif rows.null_count:
            raise self._refused("an insert event holds no row")
        elif not pc.all(
            pc.equal(events.column(ORIGINAL_WRITE_ID), events.column(CURRENT_WRITE_ID))
        ).as_py():
            raise self._refused("an insert event has an original write ID that is not its own")

    def _check_bucket(self, properties: npt.NDArray[np.signedinteger]) -> None:
        first = properties[0]
        distinct = [first] if np.all(properties == first) else np.unique(properties)
        for found in distinct:
            try:
                bucket_id = decode(BucketProperty(int(found))).bucket_id
            except InvalidNameError as error:
                raise self._refused(str(error)) from error
            if bucket_id != self._bucket_id:
                raise self._refused(f"an event belongs to bucket {bucket_id} (property {found})")

    def _check_order(self, keys: Keys) -> None:
        at = keys.first_out_of_order(strictly=True)
        if at is not None:
            self._refuse_order(keys.at(at - 1), keys.at(at))
        self.pass_over(keys.at(0), keys.at(-1))

    def pass_over(self, first: Key, last: Key) -> None:
        """Accept events between these two, which have been checked elsewhere.

        Raises:
            CorruptFileError: they do not rise above all before.
        """
        if self._last is not None and first <= self._last:
            self._refuse_order(self._last, first)
        self._last = last

    def _refuse_order(self, before: Key, after: Key) -> None:
        raise self._refused(
            f"identities do not rise: {after} came after {before}"
            " (original write ID, bucket property, row ID)"
        )

    def _refused(self, reason: str) -> CorruptFileError:
        return CorruptFileError(path=self._path, reason=reason)


def _numbers(events: pa.RecordBatch, name: str) -> npt.NDArray[np.signedinteger]:
    numbers: npt.NDArray[np.signedinteger] = events.column(name).to_numpy()
    return numbers

"""Create and check ACID events; each event inserts or deletes one row.

The module refuses batches that an ACID file must not contain.

Example:
    >>> rows = pa.record_batch({"id": pa.array([7, 8])})
    >>> events = insert_events(rows, WriteId(3), BucketProperty(536870912), RowId(0))
    >>> events["rowId"].to_pylist()
    [0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId, decode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.values.column_types import row_type


def insert_events(
    rows: pa.RecordBatch | pa.StructArray,
    write_id: WriteId,
    bucket_property: BucketProperty,
    first_row_id: RowId,
) -> pa.RecordBatch:
    """Return insert events for rows, with row IDs that count up from `first_row_id`.

    Row IDs restart at 0 for every file and write ID (as in Hive's OrcRecordUpdater). The caller
    must continue the count over all batches of a file. The events have the order of the rows.
    """
    row = rows.to_struct_array() if isinstance(rows, pa.RecordBatch) else rows
    row_ids = np.arange(first_row_id, first_row_id + len(row), dtype=np.int64)
    return pa.RecordBatch.from_arrays(
        [*insert_columns(write_id, bucket_property, row_ids), row],
        schema=acid.root_schema(row.type),
    )


def insert_columns(
    write_id: WriteId, bucket_property: BucketProperty, row_ids: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """Return the root columns without `row` (`IDENTITY_SCHEMA`) of inserts with these row IDs."""
    count = len(row_ids)
    return [
        pa.repeat(pa.scalar(int(acid.Operation.INSERT), pa.int32()), count),
        pa.repeat(pa.scalar(write_id, pa.int64()), count),
        pa.repeat(pa.scalar(bucket_property, pa.int32()), count),
        pa.array(row_ids),
        pa.repeat(pa.scalar(write_id, pa.int64()), count),
    ]


def delete_events(
    identity: pa.RecordBatch, write_id: WriteId, columns: Sequence[Column]
) -> pa.RecordBatch:
    """Return a delete event with current write ID `write_id` for each of these identities.

    `identity` has `IDENTITY_COLUMNS`; the events keep its order, and a file needs ascending
    identities. The column `row` has the type of `columns`, and its values are NULL.
    """
    row = row_type(columns)
    count = identity.num_rows
    original, bucket, row_id = (identity.column(name) for name in acid.IDENTITY_COLUMNS)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(int(acid.Operation.DELETE), pa.int32()), count),
            original,
            bucket,
            row_id,
            pa.repeat(pa.scalar(write_id, pa.int64()), count),
            pa.nulls(count, row),
        ],
        schema=acid.root_schema(row),
    )


def identity_at(events: pa.RecordBatch, index: int) -> acid.RecordIdentifier:
    """Return the identity of one event; a negative index counts from the end."""
    original, bucket, row_id = (
        events.column(name)[index].as_py() for name in acid.IDENTITY_COLUMNS
    )
    return acid.RecordIdentifier(WriteId(original), BucketProperty(bucket), RowId(row_id))


class EventCheck:
    """Checks whether batches of events form a valid file.

    Readers merge and search in identity order (RecordIdentifier.compareTo,
    VectorizedOrcAcidRowBatchReader), and Hive 4 fails on a row that does not belong to the file's
    bucket.
    """

    def __init__(self, path: str, bucket_id: BucketId, *, is_delete: bool) -> None:
        self._path = path
        self._bucket_id = bucket_id
        self._operation = acid.Operation.DELETE if is_delete else acid.Operation.INSERT
        self._last: Key | None = None

    def check(self, events: pa.RecordBatch) -> None:
        """Check the next batch of the file, which is not empty, or raise CorruptFileError."""
        for name in acid.IDENTITY_SCHEMA.names:
            if events.column(name).null_count:
                raise self._refused(f"column {name} holds NULL")
        self._check_operation(events)
        self._check_bucket(_numbers(events, acid.BUCKET_PROPERTY))
        self._check_order(Keys.of(events))

    def _check_operation(self, events: pa.RecordBatch) -> None:
        operations = _numbers(events, acid.OPERATION)
        if not np.all(operations == self._operation):
            raise self._refused(f"it contains events other than {self._operation.name}")
        rows = events.column(acid.ROW)
        if self._operation is acid.Operation.DELETE:
            if rows.null_count != len(rows):
                raise self._refused("a delete event holds a row")
        elif rows.null_count:
            raise self._refused("an insert event holds no row")
        elif not pc.all(
            pc.equal(
                events.column(acid.ORIGINAL_WRITE_ID),
                events.column(acid.CURRENT_WRITE_ID),
            )
        ).as_py():
            raise self._refused("the original and current write IDs of an insert event differ")

    def _check_bucket(self, properties: npt.NDArray[np.signedinteger]) -> None:
        first = properties[0]
        distinct = [first] if np.all(properties == first) else np.unique(properties)
        for bucket_property in distinct:
            try:
                bucket_id = decode(BucketProperty(int(bucket_property))).bucket_id
            except InvalidNameError as error:
                raise self._refused(str(error)) from error
            if bucket_id != self._bucket_id:
                raise self._refused(
                    f"an event belongs to bucket {bucket_id} (property {bucket_property})"
                )

    def _check_order(self, keys: Keys) -> None:
        index = keys.first_out_of_order(strictly=True)
        if index is not None:
            self._refuse_order(keys.at(index - 1), keys.at(index))
        self.pass_over(keys.at(0), keys.at(-1))

    def pass_over(self, first: Key, last: Key) -> None:
        """Check only that these events follow the earlier ones, or raise CorruptFileError."""
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

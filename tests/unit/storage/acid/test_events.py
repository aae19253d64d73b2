from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import acid_schema
from airflow_hiveacid.storage.acid.events import (
    EventCheck,
    delete_events,
    identity_at,
    insert_events,
)

COLUMNS = (Column(name="id", type="bigint"), Column(name="a", type="array<int>"))
B3 = encode(BucketId(3))
ROWS = pa.record_batch(
    {"id": pa.array([7, 8, 9], pa.int64()), "a": pa.array([[1], None, []], pa.list_(pa.int32()))}
)


def test_insert_events_number_rows_upwards_from_the_first_row_id() -> None:
    events = insert_events(ROWS, WriteId(4), B3, RowId(10))
    assert events.schema.equals(acid_schema(COLUMNS))
    assert events["operation"].to_pylist() == [0, 0, 0]
    assert events["originalTransaction"].to_pylist() == [4, 4, 4]
    assert events["currentTransaction"].to_pylist() == [4, 4, 4]
    assert events["bucket"].to_pylist() == [B3, B3, B3]
    assert events["rowId"].to_pylist() == [10, 11, 12]
    assert events["row"].to_pylist() == ROWS.to_pylist()
    assert identity_at(events, -1) == (4, B3, 12)


def test_insert_events_accept_a_batch_a_struct_array_or_a_slice() -> None:
    whole = insert_events(ROWS, WriteId(4), B3, RowId(0))
    assert insert_events(ROWS.to_struct_array(), WriteId(4), B3, RowId(0)).equals(whole)
    part = insert_events(ROWS.slice(1), WriteId(4), B3, RowId(1))
    assert part.equals(whole.slice(1))
    assert insert_events(ROWS.slice(3), WriteId(4), B3, RowId(3)).num_rows == 0


def test_delete_events_copy_the_identity_and_omit_the_row() -> None:
    found = insert_events(ROWS, WriteId(4), B3, RowId(0))
    events = delete_events(found.slice(1), WriteId(6), COLUMNS)
    assert events.schema.equals(acid_schema(COLUMNS))
    assert events["operation"].to_pylist() == [2, 2]
    assert events["originalTransaction"].to_pylist() == [4, 4]
    assert events["rowId"].to_pylist() == [1, 2]
    assert events["currentTransaction"].to_pylist() == [6, 6]
    assert events["row"].null_count == 2


def test_events_are_ordered_by_write_id_then_bucket_property_then_row_id() -> None:
    check = EventCheck("f", BucketId(3), is_delete=False)
    rising = [(1, B3, 5), (1, B3 + 1, 0), (1, B3 + 1, 1), (2, B3, 0), (2**40, B3, 2**40)]
    for write_id, bucket, row_id in rising:
        check.check(insert_events(ROWS.slice(2), WriteId(write_id), bucket, RowId(row_id)))
    with pytest.raises(CorruptFileError, match="identities do not rise"):
        check.check(insert_events(ROWS.slice(2), WriteId(2**40), B3, RowId(2**40)))

"""Old versions of rows are fetched by identity, from the stripes that hold them and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, SyntheticIdentity, old_rows
from airflow_hiveacid.storage.acid.read.old_rows import OldRows
from airflow_hiveacid.storage.orc.encoders import PIECE_ROWS, WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.stores import locations
from tests.unit.storage.counting import counting
from tests.unit.storage.orc_tables import acid_file, write_plain
from tests.unit.storage.writing import write_events

COLUMNS = [Column(name="v", type="bigint")]
B0 = encode(BucketId(0))
STRIPES = 5
SMALL_STRIPES = WriterOptions(compression="none", stripe_size_bytes=1)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The stripes that every opening of a file asks for."""
    asked: list[list[int]] = []
    read = old_rows.read_events

    def watched(*args: Any, stripes: Sequence[int], **kwargs: Any) -> Any:  # noqa: ANN401
        asked.append(list(stripes))
        return read(*args, stripes=stripes, **kwargs)

    monkeypatch.setattr(old_rows, "read_events", watched)
    return asked


@pytest.fixture
def file(tmp_path: Path) -> AcidFile:
    """Row IDs from 0 in stripes of `PIECE_ROWS`; the value is ten times the row ID."""
    path = str(tmp_path / "bucket_00000")
    rows = pa.record_batch({"v": pa.array(range(0, 10 * PIECE_ROWS * STRIPES, 10), pa.int64())})
    events = insert_events(rows, WriteId(1), B0, RowId(0))
    written = write_events(path, COLUMNS, events, options=SMALL_STRIPES)
    assert written.stripes == STRIPES
    return acid_file(path)


def fetched(cursor: OldRows, *row_ids: int, write_id: int = 1) -> list[int]:
    size = len(row_ids)
    rows = pa.record_batch(
        {
            "_file": ["f"] * size,
            "originalTransaction": pa.array([write_id] * size, pa.int64()),
            "bucket": pa.array([B0] * size, pa.int32()),
            "rowId": pa.array(row_ids, pa.int64()),
        }
    )
    values: list[int] = cursor.fetch(rows)["v"].to_pylist()
    return values


def test_only_the_stripe_of_the_requested_row_is_decoded(
    file: AcidFile, decoded: list[list[int]]
) -> None:
    last = PIECE_ROWS * STRIPES - 1
    assert fetched(OldRows({"f": file}, COLUMNS, ["v"]), last) == [10 * last]
    assert decoded == [[STRIPES - 1]]


def test_each_stripe_is_decoded_only_once_for_many_fetches(
    file: AcidFile, decoded: list[list[int]]
) -> None:
    cursor = OldRows({"f": file}, COLUMNS, ["v"])
    assert fetched(cursor, 0, 7, 3 * PIECE_ROWS) == [0, 70, 30 * PIECE_ROWS]
    for row in (3 * PIECE_ROWS + 1, 3 * PIECE_ROWS + 5, 4 * PIECE_ROWS, 4 * PIECE_ROWS + 1):
        assert fetched(cursor, row) == [10 * row]
    assert decoded == [[0], [3], [4]]


def test_a_stripe_of_two_write_ids_hides_no_stripe_from_a_later_fetch(tmp_path: Path) -> None:
    path = str(tmp_path / "bucket_00000")
    size = 2 * PIECE_ROWS + PIECE_ROWS // 2  # so the third stripe has the end of one write
    rows = pa.record_batch({"v": pa.array(range(0, 10 * size, 10), pa.int64())})
    events = [insert_events(rows, WriteId(write_id), B0, RowId(0)) for write_id in (1, 2)]
    write_events(path, COLUMNS, pa.concat_batches(events), options=SMALL_STRIPES)
    cursor = OldRows({"f": acid_file(path)}, COLUMNS, ["v"])
    for row in (5, PIECE_ROWS + 3, 2 * PIECE_ROWS + 1):
        assert fetched(cursor, row) == [10 * row]
    assert fetched(cursor, 7, write_id=2) == [70]


def test_rows_are_found_in_a_file_without_stripe_statistics(
    file: AcidFile, decoded: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OrcTail, "integer_range", lambda *_: None)
    assert fetched(OldRows({"f": file}, COLUMNS, ["v"]), 5, 4 * PIECE_ROWS) == [
        50,
        40 * PIECE_ROWS,
    ]
    assert decoded == [[0], [1], [2], [3], [4]]


def test_rows_of_an_original_file_are_found_by_their_position(
    tmp_path: Path, decoded: list[list[int]]
) -> None:
    row = pa.struct([("v", pa.int64())])
    stripes = [[{"v": 10 * s + i} for i in range(3)] for s in range(4)]
    path = write_plain(tmp_path / "000000_0_copy_1", *stripes, row=row)
    original = acid_file(
        path,
        FileKind.ORIGINAL,
        synthetic=SyntheticIdentity(
            write_id=WriteId(0), bucket_property=B0, first_row_id=RowId(100)
        ),
    )
    cursor = OldRows({"f": original}, COLUMNS, ["v"])
    assert fetched(cursor, 104, 105, 111, write_id=0) == [11, 12, 32]
    assert decoded == [[1], [3]]


@pytest.mark.parametrize("row", [-1, PIECE_ROWS * STRIPES])
def test_a_missing_row_raises_an_error(file: AcidFile, row: int) -> None:
    with pytest.raises(CorruptFileError, match=r"the file lacks"):
        fetched(OldRows({"f": file}, COLUMNS, ["v"]), row)
    with pytest.raises(CorruptFileError, match=r"the file lacks"):
        fetched(OldRows({"f": file}, COLUMNS, ["v"]), 0, write_id=2)


def test_the_tail_of_a_file_is_read_once_however_often_its_rows_are_fetched(
    file: AcidFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, asked = counting()
    monkeypatch.setattr(locations, "_local", lambda: fs)
    cursor = OldRows({"f": file}, COLUMNS, ["v"])
    wanted = [3, 2 * PIECE_ROWS + 1, 4 * PIECE_ROWS + 5]
    assert [fetched(cursor, row_id) for row_id in wanted] == [[10 * row_id] for row_id in wanted]
    assert len(asked.opened) == 1  # a small file: its stripes came with its end

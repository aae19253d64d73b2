from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.values.convert import Matching
from tests.unit.storage.orc_tables import acid_file
from tests.unit.storage.writing import write_events

WRITTEN = (Column(name="id", type="int"), Column(name="old", type="int"))


@pytest.fixture
def file(tmp_path: Path) -> AcidFile:
    path = tmp_path / "delta_0000001_0000001_0000" / "bucket_00000"
    rows = pa.record_batch({"id": pa.array([1], pa.int32()), "old": pa.array([2], pa.int32())})
    events = insert_events(rows, WriteId(1), encode(BucketId(0)), RowId(0))
    write_events(path, WRITTEN, events)
    return acid_file(path)


def rows(file: AcidFile, names: list[str]) -> list[object]:
    columns = [Column(name=n, type="int") for n in names]
    batches = read_events(file, columns, matching=Matching.UNAMBIGUOUS)
    return [e["row"] for batch in batches for e in batch.to_pylist()]


def test_a_column_that_may_have_been_renamed_is_refused(file: AcidFile) -> None:
    with pytest.raises(UnsupportedFileError, match="has the columns old and lacks new"):
        rows(file, ["id", "new"])


def test_added_and_dropped_columns_are_accepted(file: AcidFile) -> None:
    assert rows(file, ["id", "old", "added"]) == [{"id": 1, "old": 2, "added": None}]
    assert rows(file, ["id"]) == [{"id": 1}]
    assert rows(file, ["old"]) == [{"old": 2}]


@pytest.mark.promise("R15")
@pytest.mark.parametrize("names", [["old", "id"], ["id", "added", "old"], ["added", "old"]])
def test_columns_that_hive_4_would_read_from_other_positions_are_refused(
    file: AcidFile, names: list[str]
) -> None:
    with pytest.raises(UnsupportedFileError, match="read different values"):
        rows(file, names)

"""Scanning one directory: base, deltas and delete deltas under a snapshot, sorted, and lazily."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    DanglingDeleteError,
    LocationNotFoundError,
    NotEnoughHistoryError,
    UnknownColumnError,
)
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.storage.acid.read import AcidFile, scan as scan_module
from airflow_hiveacid.storage.acid.read.scan import scan, scan_schema
from airflow_hiveacid.storage.orc import view
from tests.unit.storage.orc_tables import (
    B0,
    B1,
    COLUMNS,
    ids,
    insert,
    tombstone,
    write_acid,
    write_plain,
)


def rows(root: Path, high: int = 9, *, txns: str | None = None, **options: Any) -> list[Any]:  # noqa: ANN401
    lists = {k: options.pop(k) for k in ("opened", "aborted") if k in options}
    seen = None if txns is None else ValidTxnList.parse(txns)
    batches = scan(str(root), COLUMNS, ids(high, **lists), seen, **options)
    return [row for batch in batches for row in batch.to_pylist()]


def found(root: Path, high: int = 9, **options: Any) -> list[int]:  # noqa: ANN401
    return [row["id"] for row in rows(root, high, **options)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two buckets; write 1 inserts, 2 updates a row of bucket 1, 3 deletes one of bucket 0."""
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 10), insert(1, 1, 11)])
    write_acid(
        tmp_path / "delta_1_1_0/bucket_00001_0",
        [insert(1, 0, 20, bucket=B1), insert(1, 1, 21, bucket=B1)],
    )
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00001", [tombstone(1, 0, 2, B1)])
    write_acid(tmp_path / "delta_2_2_1/bucket_00001", [insert(2, 0, 99, bucket=B1 + 1)])
    write_acid(tmp_path / "delete_delta_3_3_0/bucket_00000", [tombstone(1, 1, 3)])
    return tmp_path


@pytest.mark.promise("R1")
def test_a_scan_returns_inserted_rows_except_deleted_ones(table: Path) -> None:
    assert found(table) == [10, 21, 99]


def test_rows_of_all_buckets_are_sorted_by_identity(table: Path) -> None:
    identified = rows(table, with_identity=True)
    assert [tuple(r["row__id"].values()) for r in identified] == [
        (1, B0, 0),
        (1, B1, 1),
        (2, B1 + 1, 0),
    ]
    assert list(identified[0]) == ["row__id", "id", "name"]


@pytest.mark.promise("T4")
def test_a_scan_returns_the_rows_of_its_snapshot(table: Path) -> None:
    assert found(table, 2) == [10, 11, 21, 99]
    assert found(table, 1) == [10, 11, 20, 21]
    assert found(table, 0) == []
    assert found(table, opened="2") == [10, 20, 21]
    assert found(table, aborted="3") == [10, 11, 21, 99]


@pytest.mark.promise("R9")
def test_rows_can_be_counted_after_deletes_without_reading_a_column(table: Path) -> None:
    batches = list(scan(str(table), COLUMNS, ids(9), data_columns=[]))
    assert sum(batch.num_rows for batch in batches) == 3
    assert {batch.num_columns for batch in batches} == {0}


def test_columns_are_returned_in_the_requested_order(table: Path) -> None:
    (first, *_) = rows(table, data_columns=["name", "id"])
    assert list(first.items()) == [("name", "n10"), ("id", 10)]
    with pytest.raises(UnknownColumnError):
        rows(table, data_columns=["nothing"])


def test_every_batch_has_the_predicted_schema(table: Path) -> None:
    batches = list(scan(str(table), COLUMNS, ids(9), with_identity=True))
    assert {batch.schema for batch in batches} == {scan_schema(COLUMNS, with_identity=True)}
    assert scan_schema(COLUMNS).types == [pa.int32(), pa.string()]


@pytest.mark.promise("R14")
def test_one_bucket_can_be_read_without_the_others(table: Path) -> None:
    assert found(table, buckets=[BucketId(1)]) == [21, 99]
    assert found(table, buckets=[BucketId(7)]) == []


def test_a_delete_event_in_the_file_of_a_different_bucket_is_applied(table: Path) -> None:
    write_acid(table / "delete_delta_4_4_0/bucket_00000", [tombstone(1, 1, 4, B1)])
    assert found(table) == [10, 99]


def test_delete_events_remove_rows_of_original_files(tmp_path: Path) -> None:
    write_plain(tmp_path / "000000_0", [{"id": i, "name": "x"} for i in range(3)])
    write_plain(tmp_path / "000000_0_copy_1", [{"id": 3, "name": "x"}])
    write_acid(
        tmp_path / "delete_delta_1_1_0/bucket_00000", [tombstone(0, 1, 1), tombstone(0, 3, 1)]
    )
    assert found(tmp_path) == [0, 2]


def test_a_compacted_base_replaces_the_deltas_that_it_covers(table: Path) -> None:
    write_acid(table / "base_3_v17/bucket_00000", [insert(1, 0, 10)])
    write_acid(
        table / "base_3_v17/bucket_00001",
        [insert(1, 1, 21, bucket=B1), insert(2, 0, 99, bucket=B1 + 1)],
    )
    assert found(table) == [10, 21, 99]
    _clean(table)
    assert found(table) == [10, 21, 99]
    with pytest.raises(NotEnoughHistoryError):
        found(table, 2)


def test_an_uncommitted_compaction_is_ignored(table: Path) -> None:
    write_acid(table / "base_3_v17/bucket_00000", [insert(1, 0, 77)])
    assert found(table, txns="20:17:17:") == [10, 21, 99]
    assert found(table, txns="20:9223372036854775807::17") == [10, 21, 99]
    assert found(table, txns="20:9223372036854775807::") == [77]


def _clean(table: Path) -> None:
    for directory in ("delta_1_1_0", "delete_delta_2_2_0", "delta_2_2_1", "delete_delta_3_3_0"):
        shutil.rmtree(table / directory)


@pytest.mark.promise("T6")
def test_rows_of_aborted_and_open_writes_within_one_file_are_skipped(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_4/bucket_00000", [insert(w, 0, w) for w in (1, 2, 3, 4)])
    assert found(tmp_path, aborted="2,3") == [1, 4]
    assert found(tmp_path, 3, opened="2") == [1, 3]


def test_a_lost_bucket_raises_an_error_before_the_first_row(table: Path) -> None:
    (table / "delta_1_1_0" / "bucket_00000").unlink()
    with pytest.raises(DanglingDeleteError):
        next(iter(scan(str(table), COLUMNS, ids(9))))


def test_a_missing_location_and_a_damaged_file_raise_typed_errors(table: Path) -> None:
    with pytest.raises(LocationNotFoundError):
        rows(table / "nothing")
    (table / "delta_1_1_0" / "bucket_00000").write_bytes(b"no ORC file, but long enough for a tail")
    with pytest.raises(CorruptFileError, match="bucket_00000"):
        rows(table)


@pytest.mark.promise("R2")
def test_a_scan_opens_each_file_only_when_needed_and_never_an_obsolete_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_acid(tmp_path / "base_1/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    for write_id in (2, 3, 4):
        write_acid(
            tmp_path / f"delta_{write_id}_{write_id}_0/bucket_00000",
            [insert(write_id, 0, write_id)],
        )
    opened: list[str] = []
    real = view.read_view

    def noting(fs: pafs.FileSystem, tail: Any, *rest: Any) -> Any:  # noqa: ANN401
        opened.append(tail.path.split("/")[-2])
        return real(fs, tail, *rest)

    monkeypatch.setattr("airflow_hiveacid.storage.acid.read.reader.read_view", noting)
    batches = scan(str(tmp_path), COLUMNS, ids(3))
    next(batches)
    assert opened == ["base_1"]
    assert len(list(batches)) == 2
    assert opened == ["base_1", "delta_2_2_0", "delta_3_3_0"]


def test_original_files_are_opened_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for copy in range(60):
        write_plain(
            tmp_path / f"000000_0_copy_{copy:02d}",
            [{"id": copy * 10 + i, "name": "x"} for i in range(3)],
        )
    opened: list[str] = []
    read = scan_module.reader.read_events

    def watched(file: AcidFile, **options: Any) -> Any:  # noqa: ANN401
        opened.append(file.key)
        yield from read(file, **options)

    monkeypatch.setattr(scan_module.reader, "read_events", watched)
    batches = scan(str(tmp_path), COLUMNS, ids(0), with_identity=True)
    assert next(batches).num_rows
    assert len(opened) == 1
    rest = [row["row__id"]["rowid"] for batch in batches for row in batch.to_pylist()]
    assert rest == list(range(3, 180))
    assert opened == [f"000000_0_copy_{copy:02d}" for copy in range(60)]

"""How our reader scans a bucket of many files; runs the code of a Spark task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.reading import arrow_scan, pieces
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.counting import counting
from tests.unit.storage.orc_tables import B1, COLUMNS, ids, insert, tombstone, write_acid

DELTAS = 20
ID = (Column(name="id", type="bigint"),)
SMALL_STRIPES = WriterOptions(compression="none", stripe_size_bytes=1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Each write adds two rows to either bucket and deletes the first of the one before."""
    for w in range(1, DELTAS + 1):
        for bucket, place in ((0, "bucket_00000"), (1, "bucket_00001")):
            of = {"bucket": B1} if bucket else {}
            rows = [insert(w, row, 100 * w + 10 * bucket + row, **of) for row in (0, 1)]
            write_acid(tmp_path / f"delta_{w}_{w}_0/{place}", rows)
            if w > 1:
                dead = [tombstone(w - 1, 0, w, *([B1] if bucket else []))]
                write_acid(tmp_path / f"delete_delta_{w}_{w}_1/{place}", dead)
    return tmp_path


def files_of(root: Path) -> list[arrow_scan.TargetFile]:
    buckets = bucket_files(resolve(list_table(str(root)), ids(DELTAS), None), ids(DELTAS))
    found = [(data, b.deletes) for b in buckets for data in b.inserts]
    return [
        arrow_scan.TargetFile(number=number, partition=0, data=data, deletes=deletes)
        for number, (data, deletes) in enumerate(found)
    ]


def scanned(
    together: Sequence[arrow_scan.TargetFile],
    stripes: tuple[int, ...] | None,
    columns: tuple[Column, ...],
) -> list[dict[str, Any]]:
    """The rows of files, or of these stripes of one."""
    piece = arrow_scan.ScanPiece(
        numbers=tuple(file.number for file in together),
        data=tuple(file.data for file in together),
        stripes=stripes,
        deletes=arrow_scan.deletes_of(together),
        write_ids=ids(DELTAS),
        columns=columns,
        wanted=("id",),
        ranges={},
        position="position",
    )
    return [row for batch in arrow_scan.scan_piece(piece) for row in batch.to_pylist()]


def test_the_delete_files_of_a_bucket_are_read_once_for_many_data_files(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, asked = counting()
    monkeypatch.setattr(locations, "_local", lambda: fs)
    files = files_of(table)
    assert len(files) == 2 * DELTAS
    parts = list(arrow_scan.read_together(files, 1))
    asked.opened.clear()
    rows = [row for together, stripes in parts for row in scanned(together, stripes, COLUMNS)]
    assert len(asked.opened) < 4 * len(files)  # of 40 data and 38 delete files
    last = {f"{100 * DELTAS + 10 * bucket}" for bucket in (0, 1)}
    alive = {row["id"]: row["position"]["__number"] for row in rows}
    assert len(alive) == len(rows) == 2 * DELTAS + len(last)
    # Each with the number of its own file.
    number_of = {(file.data.bucket_id, file.data.least_write_id): file.number for file in files}
    for value, number in alive.items():
        bucket = value // 10 % 10
        assert number_of[bucket, WriteId(value // 100)] == number


def test_files_above_the_split_size_are_read_separately_and_by_stripes(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(table)[:3]
    monkeypatch.setattr(arrow_scan, "_SPLIT_BYTES", 1)
    monkeypatch.setattr(pieces, "_LEAST_BYTES", 0)
    parts = list(arrow_scan.read_together(files, 1000))
    assert [([f.number for f in part], stripes) for part, stripes in parts] == [
        ([number], (0,)) for number in range(3)
    ]


@pytest.mark.promise("R3")
def test_a_part_of_a_file_reads_only_delete_stripes_that_may_match_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, dead = 30_000, range(0, 30_000, 3)
    fs, write_ids = LocalFileSystem(), ids(2)
    for name, events in (
        ("delta_0000001_0000001_0000", inserted(range(rows))),
        ("delete_delta_0000002_0000002_0000", deleted(dead)),
    ):
        path = f"{tmp_path}/{name}/bucket_00000"
        with AcidFileWriter(
            fs, path, ID, SMALL_STRIPES, is_delete=name.startswith("delete")
        ) as writer:
            for start in range(0, events.num_rows, 2_000):
                writer.write(events.slice(start, 2_000))
            writer.close()
    read: list[int] = []

    def counted(file: AcidFile, **options: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        for batch in read_identity(file, **options):
            read[-1] += batch.num_rows
            yield batch

    monkeypatch.setattr(arrow_scan, "read_identity", counted)
    monkeypatch.setattr(arrow_scan, "_SPLIT_BYTES", 1)
    (bucket,) = bucket_files(resolve(list_table(str(tmp_path)), write_ids, None), write_ids)
    (data,) = bucket.inserts
    file = arrow_scan.TargetFile(number=0, partition=0, data=data, deletes=bucket.deletes)
    parts = list(arrow_scan.splits(data))
    assert len(parts) > 5
    found: list[int] = []
    for stripes in parts:
        read.append(0)
        found += [row["id"] for row in scanned([file], stripes, ID)]
    assert sorted(found) == [i for i in range(rows) if i % 3]
    # Stripes of the two files do not end at the same rows.
    assert max(read) < len(dead) / 2
    assert len(dead) <= sum(read) <= 4 * len(dead)


def inserted(numbers: Sequence[int]) -> pa.RecordBatch:
    rows = pa.record_batch({"id": pa.array(numbers, pa.int64())})
    return insert_events(rows, WriteId(1), encode(BucketId(0)), RowId(0))


def deleted(row_ids: Sequence[int]) -> pa.RecordBatch:
    keys = pa.record_batch(
        {
            "originalTransaction": pa.array([1] * len(row_ids), pa.int64()),
            "bucket": pa.array([encode(BucketId(0))] * len(row_ids), pa.int32()),
            "rowId": pa.array(row_ids, pa.int64()),
        }
    )
    return delete_events(keys, WriteId(2), ID)

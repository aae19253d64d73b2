"""Large and small buckets of one compaction: each becomes one file with all its rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketId, RowId, StatementId, WriteId, encode
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.spark.maintenance import bucket_tasks
from airflow_hiveacid.spark.maintenance.bucket_tasks import compact_buckets
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.write import bucket_merge, whole_stripes
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.staging import Staging
from tests.support.steps import act_before
from tests.unit.storage.orc_tables import ids

COLUMNS: Final = (Column(name="id", type="bigint"),)
SPARK: Final[Any] = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
SMALL: Final = WriterOptions(stripe_size_bytes=1)
STRIPE_ROWS: Final = 4096
LARGE: Final = (0, 2)
BASE, INSERTS = BaseName(write_id=WriteId(4)), DeltaName(low=WriteId(1), high=WriteId(4))
DELETES: Final = DeltaName(low=WriteId(1), high=WriteId(4), is_delete=True)


def put(root: Path, directory: str, bucket: int, rows: pa.RecordBatch) -> None:
    path = f"{root}/{directory}/{bucket_file(BucketId(bucket))}"
    is_delete = directory.startswith("delete")
    with AcidFileWriter(LocalFileSystem(), path, COLUMNS, SMALL, is_delete=is_delete) as writer:
        writer.write(rows)
        writer.close()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three deltas with four stripes in two large buckets and a row in two small buckets.

    The last write deletes rows in two stripes of each large bucket.
    """
    for bucket in range(4):
        property_ = encode(BucketId(bucket), StatementId(0))
        count = 4 * STRIPE_ROWS if bucket in LARGE else 1
        for write_id in (1, 2, 3):
            noise = np.random.default_rng(write_id).integers(0, 1 << 60, count)
            rows = pa.record_batch({"id": noise})
            events = insert_events(rows, WriteId(write_id), property_, RowId(0))
            put(tmp_path, f"delta_{write_id:07d}_{write_id:07d}_0000", bucket, events)
        if bucket in LARGE:
            gone = pa.record_batch(
                {
                    "originalTransaction": pa.array([1, 2], pa.int64()),
                    "bucket": pa.array([property_, property_], pa.int32()),
                    "rowId": pa.array([bucket, STRIPE_ROWS + 1], pa.int64()),
                }
            )
            events = delete_events(gone, WriteId(4), COLUMNS)
            put(tmp_path, "delete_delta_0000004_0000004_0000", bucket, events)
    return tmp_path


def works(root: Path, *outputs: BaseName | DeltaName) -> list[bucket_merge.BucketCompaction]:
    return [
        bucket_merge.BucketCompaction(
            table=TableRef("default", "t"),
            columns=COLUMNS,
            bucket_id=bucket.bucket_id,
            inserts=bucket.inserts,
            deletes=bucket.deletes,
            write_ids=ids(4),
            outputs=outputs,
            staging=Staging(location=str(root), token="t"),
            options=SMALL,
        )
        for bucket in bucket_files(resolve(list_table(str(root)), ids(4), None), ids(4))
    ]


def content(root: Path, file: bucket_merge.CompactedFile) -> pa.Table:
    staging, name = Staging(location=str(root), token="t"), bucket_file(file.bucket_id)
    return orc.ORCFile(staging.attempt_path(file.directory, name, file.attempt)).read()


@pytest.mark.parametrize("outputs", [(BASE,), (DELETES, INSERTS)], ids=["major", "minor"])
def test_large_buckets_are_split_and_each_bucket_becomes_one_file(
    table: Path, monkeypatch: pytest.MonkeyPatch, outputs: tuple[BaseName | DeltaName, ...]
) -> None:
    monkeypatch.setattr(whole_stripes, "LEAST_BYTES", 1)
    monkeypatch.setattr(bucket_tasks, "LEAST_PART_BYTES", 20_000)
    split: list[int] = []
    act_before(
        monkeypatch, bucket_tasks, "task_results", lambda *given: split.append(len(given[2]))
    )
    expected = {
        (file.directory, file.bucket_id): content(table, file)
        for work in works(table, *outputs)
        for file in bucket_merge.compact_bucket(work, "whole")
    }
    found = compact_buckets(SPARK, works(table, *outputs))
    parts, rest = split
    assert parts >= 2 * len(LARGE)
    assert rest == (4 if len(outputs) == 1 else 4 + len(LARGE))
    assert sorted((file.directory, file.bucket_id) for file in found) == sorted(expected)
    for file in found:
        made = content(table, file)
        assert made.equals(expected[file.directory, file.bucket_id])
        assert made.num_rows == file.rows

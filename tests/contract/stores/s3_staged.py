"""What tasks leave in S3, and what the driver makes of it, for tests."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column, PartitionName
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import StagedDirectory, StagedFile

COLUMNS: Final = [Column(name="id", type="bigint"), Column(name="name", type="string")]
ROWS: Final = pa.record_batch(
    {"id": pa.array(range(1000)), "name": pa.array([f"{i * 7919:032}" for i in range(1000)])}
)
DELTA: Final = "delta_0000001_0000001_0000"
MIB: Final = 1 << 20


def stage(staging: Staging, attempt: str, *, name: str = "bucket_00000", size: int = 1000) -> int:
    """What a task does: rows of a bucket, as one attempt of it."""
    fs, path = open_location(staging.attempt_path(DELTA, name, attempt))
    with AcidFileWriter(fs, path, COLUMNS, WriterOptions(), is_delete=False) as writer:
        writer.write(insert_events(ROWS[:size], WriteId(1), encode(BucketId(0)), RowId(0)))
        return writer.close().size_bytes


def staged_file(directory: object, attempt: str, size_bytes: int) -> StagedFile:
    """What a task tells of its only file."""
    return StagedFile(
        partition=PartitionName(),
        directory=str(directory),
        bucket=BucketId(0),
        attempt=attempt,
        rows=1,
        updated=0,
        size_bytes=size_bytes,
    )


def accepted(
    staging: Staging, attempt: str, size: int, *, is_compacted: bool = False
) -> StagedDirectory:
    """What the driver makes of it."""
    file = staged_file(DELTA, attempt, size)
    return StagedDirectory(
        partition=PartitionName(),
        directory=DELTA,
        staging=staging,
        files=(file,),
        is_compacted=is_compacted,
    )

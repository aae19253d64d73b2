"""Rows of a frame as Parquet files in one directory, written by Spark tasks with Arrow.

No Spark committer is needed, so it works on all stores: each attempt of a task uses its own file
name, and the driver ignores files that no task has reported.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from airflow_hiveacid.reading.pieces import arrow_schema
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import task_of
from airflow_hiveacid.storage.stores.change_feed import task_file
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.stores.locations import open_location

_SCHEMA: Final = "name string, rows long, size_bytes long, kinds string"
_ROW_GROUP_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFile:
    """A written file; `kinds` maps each value of the counted column to its number of rows."""

    name: str
    rows: int
    size_bytes: int
    kinds: dict[str, int]


def write_files(rows: DataFrame, location: str, counted: str) -> list[FeedFile]:
    """Write rows in order, one file for each non-empty partition of the frame.

    `location` is the directory that the feed assigns (`ChangeFeed.new_directory`). The rows of each
    value of the string column `counted` are counted.
    """
    write = task_of(partial(_write, location=location, counted=counted))
    with typed_failures():
        reports = rows.mapInArrow(write, _SCHEMA).collect()
    return [
        FeedFile(name=f.name, rows=f.rows, size_bytes=f.size_bytes, kinds=json.loads(f.kinds))
        for f in sorted(reports, key=lambda f: f.name)
    ]


def write_no_rows(rows: DataFrame, location: str) -> FeedFile:
    """Write a file with the columns of a frame and no rows."""
    schema = to_arrow_schema(rows.schema)
    return _written(schema, (), location=location, number=0, counted="")


def _write(
    batches: Iterator[pa.RecordBatch], *, location: str, counted: str
) -> Iterator[pa.RecordBatch]:
    some = (batch for batch in batches if batch.num_rows)
    first = next(some, None)
    if first is None:
        return
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    groups = _groups(first, some)
    file = _written(first.schema, groups, location=location, number=number, counted=counted)
    answer = {**dataclasses.asdict(file), "kinds": json.dumps(file.kinds)}
    yield pa.RecordBatch.from_pylist([answer], schema=arrow_schema(_SCHEMA))


def _written(
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    *,
    location: str,
    number: int,
    counted: str,
) -> FeedFile:
    name = f"part-{number:05d}-{uuid.uuid4().hex}.parquet"
    fs, path = open_location(task_file(location, name))
    kinds: dict[str, int] = {}
    rows = 0
    with (
        storage_errors("write", path),
        fs.open_output_stream(path, compression=None) as stream,
    ):
        with pq.ParquetWriter(stream, schema) as writer:
            for table in groups:
                writer.write_table(table, row_group_size=table.num_rows)
                rows += table.num_rows
                for entry in pc.value_counts(table.column(counted)).to_pylist():
                    kinds[entry["values"]] = kinds.get(entry["values"], 0) + entry["counts"]
        size = stream.tell()
    return FeedFile(name=name, rows=rows, size_bytes=size, kinds=kinds)


def _groups(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting, size = [first], first.nbytes
    for batch in rest:
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    yield pa.Table.from_batches(waiting)

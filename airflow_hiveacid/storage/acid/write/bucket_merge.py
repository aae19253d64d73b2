"""Compact one bucket: merge its sorted files into one sorted file per result directory.

Input is the files of one bucket, and their compaction plan. Output is staged files. Only one batch
of every open file is in memory, regardless of file sizes. Rows keep their identity and all values.
The merge drops only events with write IDs that the compactor's list excludes. Large unchanged
stripes are copied without decoding (`whole_stripes`).

The module follows two more rules. Each of Hive's own compactors violates one of these two rules:

* Only one delete event per row is kept. If two files begin with delete events of the same row,
  readers lose all rows of one file.
* If a row was inserted and deleted at the same write ID, both events are dropped. Hive 4 would
  otherwise ignore the delete event, because compacted directories have no statement ID
  (VectorizedOrcAcidRowBatchReader.isQualifiedDeleteDeltaForSplit).
"""

from __future__ import annotations

import functools
import itertools
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.bucket_codec import decode
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.storage.acid.identity import current_write_ids
from airflow_hiveacid.storage.acid.merge import subtract_deletes, unique_deletes
from airflow_hiveacid.storage.acid.read.live import live_in, visible_in
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.row_schema import BUCKET_PROPERTY, ORIGINAL_WRITE_ID
from airflow_hiveacid.storage.acid.write.whole_stripes import (
    WholeStripe,
    between,
    whole_stripes,
    without,
)
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.stores.filesystem import make_directory
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.format.ids import BucketId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.orc.encoders import WriterOptions
    from airflow_hiveacid.storage.stores.staging import Staging


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCompaction:
    """The plan to compact one bucket, as plain values. Each directory in `outputs` gets a file.

    `inserts` and `deletes` are the input files. If `outputs` contains a base (a major compaction),
    delete events are applied and dropped. Otherwise, the insert events are merged into one
    directory, and the delete events into another.
    """

    columns: tuple[Column, ...]
    bucket_id: BucketId
    inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]
    write_ids: ValidWriteIdList
    outputs: tuple[BaseName | DeltaName, ...]
    staging: Staging
    options: WriterOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """One staged file: its target directory, attempt, number of rows and size."""

    directory: str
    bucket_id: BucketId
    attempt: str
    rows: int
    size_bytes: int


def compact_bucket(work: BucketCompaction, attempt: str) -> tuple[CompactedFile, ...]:
    """Compact one bucket; write no file for a result without rows.

    Raises:
        CorruptFileError: an input is damaged or out of order.
    """
    results = []
    for output in work.outputs:
        written = _write(work, output, _parts(work, output), attempt)
        if written is not None:
            results.append(written)
    return tuple(results)


def _parts(
    work: BucketCompaction, output: BaseName | DeltaName
) -> Iterator[pa.RecordBatch | WholeStripe]:
    """Return the rows and whole stripes to write into one result directory."""
    if isinstance(output, DeltaName) and output.is_delete:
        return _only(_deletes(work), own=False)
    whole = whole_stripes(
        work.inserts,
        work.deletes,
        work.write_ids,
        bucket_id=work.bucket_id,
        columns=work.columns,
        options=work.options,
    )
    left = without(whole, work.inserts)
    inserts = [file for file in work.inserts if file.key in left]

    def read(file: AcidFile) -> Iterator[pa.RecordBatch]:
        return read_events(
            file,
            work.columns,
            stripes=left[file.key],
            timestamps=TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
        )

    if isinstance(output, BaseName):
        events = live_in(inserts, work.deletes, work.write_ids, read)
    else:
        visible = visible_in(inserts, work.write_ids, read)
        events = subtract_deletes(visible, _only(_deletes(work), own=True))
    return between(events, whole)


def _deletes(work: BucketCompaction) -> Iterator[pa.RecordBatch]:
    """Return this bucket's delete events.

    Files from Hive 3.1 also contain delete events of other buckets.
    """
    read = functools.partial(read_events, columns=work.columns)
    return unique_deletes(_of_bucket(visible_in(work.deletes, work.write_ids, read), work))


def _of_bucket(
    events: Iterator[pa.RecordBatch], work: BucketCompaction
) -> Iterator[pa.RecordBatch]:
    for batch in events:
        properties = batch.column(BUCKET_PROPERTY).to_numpy()
        ours = [p for p in np.unique(properties) if decode(p).bucket_id == work.bucket_id]
        is_ours = np.isin(properties, ours)
        yield batch if is_ours.all() else batch.filter(pa.array(is_ours))


def _only(deletes: Iterator[pa.RecordBatch], *, own: bool) -> Iterator[pa.RecordBatch]:
    """Yield only delete events for rows that were inserted at the same write ID.

    If `own` is False, yield all other delete events.
    """
    for batch in deletes:
        is_own = batch.column(ORIGINAL_WRITE_ID).to_numpy() == current_write_ids(batch)
        wanted = is_own if own else np.logical_not(is_own)
        yield batch.filter(pa.array(wanted))


def _write(
    work: BucketCompaction,
    output: BaseName | DeltaName,
    parts: Iterator[pa.RecordBatch | WholeStripe],
    attempt: str,
) -> CompactedFile | None:
    filled = (part for part in parts if isinstance(part, WholeStripe) or part.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    name = bucket_file(work.bucket_id)
    fs, path = open_location(work.staging.attempt_path(output, name, attempt))
    make_directory(fs, posixpath.dirname(path))
    is_delete = isinstance(output, DeltaName) and output.is_delete
    writer = AcidFileWriter(fs, path, work.columns, work.options, is_delete=is_delete)
    try:
        for part in itertools.chain([first], filled):
            if isinstance(part, WholeStripe):
                writer.copy(part)
            else:
                writer.write(part)
        written = writer.close()
    except BaseException:
        writer.abort()
        raise
    return CompactedFile(
        directory=str(output),
        bucket_id=work.bucket_id,
        attempt=attempt,
        rows=written.rows,
        size_bytes=written.size_bytes,
    )

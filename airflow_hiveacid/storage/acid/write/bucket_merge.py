"""Compact one bucket: merge its sorted files into one sorted file per result directory.

Only one batch of every open file is in memory. Rows keep their identity and all values; only events
of write IDs that the compactor's list excludes are dropped. Large unchanged stripes are copied
(`whole_stripes`), and large buckets compacted in several tasks (`bucket_parts`). Each of Hive's own
compactors violates one of these two rules:

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
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.bucket_codec import decode
from airflow_hiveacid.format.errors import InvalidNameError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, BucketProperty
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid.identity import EVERY_KEY, Key, KeyRange, Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import subtract_deletes, unique_deletes
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.acid.read.file_check import GIVE_NEW_ROW_IDS
from airflow_hiveacid.storage.acid.read.reader import read_events, read_identity
from airflow_hiveacid.storage.acid.read.scan import live_in, visible_in
from airflow_hiveacid.storage.acid.row_schema import BUCKET_PROPERTY, ORIGINAL_WRITE_ID
from airflow_hiveacid.storage.acid.write import whole_stripes
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.filesystem import make_directory
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

Parts: TypeAlias = Iterator[pa.RecordBatch | whole_stripes.WholeStripe | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCompaction:
    """The plan to compact one bucket, as plain values. Each directory in `outputs` gets a file.

    If `outputs` contains a base (a major compaction), delete events are applied and dropped;
    otherwise, insert and delete events are merged into two directories.

    Only rows with identities in `keys` are read. `stripes` contains the 0-based numbers of the
    stripes to read of a file, by file key; files without an entry are read completely. Unchanged
    stripes are copied from a length of `least_bytes`; None means by `least_length`.

    `shared` maps the key of each input with rows of several buckets to these buckets, whose
    compactions each take their own rows.
    """

    table: TableRef
    columns: tuple[Column, ...]
    bucket_id: BucketId
    inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]
    write_ids: ValidWriteIdList
    outputs: tuple[BaseName | DeltaName, ...]
    staging: Staging
    options: WriterOptions
    stripes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    keys: KeyRange = EVERY_KEY
    least_bytes: int | None = None
    shared: Mapping[str, frozenset[BucketId]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFile:
    """One staged file: its target directory, attempt, number of rows and size."""

    directory: str
    bucket_id: BucketId
    attempt: str
    rows: int
    size_bytes: int


def compact_bucket(work: BucketCompaction, attempt: str = "") -> tuple[CompactedFile, ...]:
    """Compact one bucket, by default as a new attempt; write no file for a result without rows."""
    attempt = attempt or uuid.uuid4().hex
    results = []
    for output in work.outputs:
        if output.is_delete:
            parts: Parts = _only(_deletes(work), own=False)
        else:
            whole = stripes_to_copy(work)
            parts = whole_stripes.between(rows_to_decode(work, output, whole), whole)
        path = work.staging.attempt_path(output, bucket_file(work.bucket_id), attempt)
        written = write_file(work, output, parts, attempt, path)
        if written is not None:
            results.append(written)
    return tuple(results)


def stripes_to_copy(work: BucketCompaction) -> tuple[whole_stripes.WholeStripe, ...]:
    """Return the stripes to copy, in identity order."""
    return whole_stripes.whole_stripes(
        work.inserts,
        work.deletes,
        work.write_ids,
        bucket_id=work.bucket_id,
        columns=work.columns,
        options=work.options,
        chosen=work.stripes,
        keys=work.keys,
        least_bytes=work.least_bytes,
    )


def rows_to_decode(
    work: BucketCompaction,
    output: BaseName | DeltaName,
    whole: Sequence[whole_stripes.WholeStripe],
    count: Callable[[pa.RecordBatch], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows to decode, outside stripes of `whole`; `count` gets each batch, once cut."""
    remainder = whole_stripes.without(whole, work.inserts, work.stripes)
    inserts = [file for file in work.inserts if file.key in remainder]

    def read(file: AcidFile) -> Iterator[pa.RecordBatch]:
        for batch in read_events(
            file,
            work.columns,
            stripes=remainder[file.key],
            timestamps=TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
        ):
            inside = work.keys.cut(batch)
            count(inside)
            yield _own_rows(inside, file, work)

    if isinstance(output, BaseName):
        return _without_twins(live_in(inserts, work.deletes, work.write_ids, read), inserts)
    visible = visible_in(inserts, work.write_ids, read)
    rows = subtract_deletes(visible, _only(_deletes(work), own=True))
    return _without_twins(rows, inserts)


def _without_twins(
    rows: Iterator[pa.RecordBatch], inserts: Sequence[AcidFile]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows; raise an error if two rows have the same identity."""
    last: Key | None = None
    for batch in rows:
        if batch.num_rows:
            keys = Keys.of(batch)
            again = keys.repeats()
            again[0] = keys.at(0) == last
            if again.any():
                twin = keys.at(int(np.argmax(again)))
                paths = [file.path for file in inserts if _has(file, twin)]
                raise UnsupportedFileError(
                    path=" and ".join(paths[:2]) or inserts[0].path,
                    reason="two rows have the same row ID (write ID {}, bucket property {}, row"
                    " {})".format(*twin)
                    + f". {GIVE_NEW_ROW_IDS}",
                )
            last = keys.at(-1)
        yield batch


def _has(file: AcidFile, key: Key) -> bool:
    keys = map(Keys.of, read_identity(file))
    return any(batch.count_up_to(key) > batch.count_below(key) for batch in keys if len(batch))


def _deletes(work: BucketCompaction) -> Iterator[pa.RecordBatch]:
    # Files from Hive 3.1 also contain delete events of other buckets.
    read = functools.partial(read_events, columns=work.columns)
    events = visible_in(work.deletes, work.write_ids, read)
    return unique_deletes(_of_buckets(batch, frozenset({work.bucket_id})) for batch in events)


def _own_rows(batch: pa.RecordBatch, file: AcidFile, work: BucketCompaction) -> pa.RecordBatch:
    # The compaction of the named bucket checks that one compaction reads each row.
    own = _of_buckets(batch, frozenset({work.bucket_id}))
    if own.num_rows < batch.num_rows and file.bucket_id == work.bucket_id:
        expected = frozenset({work.bucket_id, *work.shared.get(file.key, ())})
        if _of_buckets(batch, expected).num_rows < batch.num_rows:
            raise _not_compactable(file, "its rows have other buckets than its statistics say")
    if not bool((Keys.of(own).original == current_write_ids(own)).all()):
        raise _not_compactable(file, "an inserted row has another current write ID than original")
    return own


def _not_compactable(file: AcidFile, why: str) -> UnsupportedFileError:
    return UnsupportedFileError(path=file.path, reason=f"{why}. {GIVE_NEW_ROW_IDS}")


def _of_buckets(batch: pa.RecordBatch, buckets: frozenset[BucketId]) -> pa.RecordBatch:
    properties = batch.column(BUCKET_PROPERTY).to_numpy()
    distinct = properties[:1] if Keys.of(batch).is_one_run() else np.unique(properties)
    matches = [p for p in distinct if _bucket_id(int(p)) in buckets]
    if len(matches) == len(distinct):
        return batch
    return batch.filter(pa.array(np.isin(properties, matches)))


def _bucket_id(bucket_property: int) -> BucketId | None:
    try:
        return decode(BucketProperty(bucket_property)).bucket_id
    except InvalidNameError:
        return None


def _only(deletes: Iterator[pa.RecordBatch], *, own: bool) -> Iterator[pa.RecordBatch]:
    """Yield only delete events of rows inserted at the same write ID, or else only all others."""
    for batch in deletes:
        is_own = batch.column(ORIGINAL_WRITE_ID).to_numpy() == current_write_ids(batch)
        mask = is_own if own else np.logical_not(is_own)
        yield batch.filter(pa.array(mask))


def write_file(
    work: BucketCompaction, output: BaseName | DeltaName, parts: Parts, attempt: str, path: str
) -> CompactedFile | None:
    """Write rows and whole stripes into a file, if any; each None ends a stripe."""
    filled = (part for part in parts if not isinstance(part, pa.RecordBatch) or part.num_rows)
    first = next((part for part in filled if part is not None), None)
    if first is None:
        return None
    fs, target = open_location(path)
    make_directory(fs, posixpath.dirname(target))
    writer = AcidFileWriter(
        fs, target, work.columns, work.options, is_delete=output.is_delete, table=work.table
    )
    try:
        for part in itertools.chain([first], filled):
            if part is None:
                writer.end_stripe()
            elif isinstance(part, whole_stripes.WholeStripe):
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

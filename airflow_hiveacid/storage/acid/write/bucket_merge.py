"""Compact one bucket: merge its sorted files into one per result directory, a large one in parts.

Only one batch of every open file is in memory. Rows keep their identity and all values; only events
of write IDs that the compactor's list excludes are dropped. Large unchanged stripes are copied
(`whole_stripes`), and large buckets compacted in several tasks. Each of Hive's own
compactors violates one of these two rules:

* Only one delete event per row is kept. If two files begin with delete events of the same row,
  readers lose all rows of one file.
* If a row was inserted and deleted at the same write ID, both events are dropped. Hive 4 would
  otherwise ignore the delete event, because compacted directories have no statement ID
  (VectorizedOrcAcidRowBatchReader.isQualifiedDeleteDeltaForSplit).

Each part writes the rows of its range that must be decoded, and reports the stripes that can be
copied (`compact_part`); then one task copies all of these (`SplitCompaction.rest`). Ranges, by
statistics of the identity columns, contain every identity exactly once.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, decode
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid import BUCKET_PROPERTY, ORIGINAL_WRITE_ID
from airflow_hiveacid.storage.acid.identity import EVERY_KEY, Key, KeyRange, Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import subtract_deletes, unique_deletes
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, bounds_of, end_keys
from airflow_hiveacid.storage.acid.read.file_check import needs_new_row_ids
from airflow_hiveacid.storage.acid.read.reader import read_events, read_identity
from airflow_hiveacid.storage.acid.read.scan import live_in, visible_in
from airflow_hiveacid.storage.acid.write import whole_stripes
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.filesystem import make_directory
from airflow_hiveacid.storage.stores.locations import locate, open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.threads import each_in_threads
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
    # Without a base, only rows deleted at their own write ID are dropped, with their delete events.
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
                raise needs_new_row_ids(
                    " and ".join(paths[:2]) or inserts[0].path,
                    "two rows have the same row ID (write ID {}, bucket property {}, row"
                    " {})".format(*twin),
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
    # The compactions of other buckets take the other rows of the file; the compaction of the bucket
    # in its name checks that `shared` has all these buckets.
    own = _of_buckets(batch, frozenset({work.bucket_id}))
    if own.num_rows < batch.num_rows and file.bucket_id == work.bucket_id:
        expected = frozenset({work.bucket_id, *work.shared.get(file.key, ())})
        if _of_buckets(batch, expected).num_rows < batch.num_rows:
            why = "its rows have other buckets than its statistics say"
            raise needs_new_row_ids(file.path, why)
    if not bool((Keys.of(own).original == current_write_ids(own)).all()):
        why = "an inserted row has another current write ID than original"
        raise needs_new_row_ids(file.path, why)
    return own


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
    """Yield the delete events of rows inserted at the same write ID (`own`), or all others."""
    for batch in deletes:
        is_own = batch.column(ORIGINAL_WRITE_ID).to_numpy() == current_write_ids(batch)
        mask = is_own if own else np.logical_not(is_own)
        yield batch.filter(pa.array(mask))


def write_file(
    work: BucketCompaction, output: BaseName | DeltaName, parts: Parts, attempt: str, path: str
) -> CompactedFile | None:
    """Write rows and whole stripes, if there are any, into a file; each None ends a stripe."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPart:
    """The result of one part of a bucket.

    `file` has the decoded rows, if any. `whole` has the numbers of the stripes to copy, by the key
    of their file. `rows_read` counts the rows in the part's range, visible or not.
    """

    file: CompactedFile | None
    whole: Mapping[str, tuple[int, ...]]
    rows_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCompaction:
    """A bucket's compaction in `parts`, in identity order; `rows` counts invisible rows, too."""

    work: BucketCompaction
    parts: tuple[BucketCompaction, ...]
    rows: int

    def rest(self, done: Sequence[CompactedPart]) -> tuple[BucketCompaction, ...]:
        """Return the work that remains after the parts: to join them, and to merge delete events.

        `done` are the parts' results, in identity order. Raises CorruptFileError if they have not
        read all rows, because statistics in a file are wrong.
        """
        rows_read = sum(part.rows_read for part in done)
        if rows_read != self.rows:
            raise CorruptFileError(
                path=self.work.staging.location,
                reason=f"the files of bucket {self.work.bucket_id} contain {self.rows} rows,"
                f" but {rows_read} rows were found by the statistics of their ROW__ID columns, so"
                " these statistics are wrong in at least one file. Compact the table or partition"
                " in Hive: ALTER TABLE ... COMPACT 'major'",
            )
        files = [
            _staged(self.work.staging, result.file, part.keys)
            for part, result in zip(self.parts, done, strict=True)
            if result.file is not None
        ]
        output = _rows_output(self.work)
        stripes = _numbers_by_file(
            (key, number)
            for result in done
            for key, numbers in result.whole.items()
            for number in numbers
        )
        joined = replace(
            self.work,
            inserts=(*files, *(file for file in self.work.inserts if file.key in stripes)),
            deletes=(),
            outputs=(output,),
            stripes=stripes,
        )
        deletes = tuple(name for name in self.work.outputs if name != output)
        return (joined, replace(self.work, inserts=(), outputs=deletes)) if deletes else (joined,)


def split_compaction(work: BucketCompaction, part_bytes: int) -> SplitCompaction | None:
    """Split the compaction of a bucket into parts of about `part_bytes`; None means one part."""
    stripes = list(itertools.chain.from_iterable(each_in_threads(_stripes, work.inserts)))
    limits = _limits(stripes, part_bytes)
    if not limits:
        return None
    work_of_part = replace(
        work,
        outputs=(_rows_output(work),),
        least_bytes=whole_stripes.least_length(stripe.length for stripe in stripes),
    )
    ends = [*limits, None]
    ranges = [KeyRange(after=a, up_to=b) for a, b in zip([None, *limits], ends, strict=True)]
    return SplitCompaction(
        work=work,
        parts=tuple(_part(work_of_part, keys, stripes) for keys in ranges),
        rows=sum(stripe.rows for stripe in stripes),
    )


def compact_part(work: BucketCompaction, attempt: str = "") -> CompactedPart:
    """Compact one part of a bucket; end a stripe wherever `rest` will insert a stripe to copy."""
    attempt = attempt or uuid.uuid4().hex
    (output,) = work.outputs
    whole = stripes_to_copy(work)
    rows_read = sum(stripe.tail.stripes[stripe.number].rows for stripe in whole)

    def count(batch: pa.RecordBatch) -> None:
        nonlocal rows_read
        rows_read += batch.num_rows

    rows = rows_to_decode(work, output, whole, count)
    parts = (
        None if isinstance(part, whole_stripes.WholeStripe) else part
        for part in whole_stripes.between(rows, whole)
    )
    path = work.staging.part_path(bucket_file(work.bucket_id), attempt)
    file = write_file(work, output, parts, attempt, path)
    return CompactedPart(
        file=file,
        whole=_numbers_by_file((stripe.file.key, stripe.number) for stripe in whole),
        rows_read=rows_read,
    )


def _rows_output(work: BucketCompaction) -> BaseName | DeltaName:
    (output,) = (name for name in work.outputs if not name.is_delete)
    return output


def _staged(staging: Staging, file: CompactedFile, keys: KeyRange) -> AcidFile:
    name = bucket_file(file.bucket_id)
    store, path = locate(staging.part_path(name, file.attempt))
    return AcidFile(
        store=store,
        path=path,
        key=posixpath.join(file.directory, file.attempt, name),
        length=file.size_bytes,
        kind=FileKind.DATA,
        bucket_id=file.bucket_id,
        root=staging.root,
        keys=keys,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stripe:
    file: AcidFile
    number: int
    length: int
    rows: int
    first: Key
    last: Key


def _numbers_by_file(stripes: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    by_file: dict[str, list[int]] = {}
    for key, number in stripes:
        by_file.setdefault(key, []).append(number)
    return {key: tuple(sorted(numbers)) for key, numbers in by_file.items()}


def _limits(stripes: Sequence[_Stripe], part_bytes: int) -> list[Key]:
    """Return the last identity of each part but the last; each has `part_bytes` or more."""
    limits: list[Key] = []
    size = 0
    ordered = sorted(stripes, key=lambda stripe: stripe.last)
    for stripe, following in itertools.pairwise(ordered):
        size += stripe.length
        if size >= part_bytes and stripe.last < following.last:
            limits.append(stripe.last)
            size = 0
    return limits


def _part(work: BucketCompaction, keys: KeyRange, stripes: Sequence[_Stripe]) -> BucketCompaction:
    matches = [stripe for stripe in stripes if keys.may_contain_some(stripe.first, stripe.last)]
    return replace(
        work,
        keys=keys,
        inserts=tuple({stripe.file.key: stripe.file for stripe in matches}.values()),
        stripes=_numbers_by_file((stripe.file.key, stripe.number) for stripe in matches),
    )


def _stripes(file: AcidFile) -> list[_Stripe]:
    tail = file.tail()
    return [
        _Stripe(
            file=file,
            number=number,
            length=stripe.length,
            rows=stripe.rows,
            first=first,
            last=last,
        )
        for number, (stripe, (first, last)) in enumerate(
            zip(tail.stripes, end_keys(file, bounds_of(file, tail)), strict=True)
        )
        if stripe.rows
    ]

"""Compact a large bucket in parts, each by its own task, and join the parts to one file.

Each part writes the rows of its range that must be decoded, and reports the stripes that can be
copied (`compact_part`); then one task copies all of these (`SplitCompaction.rest`). Ranges, by
statistics of the identity columns, contain every identity exactly once.
"""

from __future__ import annotations

import itertools
import posixpath
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.storage.acid.identity import Key, KeyRange
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind, bounds_of, end_keys
from airflow_hiveacid.storage.acid.write.bucket_merge import (
    BucketCompaction,
    CompactedFile,
    rows_to_decode,
    stripes_to_copy,
    write_file,
)
from airflow_hiveacid.storage.acid.write.whole_stripes import WholeStripe, between, least_length
from airflow_hiveacid.storage.stores.locations import locate
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.threads import each_in_threads


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
    """The compaction of a bucket in `parts`, in identity order; `rows` counts invisible, too."""

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
        least_bytes=least_length(stripe.length for stripe in stripes),
    )
    ends = [*limits, None]
    ranges = [KeyRange(after=a, up_to=b) for a, b in zip([None, *limits], ends, strict=True)]
    return SplitCompaction(
        work=work,
        parts=tuple(_part(work_of_part, keys, stripes) for keys in ranges),
        rows=sum(stripe.rows for stripe in stripes),
    )


def compact_part(work: BucketCompaction, attempt: str = "") -> CompactedPart:
    """Compact one part of a bucket; no stripe has rows on both sides of a stripe to copy."""
    attempt = attempt or uuid.uuid4().hex
    (output,) = work.outputs
    whole = stripes_to_copy(work)
    rows_read = sum(stripe.tail.stripes[stripe.number].rows for stripe in whole)

    def count(batch: pa.RecordBatch) -> None:
        nonlocal rows_read
        rows_read += batch.num_rows

    rows = rows_to_decode(work, output, whole, count)
    parts = (None if isinstance(part, WholeStripe) else part for part in between(rows, whole))
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

"""Select the stripes that a compaction can copy unchanged.

All rows of such a stripe are kept, its identity range contains no other row, and it has the format
of our own writers. As copied stripes keep their size, `least_length` bounds the number of small
ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.errors import InvalidNameError, UnsupportedFileError
from airflow_hiveacid.format.ids import LONG_MAX, BucketId, BucketProperty, decode
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.events import identity_at
from airflow_hiveacid.storage.acid.identity import EVERY_KEY, Key, KeyRange, Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import visible_mask
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, bounds_of, end_keys
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.read.scan import visible_in
from airflow_hiveacid.storage.acid.write.flat_copy import UTC_ZONES
from airflow_hiveacid.storage.acid.write.tail import acid_types
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcCalendar, OrcTail
from airflow_hiveacid.storage.orc.stripe_copy import StripeContent, stripe_content
from airflow_hiveacid.storage.stores.filesystem import file_errors

LARGE_BYTES: Final = 8 << 20
"""The length from which a stripe is copied, regardless of how many stripes the result has."""

LEAST_BYTES: Final = 256 << 10
"""Stripes below this length are always decoded and merged."""

MOST_SMALL: Final = 256
"""The most stripes below `LARGE_BYTES` that are copied into one file."""

_ROWS_PER_CHECK: Final = 64 << 10
"""Rows per batch when identities are checked, 32 bytes each; each batch costs some fixed time."""

_VERSION: Final = [0, 12]
# For each ORC writer, the oldest version that formats stripes like our writers. For the C++ writer,
# this is the oldest version that Arrow has used. For Java's writer, this is the first version that
# counts rows and truncates bounds like the current version (`OrcFile.WriterVersion.ORC_14`).
_OLDEST_OF_WRITER: Final[Mapping[int, int]] = {0: 9, 1: 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeStripe:
    """Stripe `number` (0-based) to copy: its parts, and the identities of its ends."""

    file: AcidFile
    tail: OrcTail
    number: int
    content: StripeContent
    first: acid.RecordIdentifier
    last: acid.RecordIdentifier


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """A range of identities, inclusive at both ends; `whole` is set if its stripe can be copied."""

    first: Key
    last: Key
    whole: WholeStripe | None = None


def whole_stripes(  # noqa: PLR0913 - the parts of a bucket, and the requirements of its result
    inserts: Sequence[AcidFile],
    deletes: Sequence[AcidFile],
    write_ids: ValidWriteIdList,
    *,
    bucket_id: BucketId,
    columns: Sequence[Column],
    options: WriterOptions,
    chosen: Mapping[str, tuple[int, ...]] = {},
    keys: KeyRange = EVERY_KEY,
    least_bytes: int | None = None,
) -> tuple[WholeStripe, ...]:
    """Return the stripes that can be copied unchanged, in identity order.

    `deletes` may include events for rows of other files. `chosen` has the 0-based numbers of a
    file's stripes that belong to the result, by file key; all stripes of a file without an entry
    belong to it. `keys` is the range of the result's identities. Stripes are copied from a length
    of `least_bytes`; None means by `least_length`.
    """
    tails = {
        file.key: tail
        for file in inserts
        if (tail := _copyable_tail(file, columns, options)) is not None
    }
    numbers = {key: chosen.get(key, range(len(tail.stripes))) for key, tail in tails.items()}
    lengths = {
        key: [tails[key].stripes[n].length for n in stripe_numbers]
        for key, stripe_numbers in numbers.items()
    }
    threshold = least_bytes or least_length(itertools.chain.from_iterable(lengths.values()))
    copyable = {key: tail for key, tail in tails.items() if max(lengths[key]) >= threshold}
    if not copyable:
        return ()
    stays = partial(_stays, write_ids=write_ids, bucket_id=bucket_id)
    ranges = [
        stripe_range
        for file in inserts
        for stripe_range in _ranges(
            file, copyable.get(file.key), numbers.get(file.key, ()), threshold, stays
        )
    ]
    alone = [stripe for stripe in _apart(ranges) if keys.contains(stripe.first, stripe.last)]
    return _untouched(alone, deletes, write_ids) if alone else ()


def least_length(lengths: Iterable[int]) -> int:
    """Return the length from which stripes are copied into one file.

    The result is `LEAST_BYTES`, doubled until at most `MOST_SMALL` stripes below `LARGE_BYTES`
    reach it.

    `lengths` are the bytes of all stripes that may be copied.

    Example:
        >>> least_length([300_000] * 256) == LEAST_BYTES
        True
        >>> least_length([300_000] * 257) == 2 * LEAST_BYTES
        True
    """
    small = [length for length in lengths if length < LARGE_BYTES]
    threshold = LEAST_BYTES
    while threshold < LARGE_BYTES and sum(length >= threshold for length in small) > MOST_SMALL:
        threshold *= 2
    return threshold


def without(
    whole: Sequence[WholeStripe],
    inserts: Sequence[AcidFile],
    chosen: Mapping[str, tuple[int, ...]] = {},
) -> dict[str, tuple[int, ...] | None]:
    """Return the numbers of the chosen stripes that are not in `whole`, by file key.

    The value None means all stripes of the file. A file is not in the dict if all its chosen
    stripes are in `whole`.
    """
    remainder: dict[str, tuple[int, ...] | None] = {
        file.key: chosen.get(file.key) for file in inserts
    }
    for key, stripes in itertools.groupby(
        sorted(whole, key=lambda stripe: stripe.file.key), key=lambda stripe: stripe.file.key
    ):
        file_stripes = list(stripes)
        numbers = {stripe.number for stripe in file_stripes}
        own = chosen.get(key, range(len(file_stripes[0].tail.stripes)))
        rest = tuple(n for n in own if n not in numbers)
        if rest:
            remainder[key] = rest
        else:
            del remainder[key]
    return remainder


def between(
    events: Iterator[pa.RecordBatch], whole: Sequence[WholeStripe]
) -> Iterator[pa.RecordBatch | WholeStripe]:
    """Insert whole stripes between sorted events, none of which is within a stripe's range."""
    waiting = list(reversed(whole))
    for batch in events:
        rest = batch
        while waiting and rest.num_rows:
            count = Keys.of(rest).count_below(waiting[-1].first)
            if count == rest.num_rows:
                break
            if count:
                yield rest.slice(0, count)
                rest = rest.slice(count)
            yield waiting.pop()
        yield rest
    yield from reversed(waiting)


def _copyable_tail(
    file: AcidFile, columns: Sequence[Column], options: WriterOptions
) -> OrcTail | None:
    if file.kind is not FileKind.DATA or file.length < LEAST_BYTES:
        return None
    tail = file.tail()
    return tail if tail.stripes and _is_as_we_write(tail, columns, options) else None


def _is_as_we_write(tail: OrcTail, columns: Sequence[Column], options: WriterOptions) -> bool:
    writer, version = tail.footer.writer, tail.postscript.writer_version
    return (
        list(tail.footer.types) == acid_types(columns)
        and list(tail.postscript.version) == _VERSION
        and version >= _OLDEST_OF_WRITER.get(writer, version + 1)
        and tail.compression == options.kind
        and tail.row_index_stride == options.row_index_stride
        and tail.integer_range(acid.OPERATION_COLUMN_ID)
        == (acid.Operation.INSERT, acid.Operation.INSERT)
        and tail.calendar is OrcCalendar.PROLEPTIC_GREGORIAN
        and len(tail.metadata.stripes) == len(tail.stripes)
        and all(len(stripe.columns) == len(tail.types) for stripe in tail.metadata.stripes)
    )


def _ranges(
    file: AcidFile,
    tail: OrcTail | None,
    numbers: Iterable[int],
    least: int,
    stays: Callable[[pa.RecordBatch], bool],
) -> Iterator[_Range]:
    if tail is None:
        yield _range_of_file(file)
        return
    contents = _copyable(file, tail, numbers, least)
    for number in numbers:
        if tail.stripes[number].rows:
            yield _range(file, tail, number, contents.get(number), stays)


def _range_of_file(file: AcidFile) -> _Range:
    # If the file's directory limits the write IDs, do not read the footer: each of a thousand small
    # deltas would need one more request to the store.
    if file.synthetic is not None:
        return _Range(first=file.least_key, last=(file.synthetic.write_id, LONG_MAX, LONG_MAX))
    if file.greatest_write_id is not None:
        return _Range(first=file.least_key, last=(file.greatest_write_id, LONG_MAX, LONG_MAX))
    ends = list(end_keys(file, bounds_of(file, file.tail())))
    first = min((first for first, _ in ends), default=file.least_key)
    last = max((last for _, last in ends), default=file.least_key)
    up_to = file.keys.up_to
    return _Range(
        first=max(first, file.least_key), last=last if up_to is None else min(last, up_to)
    )


def _copyable(
    file: AcidFile, tail: OrcTail, numbers: Iterable[int], least: int
) -> dict[int, StripeContent]:
    contents = {}
    with file_errors("read", file.path), file.fs.open_input_file(file.path) as source:
        for number in numbers:
            if tail.stripes[number].length < least:
                continue
            with suppress(UnsupportedFileError):
                content = stripe_content(source, tail, number)
                if content.writer_time_zone in UTC_ZONES:
                    contents[number] = content
    return contents


def _range(
    file: AcidFile,
    tail: OrcTail,
    number: int,
    content: StripeContent | None,
    stays: Callable[[pa.RecordBatch], bool],
) -> _Range:
    ends: list[acid.RecordIdentifier] = []
    all_stay = True
    for batch in read_events(file, (), stripes=[number], batch_rows=_ROWS_PER_CHECK, tail=tail):
        start, end = identity_at(batch, 0), identity_at(batch, -1)
        all_stay = all_stay and (not ends or ends[-1] < start) and stays(batch)
        ends += start, end
    first, last = ends[0], ends[-1]
    if content is None or not all_stay:
        return _Range(first=first, last=last)
    whole = WholeStripe(
        file=file, tail=tail, number=number, content=content, first=first, last=last
    )
    return _Range(first=first, last=last, whole=whole)


def _stays(batch: pa.RecordBatch, *, write_ids: ValidWriteIdList, bucket_id: BucketId) -> bool:
    """Return whether all rows are visible, belong to this bucket, and have distinct identities."""
    current, keys = current_write_ids(batch), Keys.of(batch)
    properties = keys.bucket[:1] if keys.is_one_run() else np.unique(keys.bucket)
    try:
        buckets = {decode(BucketProperty(int(p))).bucket_id for p in properties}
    except InvalidNameError:
        return False
    return (
        buckets == {bucket_id}
        and bool((keys.original == current).all())
        and bool(visible_mask(current, write_ids).all())
        and keys.first_out_of_order(strictly=True) is None
    )


def _apart(ranges: Sequence[_Range]) -> list[WholeStripe]:
    """Return the stripes with identity ranges that overlap no other range, in identity order."""
    ordered = sorted(ranges, key=lambda r: (r.first, r.last))
    following = [stripe_range.first for stripe_range in ordered[1:]]
    stripes: list[WholeStripe] = []
    reached: Key | None = None
    for stripe_range, next_first in itertools.zip_longest(ordered, following):
        starts_alone = reached is None or reached < stripe_range.first
        ends_alone = next_first is None or stripe_range.last < next_first
        if stripe_range.whole is not None and starts_alone and ends_alone:
            stripes.append(stripe_range.whole)
        reached = stripe_range.last if reached is None else max(reached, stripe_range.last)
    return stripes


def _untouched(
    stripes: Sequence[WholeStripe], deletes: Sequence[AcidFile], write_ids: ValidWriteIdList
) -> tuple[WholeStripe, ...]:
    candidates = [d for d in deletes if any(d.may_overlap(stripe.file) for stripe in stripes)]
    touched: set[int] = set()
    for batch in visible_in(candidates, write_ids):
        keys = Keys.of(batch)
        start, stop = keys.at(0), keys.at(-1)
        for index, stripe in enumerate(stripes):
            if index in touched or stripe.last < start or stop < stripe.first:
                continue
            if keys.count_up_to(stripe.last) > keys.count_below(stripe.first):
                touched.add(index)
    return tuple(stripe for index, stripe in enumerate(stripes) if index not in touched)

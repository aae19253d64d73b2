"""Split the compaction of a large bucket into ranges of row identities, one task for each range.

Input is the files with the bucket's rows. Output is parts: ranges that together contain every
identity exactly once, each with the stripes that may have rows in the range. Stripes are assigned
by the statistics of their identity columns; the module reads footers, but no rows. A task cuts the
rows of its stripes to its range, so a stripe may belong to several parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_hiveacid.storage.acid.identity import Key, KeyRange
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.acid.read.stripe_bounds import bounds_of, end_keys
from airflow_hiveacid.storage.acid.write.whole_stripes import least_length
from airflow_hiveacid.storage.stores.threads import each_in_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One range, the files that may have rows in the range, and the numbers of their stripes.

    `stripes` contains the 0-based numbers by file key.
    """

    keys: KeyRange
    inserts: tuple[AcidFile, ...]
    stripes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitBucket:
    """The parts of a bucket in identity order.

    `rows` is the number of rows in all files, whether visible or not. `least_bytes` is the length
    from which a stripe is copied into the bucket's file.
    """

    parts: tuple[Part, ...]
    rows: int
    least_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stripe:
    """One stripe with rows, and bounds of its identities, both inclusive."""

    file: AcidFile
    number: int
    length: int
    rows: int
    first: Key
    last: Key


def split_bucket(inserts: Sequence[AcidFile], part_bytes: int) -> SplitBucket | None:
    """Split a bucket's files into parts of about `part_bytes`; return None for one part."""
    stripes = list(itertools.chain.from_iterable(each_in_threads(_stripes, inserts)))
    limits = _limits(stripes, part_bytes)
    if not limits:
        return None
    ends = [*limits, None]
    ranges = [KeyRange(after=a, up_to=b) for a, b in zip([None, *limits], ends, strict=True)]
    return SplitBucket(
        parts=tuple(_part(keys, stripes) for keys in ranges),
        rows=sum(stripe.rows for stripe in stripes),
        least_bytes=least_length(stripe.length for stripe in stripes),
    )


def numbers_by_file(stripes: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Group stripes, given by file key and number, by file; the numbers of a file ascend."""
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


def _part(keys: KeyRange, stripes: Sequence[_Stripe]) -> Part:
    matches = [stripe for stripe in stripes if keys.may_contain_some(stripe.first, stripe.last)]
    return Part(
        keys=keys,
        inserts=tuple({stripe.file.key: stripe.file for stripe in matches}.values()),
        stripes=numbers_by_file((stripe.file.key, stripe.number) for stripe in matches),
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

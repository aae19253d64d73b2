"""Find the bounds of the row identities in each stripe of a file.

Both ends of a range are inclusive. No rows are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from airflow_hiveacid.format.ids import LONG_MAX
from airflow_hiveacid.storage.acid.identity import LONG_MIN, Key
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMN_IDS
from airflow_hiveacid.storage.orc.footer import OrcTail

KeyBounds = tuple[tuple[int, int] | None, ...]
"""Least and greatest value of each identity column of one stripe; None if unknown."""


def bounds_of(file: AcidFile, tail: OrcTail) -> list[KeyBounds]:
    """Return the bounds of every stripe, in file order."""
    identity = file.synthetic
    stripes = range(len(tail.stripes))
    if identity is None:
        return [tuple(tail.integer_range(c, s) for c in IDENTITY_COLUMN_IDS) for s in stripes]
    ends = itertools.accumulate(stripe.rows for stripe in tail.stripes)
    property_ = int(identity.bucket_property)
    return [
        (
            (int(identity.write_id), int(identity.write_id)),
            (property_, property_),
            (identity.first_row_id + end - stripe.rows, identity.first_row_id + end - 1),
        )
        for stripe, end in zip(tail.stripes, ends, strict=True)
    ]


def end_keys(file: AcidFile, bounds: Iterable[KeyBounds]) -> Iterator[tuple[Key, Key]]:
    """Yield a lower and an upper bound of each stripe's identities.

    Identities are compared column by column, so the least value of each column forms a lower bound.
    """
    greatest = LONG_MAX if file.greatest_write_id is None else file.greatest_write_id
    defaults = ((file.least_write_id, greatest), (LONG_MIN, LONG_MAX), (LONG_MIN, LONG_MAX))
    for ranges in bounds:
        write_id, bucket, row = (a or b for a, b in zip(ranges, defaults, strict=True))
        yield (write_id[0], bucket[0], row[0]), (write_id[1], bucket[1], row[1])


def meeting(found: Sequence[KeyBounds], wanted: Iterable[KeyBounds]) -> list[int]:
    """Return the indices of the stripes that may share a row with a stripe in `wanted`."""
    targets = list(wanted)
    return [
        number
        for number, bounds in enumerate(found)
        if any(_may_overlap(bounds, target) for target in targets)
    ]


def _may_overlap(one: KeyBounds, other: KeyBounds) -> bool:
    return all(
        a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])
        for a, b in zip(one, other, strict=True)
    )

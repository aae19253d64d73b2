"""Merge column statistics of ORC files, and remove statistics that a footer must not hold.

Typed statistics that are incomplete in one part are omitted: without a minimum, a reader takes the
column for all NULL, and skips the rows (RecordReaderImpl.evaluatePredicateRange).

Example:
    >>> one = pb.ColumnStatistics(values=1, integers=pb.IntegerStatistics(minimum=5, maximum=5))
    >>> two = pb.ColumnStatistics(values=1, integers=pb.IntegerStatistics(minimum=9, maximum=9))
    >>> merge_statistics([one, two]).integers.maximum
    9
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

LONGEST_BOUND_BYTES: Final = 1024
"""The longest string in a footer (ORC's StringStatisticsImpl.MAX_BYTES_RECORDED)."""

_LONG: Final = range(-(1 << 63), 1 << 63)
_UNSIGNED_LONG: Final = range(1 << 64)
_DECIMAL_DIGITS: Final = 38
# Bytes order these characters behind all others, UTF-16 units between them: below U+E000, a
# character has one unit, and all greater characters sort behind it in both orders.
_ORDERED_OTHERWISE: Final = re.compile("[\ue000-\U0010ffff]")
# The next character of these is longer in UTF-8, or begins with a surrogate in UTF-16.
_NOT_INCREMENTED: Final = frozenset({"\x7f", "\u07ff", "\ud7ff"})
# Java increments U+D7FF and U+FFFF to these, which sort before them in UTF-16.
_NOT_COUNTED_UP: Final = ("?", "\U00010000")
_REPLACED: Final = "\ufffd".encode()
# With this precision, sums of 38-digit decimals of any scale are exact for up to 2**64 rows.
_EXACT: Final = decimal.Context(prec=160)
# Defaults of absent fields. A field's value is 1 more than the nanoseconds within the millisecond.
_LEAST_NANOS: Final = 1
_MOST_NANOS: Final = 1_000_000

_Typed = Any
"""One of the typed statistics messages; protobuf has no common type for them."""


def merge_statistics(parts: Sequence[pb.ColumnStatistics]) -> pb.ColumnStatistics:
    """Merge the statistics of one column from all parts; `parts` must not be empty."""
    merged = pb.ColumnStatistics(
        values=sum(part.values for part in parts),
        # A part without this field may hold NULL (as in ORC's ColumnStatisticsImpl).
        has_null=any(part.has_null or not part.HasField("has_null") for part in parts),
    )
    if all(part.HasField("bytes_on_disk") for part in parts):
        merged.bytes_on_disk = sum(part.bytes_on_disk for part in parts)
    kinds = {kind for part in parts for kind in _MERGERS if part.HasField(kind)}
    if len(kinds) == 1:
        _merge_typed(merged, kinds.pop(), parts)
    return merged


def merge_stripes(stripes: Sequence[pb.StripeStatistics]) -> list[pb.ColumnStatistics]:
    """Merge the statistics of a file's stripes (at least one) into one entry per column."""
    columns = zip(*(stripe.columns for stripe in stripes), strict=True)
    return [merge_statistics(column) for column in columns]


def restate_bounds(column: pb.ColumnStatistics) -> bool:
    """Make a column's bounds right for every reader, or remove them; return True if one changed.

    Readers use bounds only to skip rows outside them, so wider bounds are safe for all readers.

    String bounds are in the order of the bytes, but Java's readers compare UTF-16 units. A bound is
    cut before the first character for which the two orders differ. A long bound would make the
    footer large, so it is cut, too. If no bound is right in both orders, both are removed.

    For numbers, 0.0 equals -0.0, but Java's readers compare statistics with -0.0 below 0.0. The
    writers ignore NaN, or take it for both bounds, and not every reader notices.
    """
    if column.HasField("strings"):
        return _restate_strings(column)
    if column.HasField("doubles"):
        return _restate_doubles(column)
    return False


def _restate_strings(column: pb.ColumnStatistics) -> bool:
    # `plain_bounds` first moves Java's bounds to the fields that are read below, or removes them.
    changed, strings = plain_bounds(column), column.strings
    if not column.HasField("strings") or not column.values:
        return changed
    if not (strings.HasField("minimum") and strings.HasField("maximum")):
        keep_lengths_only(column)
        return True
    old_bounds = strings.minimum, strings.maximum
    greatest = _above(strings.maximum)
    if greatest is None:
        keep_lengths_only(column)
        return True
    strings.minimum, strings.maximum = _plain_prefix(strings.minimum).encode(), greatest
    return bool(changed or old_bounds != (strings.minimum, strings.maximum))


def _restate_doubles(column: pb.ColumnStatistics) -> bool:
    doubles = column.doubles
    if not column.values:
        return False
    if not _have([doubles], "minimum", "maximum", "sum") or math.isnan(doubles.sum):
        column.ClearField("doubles")
        return True
    old_bytes = doubles.SerializeToString()
    doubles.minimum = -0.0 if doubles.minimum == 0 else doubles.minimum
    doubles.maximum = 0.0 if doubles.maximum == 0 else doubles.maximum
    return bool(doubles.SerializeToString() != old_bytes)


def has_replaced_bounds(strings: pb.StringStatistics) -> bool:
    """Return True if a bound has U+FFFD, which Java writes in place of bytes that are not UTF-8."""
    ends = (strings.minimum, strings.maximum, strings.lower_bound, strings.upper_bound)
    return any(_REPLACED in end for end in ends)


def plain_bounds(column: pb.ColumnStatistics) -> bool:
    """Move Java's string bounds to the fields that all readers use; return True if one changed.

    Both are dropped if the last character that Java incremented does not sort after the original in
    UTF-16, or if Java may have replaced bytes.
    """
    strings = column.strings
    if has_replaced_bounds(strings):
        keep_lengths_only(column)
        return True
    if not (strings.HasField("lower_bound") or strings.HasField("upper_bound")):
        return False
    minimum = strings.minimum if strings.HasField("minimum") else strings.lower_bound
    maximum = strings.maximum if strings.HasField("maximum") else strings.upper_bound
    if strings.HasField("upper_bound") and not _is_counted_up(maximum):
        keep_lengths_only(column)
        return True
    for field in ("lower_bound", "upper_bound"):
        strings.ClearField(field)
    strings.minimum, strings.maximum = minimum, maximum
    return True


def _is_counted_up(text: bytes) -> bool:
    try:
        return not text.decode().endswith(_NOT_COUNTED_UP)
    except UnicodeDecodeError:
        return False


def as_dates(column: pb.ColumnStatistics) -> bool:
    """Replace integer statistics of day numbers with date statistics; always return True."""
    integers = column.integers
    days = {
        field: getattr(integers, field)
        for field in ("minimum", "maximum")
        if integers.HasField(field)
    }
    column.ClearField("integers")
    column.dates.SetInParent()
    for field, value in days.items():
        setattr(column.dates, field, value)
    return True


def keep_lengths_only(column: pb.ColumnStatistics) -> None:
    """Remove string bounds; the total length, which limits batch sizes, moves to binary's field."""
    total = column.strings.sum if column.strings.HasField("sum") else None
    column.ClearField("strings")
    if total is not None:
        column.binaries.sum = total


def length_sum(column: pb.ColumnStatistics) -> int | None:
    """Return the total bytes of a column's strings or binaries; None if not recorded."""
    if not column.values:
        return 0
    for typed in (column.strings, column.binaries):
        if typed.HasField("sum") and typed.sum >= 0:
            return int(typed.sum)
    return None


def _plain_prefix(text: bytes) -> str:
    # The longest prefix that sorts alike in both orders, before bytes that are not UTF-8.
    start = text[:LONGEST_BOUND_BYTES].decode(errors="replace")
    return _ORDERED_OTHERWISE.split(start, maxsplit=1)[0]


def _above(text: bytes) -> bytes | None:
    """Return the text, or a greater one that sorts alike in both orders; None if there is none."""
    prefix = _plain_prefix(text)
    if prefix.encode() == text:
        return text
    for end in range(len(prefix), 0, -1):
        if prefix[end - 1] not in _NOT_INCREMENTED:
            return f"{prefix[: end - 1]}{chr(ord(prefix[end - 1]) + 1)}".encode()
    return None


def _merge_typed(
    merged: pb.ColumnStatistics, kind: str, parts: Sequence[pb.ColumnStatistics]
) -> None:
    filled = [part for part in parts if part.values]
    if not filled:  # all values are NULL, so the statistics of any part are correct
        typed = next(getattr(part, kind) for part in parts if part.HasField(kind))
        getattr(merged, kind).CopyFrom(typed)
    elif all(part.HasField(kind) for part in filled):
        typed = _MERGERS[kind]([getattr(part, kind) for part in filled])
        if typed is not None:
            getattr(merged, kind).CopyFrom(typed)


def _have(parts: Sequence[_Typed], *fields: str) -> bool:
    return all(part.HasField(field) for part in parts for field in fields)


def _sum(parts: Sequence[_Typed], field: str, representable: range) -> int | None:
    total = sum(getattr(part, field) for part in parts)
    return total if _have(parts, field) and total in representable else None


def _bounds(parts: Sequence[_Typed]) -> dict[str, Any] | None:
    """Return the least minimum and the greatest maximum; None if a part lacks one."""
    if not _have(parts, "minimum", "maximum"):
        return None
    return {
        "minimum": min(part.minimum for part in parts),
        "maximum": max(part.maximum for part in parts),
    }


def _merge_bounded(kind: type[_Typed], parts: Sequence[_Typed]) -> _Typed | None:
    bounds = _bounds(parts)
    return None if bounds is None else kind(**bounds, sum=_sum(parts, "sum", _LONG))


def _merge_doubles(parts: Sequence[_Typed]) -> pb.DoubleStatistics | None:
    # Readers ignore bounds beside a sum of NaN (evaluatePredicateProto), so every part needs one.
    bounds = _bounds(parts) if _have(parts, "sum") else None
    if bounds is None:
        return None
    return pb.DoubleStatistics(**bounds, sum=_float_sum([part.sum for part in parts]))


def _float_sum(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # the sum exceeds the largest double, or is inf - inf
        return math.nan


def _merge_booleans(parts: Sequence[_Typed]) -> pb.BooleanStatistics | None:
    if any(len(part.count) != 1 for part in parts):
        return None
    return pb.BooleanStatistics(count=[sum(part.count[0] for part in parts)])


def _merge_decimals(parts: Sequence[_Typed]) -> pb.DecimalStatistics | None:
    if not _have(parts, "minimum", "maximum"):
        return None
    return pb.DecimalStatistics(
        minimum=min((part.minimum for part in parts), key=_EXACT.create_decimal),
        maximum=max((part.maximum for part in parts), key=_EXACT.create_decimal),
        sum=_decimal_sum([part.sum for part in parts]) if _have(parts, "sum") else None,
    )


def _decimal_sum(values: Sequence[str]) -> str | None:
    total = decimal.Decimal(0)
    for value in values:
        total = _EXACT.add(total, _EXACT.create_decimal(value))
    return f"{total:f}" if len(total.as_tuple().digits) <= _DECIMAL_DIGITS else None


def _merge_dates(parts: Sequence[_Typed]) -> pb.DateStatistics | None:
    bounds = _bounds(parts)
    return None if bounds is None else pb.DateStatistics(**bounds)


def _merge_timestamps(parts: Sequence[_Typed]) -> pb.TimestampStatistics | None:
    # Before ORC-135, bounds are in the writer's time zone, so they are not comparable.
    if not _have(parts, "minimum_utc", "maximum_utc"):
        return None
    low = min((part.minimum_utc, part.minimum_nanos or _LEAST_NANOS) for part in parts)
    high = max((part.maximum_utc, part.maximum_nanos or _MOST_NANOS) for part in parts)
    return pb.TimestampStatistics(
        minimum_utc=low[0],
        maximum_utc=high[0],
        minimum_nanos=low[1] if low[1] != _LEAST_NANOS else None,
        maximum_nanos=high[1] if high[1] != _MOST_NANOS else None,
    )


def _merge_collections(parts: Sequence[_Typed]) -> pb.CollectionStatistics:
    # Merge fields separately: the C++ writer omits bounds of 0. They skip no rows.
    merged = pb.CollectionStatistics(total_children=_sum(parts, "total_children", _UNSIGNED_LONG))
    if _have(parts, "minimum_children", "maximum_children"):
        merged.minimum_children = min(part.minimum_children for part in parts)
        merged.maximum_children = max(part.maximum_children for part in parts)
    return merged


_MERGERS: Final[Mapping[str, Callable[[Sequence[_Typed]], Any]]] = {
    "integers": partial(_merge_bounded, pb.IntegerStatistics),
    "doubles": _merge_doubles,
    "strings": partial(_merge_bounded, pb.StringStatistics),
    "booleans": _merge_booleans,
    "decimals": _merge_decimals,
    "dates": _merge_dates,
    "binaries": lambda parts: pb.BinaryStatistics(sum=_sum(parts, "sum", _LONG)),
    "timestamps": _merge_timestamps,
    "collections": _merge_collections,
}

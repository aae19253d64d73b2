"""Timestamps out of ORC files, whole: from year 1 to 9999, with nanoseconds.

Arrow counts nanoseconds in 64 bits, from 1677 to 2262, and refuses a file with any value beyond,
where many a "valid until" lies. The file's own seconds and nanoseconds can be read apart
(`orc.view`). Takes either reading of a column; gives the form that the caller can use, or an error
where a value does not fit it: never another value.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.values.calendars import to_proleptic_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.storage.orc.footer import OrcTail

SECONDS: Final = "seconds"
NANOS: Final = "nanos"
PAIR_TYPE: Final = pa.struct([(SECONDS, pa.int64()), (NANOS, pa.int32())])
"""Seconds since 1970-01-01 00:00:00, rounded down, and the 0..999999999 nanoseconds above them."""

NANOS_A_SECOND: Final = 1_000_000_000
UNITS_A_SECOND: Final[Mapping[str, int]] = {
    "s": 1,
    "ms": 10**3,
    "us": 10**6,
    "ns": NANOS_A_SECOND,
}
"""How many of each of Arrow's units make a second."""

NANOSECONDS_REACH_S: Final = ((1 << 63) - 1) // NANOS_A_SECOND
"""As many seconds before and after 1970 fit into Arrow's nanoseconds."""

# ORC counts seconds from 2015-01-01 (TimestampTreeWriter.BASE_TIMESTAMP_STRING).
_ORC_EPOCH_S: Final = 1_420_070_400
_CUT_NANOS: Final = 999_999
# Statistics may be in the writer's time zone, and its rules may differ from ours by this much.
_MARGIN_S: Final = 2 * 86400
_MILLIS: Final = 1000

_Ints = npt.NDArray[np.int64]


class TimestampForm(enum.Enum):
    """How timestamps come out.

    NANOSECONDS and MICROSECONDS are Arrow timestamps; a value that does not fit is an error. PAIR
    is `PAIR_TYPE`, which holds every value.
    """

    NANOSECONDS = "ns"
    MICROSECONDS = "us"
    PAIR = "pair"


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """The timestamps of one array; where `valid` is False the numbers mean nothing."""

    seconds: _Ints
    nanos: _Ints
    valid: npt.NDArray[np.bool_]


def may_overflow(tail: OrcTail, column_id: int) -> bool:
    """Whether a timestamp column may hold values beyond Arrow's nanoseconds, by the statistics.

    Files without a row index may carry any statistics, so they prove nothing.
    """
    statistics = tail.statistics(column_id)
    if statistics is None or not tail.row_index_stride:
        return True
    found = statistics.timestamps
    bounds = [
        getattr(found, name)
        for name in ("minimum", "maximum", "minimum_utc", "maximum_utc")
        if found.HasField(name)
    ]
    if len(bounds) < 2:  # noqa: PLR2004 - a least and a greatest
        return bool(statistics.values)
    return any(abs(bound) // _MILLIS > NANOSECONDS_REACH_S - _MARGIN_S for bound in bounds)


def instants(array: pa.Array, raw_seconds: pa.Array | None, *, hybrid: bool) -> Instants:
    """The timestamps of a column.

    Args:
        array: what Arrow reads; with `raw_seconds`, only the nanoseconds of it mean something.
        raw_seconds: the seconds as a long, of a writer in UTC; None if the array is whole.
        hybrid: whether the file's old dates are in the hybrid calendar.
    """
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = counts_of(array)
    if raw_seconds is None:
        return Instants(numbers // NANOS_A_SECOND, numbers % NANOS_A_SECOND, valid)
    nanos = numbers - _ORC_EPOCH_S * NANOS_A_SECOND
    seconds = counts_of(raw_seconds) + _ORC_EPOCH_S
    # Writers cut seconds towards zero, so that those before 1970 with a fraction are one too high;
    # all readers take it back so (TimestampTreeReader.nextVector).
    seconds -= (seconds < 0) & (nanos > _CUT_NANOS)
    # Arrow's writer goes below zero with the nanoseconds instead.
    seconds += nanos // NANOS_A_SECOND
    if hybrid:
        seconds = to_proleptic_seconds(seconds)
    return Instants(seconds, nanos % NANOS_A_SECOND, valid)


def of_pairs(pairs: pa.Array) -> Instants:
    """Take pairs apart."""
    seconds: _Ints = pairs.field(SECONDS).fill_null(0).to_numpy()
    nanos: _Ints = pairs.field(NANOS).fill_null(0).to_numpy().astype(np.int64)
    return Instants(seconds, nanos, pairs.is_valid().to_numpy(zero_copy_only=False))


def in_form(
    found: Instants, form: TimestampForm, zone: str | None, *, path: str, column: str
) -> pa.Array:
    """Turn timestamps into the wanted form; `zone` is the Arrow time zone of the column or None.

    Raises:
        UnsupportedFileError: a value does not fit.
    """
    if form is TimestampForm.PAIR:
        return pa.StructArray.from_arrays(
            [pa.array(found.seconds), pa.array(found.nanos.astype(np.int32))],
            fields=list(PAIR_TYPE),
            mask=pa.array(~found.valid),
        )
    units_a_second = UNITS_A_SECOND[form.value]
    nanos_a_unit = NANOS_A_SECOND // units_a_second
    fits = (found.nanos % nanos_a_unit == 0) & _reaches(found, units_a_second)
    if not fits[found.valid].all():
        raise UnsupportedFileError(
            path=path,
            reason=f"column {column!r} holds timestamps that 64 bits of {form.value} cannot hold"
            " exactly",
        )
    values = np.where(found.valid, found.seconds * units_a_second + found.nanos // nanos_a_unit, 0)
    return pa.array(values, mask=~found.valid).cast(pa.timestamp(form.value, zone))


def _reaches(found: Instants, units_a_second: int) -> npt.NDArray[np.bool_]:
    """Which values lie within 64 bits of a unit."""
    least, most = -(1 << 63) // units_a_second, ((1 << 63) - 1) // units_a_second
    nanos_a_unit = NANOS_A_SECOND // units_a_second
    first = -(1 << 63) % units_a_second * nanos_a_unit
    last = ((1 << 63) - 1) % units_a_second * nanos_a_unit
    reaches: npt.NDArray[np.bool_] = (
        (found.seconds > least) | ((found.seconds == least) & (found.nanos >= first))
    ) & ((found.seconds < most) | ((found.seconds == most) & (found.nanos <= last)))
    return reaches


def seconds_and_nanos(values: pa.Array) -> tuple[_Ints, _Ints]:
    """Seconds since 1970 rounded down, and the nanoseconds above them; zeros for NULL.

    Args:
        values: Timestamps of any unit, or `PAIR_TYPE`.
    """
    if pa.types.is_struct(values.type):
        found = of_pairs(values)
        return np.where(found.valid, found.seconds, 0), np.where(found.valid, found.nanos, 0)
    unit = UNITS_A_SECOND[values.type.unit]
    seconds, rest = np.divmod(counts_of(values), unit)
    return seconds, rest * (NANOS_A_SECOND // unit)


def form_type(form: TimestampForm, zone: str | None) -> pa.DataType:
    """The Arrow type of a timestamp column in this form."""
    return PAIR_TYPE if form is TimestampForm.PAIR else pa.timestamp(form.value, zone)


def counts_of(array: pa.Array) -> _Ints:
    """Arrow timestamps as numbers of their unit; NULL is 0."""
    counts: _Ints = array.cast(pa.int64()).fill_null(0).to_numpy()
    return counts

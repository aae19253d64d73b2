"""Convert timestamps between Spark's form and ORC's form, at any depth of nesting.

Spark has microseconds; ORC has separate seconds and nanoseconds (`timestamps.PAIR_TYPE`). The
functions take and return Arrow arrays that differ only in timestamps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.storage.values.nested import null_mask, parts_of, unsliced, with_parts
from airflow_hiveacid.storage.values.timestamps import (
    NANOS,
    NANOS_A_SECOND,
    PAIR_TYPE,
    SECONDS,
    UNITS_A_SECOND,
    seconds_and_nanos,
)

_MICROS_A_SECOND: Final = UNITS_A_SECOND["us"]
_NANOS_A_MICRO: Final = NANOS_A_SECOND // _MICROS_A_SECOND


def with_pairs(array: pa.Array) -> pa.Array:
    """Replace each Arrow timestamp with an exact pair of seconds and nanoseconds."""
    return _mapped(array, lambda a: pa.types.is_timestamp(a.type), _as_pair)


def with_microseconds(array: pa.Array) -> pa.Array:
    """Replace each pair with Arrow microseconds without time zone, rounded down.

    Rounding down preserves the order. Microseconds cover more than the years 1 to 9999.
    """
    return _mapped(array, lambda a: a.type.equals(PAIR_TYPE), _as_microseconds)


def _mapped(
    array: pa.Array,
    is_meant: Callable[[pa.Array], bool],
    change: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    if is_meant(array):
        return change(array)
    if not pa.types.is_nested(array.type):
        return array
    array = unsliced(array)
    parts = [_mapped(part, is_meant, change) for part in parts_of(array)]
    types = [part.type for part in parts]
    if pa.types.is_struct(array.type):
        result_type = pa.struct(zip((field.name for field in array.type), types, strict=True))
    else:
        result_type = (pa.map_ if pa.types.is_map(array.type) else pa.list_)(*types)
    return with_parts(array, parts, result_type)


def _as_pair(array: pa.Array) -> pa.Array:
    seconds, nanos = seconds_and_nanos(array)
    return pa.StructArray.from_arrays(
        [pa.array(seconds), pa.array(nanos.astype(np.int32))],
        fields=list(PAIR_TYPE),
        mask=array.is_null(),
    )


def _as_microseconds(array: pa.Array) -> pa.Array:
    seconds = array.field(array.type.get_field_index(SECONDS)).fill_null(0).to_numpy()
    nanos = array.field(array.type.get_field_index(NANOS)).fill_null(0).to_numpy()
    counts = seconds * _MICROS_A_SECOND + nanos.astype(np.int64) // _NANOS_A_MICRO
    return pa.array(counts, mask=null_mask(array)).cast(pa.timestamp("us"))

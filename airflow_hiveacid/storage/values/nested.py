"""Take nested Arrow arrays and types apart, and put them together again with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def mask_of(array: pa.Array) -> pa.Array | None:
    """Return the mask of NULLs for the constructors of nested arrays; None if there are none."""
    return array.is_null() if array.null_count else None


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the mask of NULLs for NumPy."""
    mask: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def unsliced(array: pa.Array) -> pa.Array:
    """Return the array with offset 0, because lists can be rebuilt only from such arrays."""
    return pa.concat_arrays([array]) if array.offset else array


def parts_of(array: pa.Array) -> list[pa.Array]:
    """Return a struct's fields, a map's keys and items, or a list's values, of the whole array."""
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    return [array.values] if pa.types.is_list(array.type) else []


def with_parts(array: pa.Array, parts: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Return an array of this nested type with other parts, and with the same NULLs."""
    mask = mask_of(array)
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=mask)
    build = pa.MapArray if pa.types.is_map(type_) else pa.ListArray
    return build.from_arrays(array.offsets, *parts, type=type_, mask=mask)


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays that are not nested, at any depth; a NULL struct has NULL fields."""
    if not pa.types.is_nested(array.type):
        yield array
        return
    for part in array.flatten() if pa.types.is_struct(array.type) else parts_of(array):
        yield from leaves(part)


def with_leaf_types(
    type_: pa.DataType, change: Callable[[pa.DataType], pa.DataType]
) -> pa.DataType:
    """Replace the types that are not nested, at any depth."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, with_leaf_types(f.type, change)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(
            with_leaf_types(type_.key_type, change), with_leaf_types(type_.item_type, change)
        )
    if pa.types.is_list(type_):
        return pa.list_(with_leaf_types(type_.value_type, change))
    return change(type_)


def with_time_unit(type_: pa.DataType, unit: str) -> pa.DataType:
    """Return the type with all its timestamps in this unit."""
    return with_leaf_types(
        type_, lambda leaf: pa.timestamp(unit, leaf.tz) if pa.types.is_timestamp(leaf) else leaf
    )


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return a batch of these columns; without columns, the batch still has its rows."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    none = pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(none)

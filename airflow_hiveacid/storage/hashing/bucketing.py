"""Bucket IDs of rows, computed as in Hive (bucketing versions 1 and 2).

Readers skip files by bucket, so they would not find a row in the wrong bucket. So the module
refuses types for which it cannot compute Hive's hash. The rules are those of Hive's
ObjectInspectorUtils (getBucketHashCode and getBucketHashCodeOld). All arithmetic is modulo 2**32.

Example:
    >>> from airflow_hiveacid.format.types import parse_type
    >>> ids = pa.array([300000, None], pa.int32())
    >>> bucket_ids([ids], [parse_type("int")], 8, 2).to_pylist()
    [0, 0]
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.types import (
    TIMESTAMP_LOCAL,
    ArrayType,
    CharType,
    DecimalType,
    HiveType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from airflow_hiveacid.storage.hashing.java_values import (
    decimal_bytes,
    decimal_hash_code,
    timestamp_bytes,
)
from airflow_hiveacid.storage.hashing.murmur3 import murmur3_bytes, murmur3_words
from airflow_hiveacid.storage.values.char_text import unpadded
from airflow_hiveacid.storage.values.timestamps import seconds_and_nanos

Hashes = npt.NDArray[np.uint32]
"""One 32-bit hash per row; it is unsigned, so that numpy wraps around silently."""

OLD: Final = 1
MURMUR: Final = 2

_WORD_BITS: Final = 32
_INT_MAX: Final = 0x7FFFFFFF


def bucket_ids(
    arrays: Sequence[pa.Array], types: Sequence[HiveType], num_buckets: int, version: int
) -> pa.Int32Array:
    """Return the bucket of each row.

    `arrays` are one or more columns of equal length, in the order of CLUSTERED BY. `num_buckets` is
    at least 1. `version` is the table property `bucketing_version`: 1 or 2.
    """
    hashes = row_hashes(arrays, types, version)
    # Hive takes the low 31 bits of a negative hash, not its absolute value (getBucketNumber).
    return pa.array(((hashes & np.uint32(_INT_MAX)) % np.uint32(num_buckets)).astype(np.int32))


def row_hashes(arrays: Sequence[pa.Array], types: Sequence[HiveType], version: int) -> Hashes:
    """Return Hive's hash of each row over these columns, before the modulo by the bucket count."""
    for type_ in types:
        check_hashable(type_, version)
    total: Hashes = np.zeros(len(arrays[0]), np.uint32)
    for array, type_ in zip(arrays, types, strict=True):
        total = total * np.uint32(31) + _hash(array, type_, version)
    return total


def check_hashable(hive_type: HiveType, version: int) -> None:
    """Check that Hive's hash can be computed for a column of this type."""
    if version not in (OLD, MURMUR):
        raise _unsupported(hive_type, f"bucketing version {version} is not known")
    if isinstance(hive_type, UnionType):
        raise _unsupported(hive_type, "unions are not supported")
    reason = _UNHASHABLE.get((str(hive_type), version))
    if reason is not None:
        raise _unsupported(hive_type, reason)
    for part, part_version in _parts(hive_type, version):
        check_hashable(part, part_version)


_UNHASHABLE: Final[Mapping[tuple[str, int], str]] = {
    ("timestamp", OLD): "its hash depends on the time zone of the JVM",
    ("binary", MURMUR): "its hash covers unused bytes behind the value",
    (TIMESTAMP_LOCAL, OLD): "its hash is the hash code of a Java object",
    (TIMESTAMP_LOCAL, MURMUR): "its bytes are not known outside Hive",
}


def _parts(hive_type: HiveType, version: int) -> Sequence[tuple[HiveType, int]]:
    match hive_type:
        case ArrayType(element=element):
            return [(element, version)]
        case MapType(key=key, value=value):
            return [(key, version), (value, OLD)]  # values in maps always have the old hash
        case StructType(fields=fields):
            return [(field, version) for _, field in fields]
        case _:
            return []


def _unsupported(hive_type: HiveType, reason: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        table="of these columns",
        detail=f"cannot be bucketed by a column of type {hive_type}: {reason}",
    )


def _hash(array: pa.Array, hive_type: HiveType, version: int) -> Hashes:
    """Return the hash of each value in a column; the hash of NULL is 0."""
    match hive_type:
        case ArrayType() | MapType() | StructType():
            hashes = _of_nested(array, hive_type, version)
        case DecimalType():
            hashes = _of_decimals(array, version)
        case CharType():
            hashes = _of_bytes(unpadded(array), version, start=1)
        case VarcharType() | PrimitiveType(name="binary"):
            hashes = _of_bytes(array, version, start=1)
        case PrimitiveType(name="string"):
            hashes = _of_bytes(array, version, start=0)
        case PrimitiveType(name="timestamp"):
            hashes = _of_timestamps(array)
        case _:
            hashes = _OF_NUMBERS[str(hive_type)][version](_numbers(array))
    if not array.null_count:
        return hashes
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, np.uint32(0))


def _of_nested(array: pa.Array, hive_type: HiveType, version: int) -> Hashes:
    parts = _parts(hive_type, version)
    if pa.types.is_struct(array.type):
        total: Hashes = np.zeros(len(array), np.uint32)
        for values, (type_, part_version) in zip(array.flatten(), parts, strict=True):
            total = total * np.uint32(31) + _hash(values, type_, part_version)
        return total
    arrays = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    hashes = [_hash(values, *part) for values, part in zip(arrays, parts, strict=True)]
    offsets = array.offsets.to_numpy()
    if len(hashes) == 1:
        return _fold(hashes[0], offsets)
    return _segment_sums(hashes[0] ^ hashes[1], offsets)


# --- values of fixed width ---


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    filled = pc.fill_null(array, 0) if array.null_count else array
    numbers: npt.NDArray[Any] = filled.to_numpy()
    return numbers


def _as_it_is(numbers: npt.NDArray[Any]) -> Hashes:
    return numbers.astype(np.int32).view(np.uint32)


def _xor_halves(numbers: npt.NDArray[Any]) -> Hashes:
    longs = numbers.view(np.uint64)
    return (longs >> np.uint64(_WORD_BITS) ^ longs).astype(np.uint32)


def _int_bits(floats: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    canonical = np.where(np.isnan(floats), np.float32(np.nan), floats)
    return canonical.view(np.int32)


def _long_bits(doubles: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    canonical = np.where(np.isnan(doubles), np.nan, doubles)
    return canonical.view(np.int64)


def _murmur_short(numbers: npt.NDArray[Any]) -> Hashes:
    data = numbers.astype(">i2").view(np.uint8)
    return murmur3_bytes(data, np.arange(0, 2 * len(numbers) + 1, 2))


def _murmur_int(numbers: npt.NDArray[Any]) -> Hashes:
    return murmur3_words([numbers.view(np.uint32).byteswap()])


def _murmur_long(numbers: npt.NDArray[Any]) -> Hashes:
    words = numbers.astype(">i8").view("<u4").reshape(-1, 2)
    return murmur3_words([words[:, 0], words[:, 1]])


def _murmur_float(floats: npt.NDArray[Any]) -> Hashes:
    # Hive reads the float's bits as an integer, casts that integer to a float, and hashes the bits
    # of the result.
    return _murmur_int(_int_bits(floats).astype(np.float32).view(np.int32))


def _murmur_double(doubles: npt.NDArray[Any]) -> Hashes:
    return _murmur_long(_long_bits(doubles).astype(np.float64).view(np.int64))


_OF_NUMBERS: Final[Mapping[str, Mapping[int, Callable[[npt.NDArray[Any]], Hashes]]]] = {
    "boolean": {OLD: _as_it_is, MURMUR: _as_it_is},
    "tinyint": {OLD: _as_it_is, MURMUR: _as_it_is},
    "smallint": {OLD: _as_it_is, MURMUR: _murmur_short},
    "int": {OLD: _as_it_is, MURMUR: _murmur_int},
    "bigint": {OLD: _xor_halves, MURMUR: _murmur_long},
    "float": {OLD: lambda floats: _as_it_is(_int_bits(floats)), MURMUR: _murmur_float},
    "double": {OLD: lambda doubles: _xor_halves(_long_bits(doubles)), MURMUR: _murmur_double},
    "date": {OLD: _as_it_is, MURMUR: _murmur_int},
}


# --- text, and hashes of segments ---


def _of_bytes(array: pa.Array, version: int, *, start: int) -> Hashes:
    """Return the hash of each string's bytes; in version 1, `start` is the initial hash."""
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1, array.offset * 4)
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    if version == MURMUR:
        return murmur3_bytes(data, offsets)
    return _fold(data.view(np.int8).astype(np.uint32), offsets, start=start)


def _fold(items: Hashes, offsets: npt.NDArray[np.int32], *, start: int = 0) -> Hashes:
    """Hash each segment: begin with r = start; for each item, compute r = 31 * r + item."""
    lengths = np.diff(offsets)
    powers: Hashes = np.full(int(lengths.max(initial=0)) + 1, 31, np.uint32)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    hashes = items[offsets[0] : offsets[-1]]
    behind = np.repeat(offsets[1:], lengths) - np.arange(offsets[0], offsets[-1]) - 1
    sums = _segment_sums(hashes * powers[behind], offsets - offsets[0])
    folded: Hashes = sums + np.uint32(start) * powers[lengths]
    return folded


def _segment_sums(items: Hashes, offsets: npt.NDArray[np.int32]) -> Hashes:
    totals = np.concatenate((np.zeros(1, np.uint32), np.cumsum(items, dtype=np.uint32)))
    sums: Hashes = totals[offsets[1:]] - totals[offsets[:-1]]
    return sums


# --- values with only a scalar hash: each distinct value is hashed once, in Python ---
# Hashing 400,000 distinct values takes a second; tables are rarely bucketed by these types.


def _of_decimals(array: pa.Array, version: int) -> Hashes:
    encoded = array.dictionary_encode()
    hash_one = _OF_DECIMAL[version]
    hashes = np.array([hash_one(value) for value in encoded.dictionary.to_pylist()], np.uint32)
    return _spread(hashes, pc.fill_null(encoded.indices, 0).to_numpy())


def _of_timestamps(array: pa.Array) -> Hashes:
    distinct, positions = np.unique(
        np.stack(seconds_and_nanos(array), axis=1), axis=0, return_inverse=True
    )
    hashes = [_murmur_one(timestamp_bytes(*moment)) for moment in distinct.tolist()]
    return _spread(np.array(hashes, np.uint32), positions.reshape(-1))


def _spread(hashes: Hashes, positions: npt.NDArray[Any]) -> Hashes:
    # If all values are NULL, there are no hashes.
    return hashes[positions] if len(hashes) else np.zeros(len(positions), np.uint32)


def _murmur_decimal(value: decimal.Decimal) -> int:
    return _murmur_one(decimal_bytes(value))


def _murmur_one(data: bytes) -> int:
    return int(murmur3_bytes(np.frombuffer(data, np.uint8), np.array([0, len(data)]))[0])


_OF_DECIMAL: Final[Mapping[int, Callable[[decimal.Decimal], int]]] = {
    OLD: decimal_hash_code,
    MURMUR: _murmur_decimal,
}

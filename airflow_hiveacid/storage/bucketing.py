"""Which bucket a row belongs to: Hive's hash of the CLUSTERED BY columns, versions 1 and 2.

Takes Arrow arrays of the bucket columns and their Hive types; gives bucket IDs. Readers prune by
bucket, so a wrong one is a lost row: types whose hash depends on the machine are refused. Must not know
files nor tables. The rules are those of ObjectInspectorUtils (getBucketHashCode and
getBucketHashCodeOld) of Hive; all arithmetic is modulo 2**32.

Example:
    >>> from airflow_hiveacid.format.types import parse_type
    >>> ids = pa.array([300000, None], pa.int32())
    >>> bucket_ids([ids], [parse_type("int")], 8, 2).to_pylist()
    [0, 0]
"""

from __future__ import annotations

import itertools
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
from airflow_hiveacid.storage.murmur3 import murmur3_bytes, murmur3_words

Hashes = npt.NDArray[np.uint32]
"""One 32-bit hash a row, unsigned so that numpy wraps around silently."""

OLD: Final = 1
MURMUR: Final = 2

_SIGN_MASK: Final = np.uint32(0x7FFFFFFF)
_WORD_BITS: Final = 32
_NANOS_PER_SECOND: Final = 10**9
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": _NANOS_PER_SECOND}


def bucket_ids(
    arrays: Sequence[pa.Array], types: Sequence[HiveType], num_buckets: int, version: int
) -> pa.Int32Array:
    """The bucket of each row.

    Args:
        arrays: The bucket columns in the order of CLUSTERED BY, equally long, at least one.
        types: Their types.
        num_buckets: Of the table, at least 1.
        version: The table property `bucketing_version`: 1 or 2.

    Raises:
        UnsupportedTableError: the hash of a type cannot be known outside the JVM that wrote the
            table, or the version is neither 1 nor 2.
    """
    hashes = row_hashes(arrays, types, version)
    # Not the absolute value: a negative hash keeps its low 31 bits (getBucketNumber).
    return pa.array(((hashes & _SIGN_MASK) % np.uint32(num_buckets)).astype(np.int32))


def row_hashes(arrays: Sequence[pa.Array], types: Sequence[HiveType], version: int) -> Hashes:
    """Hive's hash of each row over these columns, before it is cut down to the buckets.

    Raises:
        UnsupportedTableError: see `bucket_ids`.
    """
    for type_ in types:
        check_hashable(type_, version)
    total: Hashes = np.zeros(len(arrays[0]), np.uint32)
    for array, type_ in zip(arrays, types, strict=True):
        total = total * np.uint32(31) + _hash(array, type_, version)
    return total


def check_hashable(hive_type: HiveType, version: int) -> None:
    """See that a column of this type can be hashed as Hive does.

    Raises:
        UnsupportedTableError: it cannot; says why.
    """
    if version not in (OLD, MURMUR):
        raise _unsupported(hive_type, f"bucketing version {version} is not known")
    match hive_type, version:
        case PrimitiveType(name="timestamp"), 1:
            raise _unsupported(hive_type, "its hash depends on the time zone of the JVM")
        case PrimitiveType(name="binary"), 2:
            raise _unsupported(hive_type, "its hash covers unused bytes behind the value")
        case PrimitiveType(name=name), _ if name == TIMESTAMP_LOCAL:
            raise _unsupported(hive_type, "its hash is that of a Java object")
        case UnionType(), _:
            raise _unsupported(hive_type, "unions are not supported")
        case ArrayType(element=element), _:
            check_hashable(element, version)
        case MapType(key=key, value=value), _:
            check_hashable(key, version)
            check_hashable(value, OLD)
        case StructType(fields=fields), _:
            for _, field in fields:
                check_hashable(field, version)


def _unsupported(hive_type: HiveType, reason: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        table="of these columns", detail=f"cannot be bucketed by a column of type {hive_type}: {reason}"
    )


def _hash(array: pa.Array, hive_type: HiveType, version: int) -> Hashes:
    """Hashes of one column; NULL is 0."""
    match hive_type:
        case ArrayType(element=element):
            hashes = _fold(_hash(array.values, element, version), array.offsets.to_numpy())
        case MapType(key=key, value=value):
            # The value of an entry keeps the old hash in both versions.
            entries = _hash(array.keys, key, version) ^ _hash(array.items, value, OLD)
            hashes = _segment_sums(entries, array.offsets.to_numpy())
        case StructType(fields=fields):
            hashes = np.zeros(len(array), np.uint32)
            for values, (_, field) in zip(array.flatten(), fields, strict=True):
                hashes = hashes * np.uint32(31) + _hash(values, field, version)
        case DecimalType():
            hashes = _of_distinct(array, _OF_DECIMAL[version])
        case CharType():
            stripped = pc.utf8_rtrim(array, characters=" ")
            hashes = _of_bytes(stripped, version, start=1)
        case VarcharType() | PrimitiveType(name="binary"):
            hashes = _of_bytes(array, version, start=1)
        case PrimitiveType(name="string"):
            hashes = _of_bytes(array, version, start=0)
        case PrimitiveType(name="timestamp"):
            hashes = _of_distinct(array, _murmur_timestamp)
        case PrimitiveType(name=name):
            hashes = _OF_NUMBERS[name][version](_numbers(array))
        case _:
            raise AssertionError(hive_type)  # `check_hashable` has refused it
    return _null_is_zero(array, hashes)


def _null_is_zero(array: pa.Array, hashes: Hashes) -> Hashes:
    if not array.null_count:
        return hashes
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, np.uint32(0))


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
    # Hive puts the bits, taken for a number, into the buffer as a float once more.
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


# --- text, and folding in general ---


def _of_bytes(array: pa.Array, version: int, *, start: int) -> Hashes:
    """Hashes of the bytes of strings; `start` is where the old one begins (Text or String of Java)."""
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1, array.offset * 4)
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    if version == MURMUR:
        return murmur3_bytes(data, offsets)
    return _fold(data.view(np.int8).astype(np.uint32), offsets, start=start)


def _fold(items: Hashes, offsets: npt.NDArray[np.int32], *, start: int = 0) -> Hashes:
    """r = start, then r = 31 * r + item for each item of a segment, for all segments at once."""
    lengths = np.diff(offsets)
    powers = np.multiply.accumulate(
        np.concatenate(([1], np.full(lengths.max(initial=0), 31))), dtype=np.uint32
    )
    used = items[offsets[0] : offsets[-1]]
    behind = np.repeat(offsets[1:], lengths) - np.arange(offsets[0], offsets[-1]) - 1
    sums = _segment_sums(used * powers[behind], offsets - offsets[0])
    return sums + np.uint32(start) * powers[lengths]


def _segment_sums(items: Hashes, offsets: npt.NDArray[np.int32]) -> Hashes:
    totals = np.concatenate((np.zeros(1, np.uint32), np.cumsum(items, dtype=np.uint32)))
    sums: Hashes = totals[offsets[1:]] - totals[offsets[:-1]]
    return sums


# --- values of which only a scalar form is known ---


def _of_distinct(array: pa.Array, hash_one: Callable[[Any], int]) -> Hashes:
    """Hash each distinct value once, in Python, and spread the hashes over the rows."""
    encoded = array.dictionary_encode()
    # 400,000 distinct decimals take a second; such columns are rarely bucketed by.
    hashes = np.array([hash_one(value) for value in _scalars(encoded.dictionary)], np.uint32)
    if not len(hashes):
        return np.zeros(len(array), np.uint32)
    return hashes[pc.fill_null(encoded.indices, 0).to_numpy()]


def _scalars(array: pa.Array) -> list[Any]:
    if not pa.types.is_timestamp(array.type):
        python: list[Any] = array.to_pylist()
        return python
    unit = _UNITS_PER_SECOND[array.type.unit]
    moments = (divmod(value, unit) for value in array.cast(pa.int64()).to_pylist())
    return [(seconds, rest * (_NANOS_PER_SECOND // unit)) for seconds, rest in moments]


def _trimmed(value: Any) -> tuple[int, int]:  # noqa: ANN401 - a Decimal
    """Unscaled value and scale without trailing zeros, as HiveDecimal keeps them."""
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))), -exponent
    if not unscaled:
        return 0, 0
    while scale > 0 and not unscaled % 10:
        unscaled, scale = unscaled // 10, scale - 1
    return -unscaled if sign else unscaled, scale


def _old_decimal(value: Any) -> int:  # noqa: ANN401 - a Decimal
    unscaled, scale = _trimmed(value)
    magnitude, words = abs(unscaled), []
    while magnitude:
        words.append(magnitude & 0xFFFFFFFF)
        magnitude >>= _WORD_BITS
    total = 0
    for word in reversed(words):
        total = 31 * total + word
    # BigInteger.hashCode folds in 32 bits before it takes the sign.
    signed = -total if unscaled < 0 else total
    return (31 * signed + scale) & 0xFFFFFFFF


def _murmur_decimal(value: Any) -> int:  # noqa: ANN401 - a Decimal
    unscaled, _ = _trimmed(value)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return _murmur_one(unscaled.to_bytes(length, "big", signed=True))


def _murmur_timestamp(moment: tuple[int, int]) -> int:
    return _murmur_one(timestamp_bytes(*moment))


def _murmur_one(data: bytes) -> int:
    return int(murmur3_bytes(np.frombuffer(data, np.uint8), np.array([0, len(data)]))[0])


def timestamp_bytes(seconds: int, nanos: int) -> bytes:
    """How Hive serialises a timestamp (TimestampWritableV2.convertTimestampToBytes).

    Example:
        >>> timestamp_bytes(1577836800, 123000000).hex()
        'de0be1008e0141'
    """
    is_long = not 0 <= seconds <= 0x7FFFFFFF
    has_more = is_long or nanos != 0
    first = (seconds & 0x7FFFFFFF) | (0x80000000 if has_more else 0)
    data = first.to_bytes(4, "big")
    if has_more:
        reversed_nanos = int(f"{nanos:09d}"[::-1])
        data += variable_long(-reversed_nanos - 1 if is_long else reversed_nanos)
    return data + variable_long(seconds >> 31) if is_long else data


def variable_long(value: int) -> bytes:
    """Hadoop's variable-length integer (WritableUtils.writeVLong).

    Example:
        >>> variable_long(-112).hex(), variable_long(321).hex()
        ('90', '8e0141')
    """
    if -112 <= value <= 127:
        return (value & 0xFF).to_bytes(1, "big")
    magnitude = value if value >= 0 else ~value
    length = (magnitude.bit_length() + 7) // 8
    head = (-112 if value >= 0 else -120) - length
    return (head & 0xFF).to_bytes(1, "big") + magnitude.to_bytes(length, "big")


_OF_DECIMAL: Final[Mapping[int, Callable[[Any], int]]] = {OLD: _old_decimal, MURMUR: _murmur_decimal}

"""Bucket IDs of rows, computed as in Hive (bucketing versions 1 and 2).

Readers would not find a row in the wrong bucket, so types without a known hash are refused. The
rules are those of ObjectInspectorUtils (getBucketHashCode and getBucketHashCodeOld), modulo 2**32.

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

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.storage.values.column_types import parts_of
from airflow_hiveacid.storage.values.limits import unpadded
from airflow_hiveacid.storage.values.timestamps import seconds_and_nanos

Hashes = npt.NDArray[np.uint32]
"""One 32-bit hash per row; it is unsigned, so that numpy wraps around silently."""

OLD: Final = 1
MURMUR: Final = 2

_WORD_BITS: Final = 32
_INT_MAX: Final = 0x7FFFFFFF


def bucket_ids(
    arrays: Sequence[pa.Array], types: Sequence[hive.HiveType], num_buckets: int, version: int
) -> pa.Int32Array:
    """Return the bucket of each row.

    `arrays` are one or more columns of equal length, in the order of CLUSTERED BY. `version` is the
    table property `bucketing_version`: 1 or 2.
    """
    hashes = row_hashes(arrays, types, version)
    # Hive takes the low 31 bits of a negative hash, not its absolute value (getBucketNumber).
    return pa.array(((hashes & np.uint32(_INT_MAX)) % np.uint32(num_buckets)).astype(np.int32))


def row_hashes(arrays: Sequence[pa.Array], types: Sequence[hive.HiveType], version: int) -> Hashes:
    """Return Hive's hash of each row over these columns, before the modulo by the bucket count."""
    for type_ in types:
        check_hashable(type_, version)
    total: Hashes = np.zeros(len(arrays[0]), np.uint32)
    for array, type_ in zip(arrays, types, strict=True):
        total = total * np.uint32(31) + _hash(array, type_, version)
    return total


def check_hashable(hive_type: hive.HiveType, version: int) -> None:
    """Check that Hive's hash can be computed for a column of this type."""
    if version not in (OLD, MURMUR):
        raise _unsupported(hive_type, f"bucketing version {version} is not known")
    if isinstance(hive_type, hive.UnionType):
        raise _unsupported(hive_type, "unions are not supported")
    reason = _UNHASHABLE.get((str(hive_type), version))
    if reason is not None:
        raise _unsupported(hive_type, reason)
    for part, part_version in _parts(hive_type, version):
        check_hashable(part, part_version)


_UNHASHABLE: Final[Mapping[tuple[str, int], str]] = {
    ("timestamp", OLD): "its hash depends on the time zone of the JVM",
    ("binary", MURMUR): "its hash covers unused bytes behind the value",
    (hive.TIMESTAMP_LOCAL, OLD): "its hash is the hash code of a Java object",
    (hive.TIMESTAMP_LOCAL, MURMUR): "its bytes are not known outside Hive",
}


def _parts(hive_type: hive.HiveType, version: int) -> list[tuple[hive.HiveType, int]]:
    parts = [(part, version) for _, part in parts_of(hive_type)]
    # values in maps always have the old hash
    return [parts[0], (parts[1][0], OLD)] if isinstance(hive_type, hive.MapType) else parts


def _unsupported(hive_type: hive.HiveType, reason: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        table="of these columns",
        detail=f"cannot be bucketed by a column of type {hive_type}: {reason}",
    )


def _hash(array: pa.Array, hive_type: hive.HiveType, version: int) -> Hashes:
    """Return the hash of each value in a column; the hash of NULL is 0."""
    match hive_type:
        case hive.ArrayType() | hive.MapType() | hive.StructType():
            hashes = _of_nested(array, hive_type, version)
        case hive.DecimalType():
            hashes = _of_decimals(array, version)
        case hive.CharType():
            hashes = _of_bytes(unpadded(array), version, start=1)
        case hive.VarcharType() | hive.PrimitiveType(name="binary"):
            hashes = _of_bytes(array, version, start=1)
        case hive.PrimitiveType(name="string"):
            hashes = _of_bytes(array, version, start=0)
        case hive.PrimitiveType(name="timestamp"):
            hashes = _of_timestamps(array)
        case _:
            hashes = _OF_NUMBERS[str(hive_type)][version](_numbers(array))
    if not array.null_count:
        return hashes
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, np.uint32(0))


def _of_nested(array: pa.Array, hive_type: hive.HiveType, version: int) -> Hashes:
    """Fold a struct's fields or an array's elements in order; sum a map's entries, key ^ value."""
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
    # Hive reads the float's bits as an integer, casts it to a float, and hashes its bits.
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
    # An item with k items behind it in its segment is multiplied by 31**k.
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
    values: list[decimal.Decimal] = encoded.dictionary.to_pylist()
    hashes = np.array(
        [decimal_hash_code(v) if version == OLD else _murmur_one(decimal_bytes(v)) for v in values],
        np.uint32,
    )
    return _spread(hashes, pc.fill_null(encoded.indices, 0).to_numpy())


def _of_timestamps(array: pa.Array) -> Hashes:
    # Only version 2, because `check_hashable` refuses version 1.
    distinct, positions = np.unique(
        np.stack(seconds_and_nanos(array), axis=1), axis=0, return_inverse=True
    )
    hashes = [_murmur_one(timestamp_bytes(*moment)) for moment in distinct.tolist()]
    return _spread(np.array(hashes, np.uint32), positions.reshape(-1))


def _spread(hashes: Hashes, positions: npt.NDArray[Any]) -> Hashes:
    # If all values are NULL, there are no hashes.
    return hashes[positions] if len(hashes) else np.zeros(len(positions), np.uint32)


def _murmur_one(data: bytes) -> int:
    return int(murmur3_bytes(np.frombuffer(data, np.uint8), np.array([0, len(data)]))[0])


# --- Java's and Hive's hash codes and binary forms of decimals, timestamps and integers ---

_WORD_MASK: Final = 0xFFFFFFFF
_ONE_BYTE: Final = range(-112, 128)
_LONGEST: Final = 8


def decimal_hash_code(value: decimal.Decimal) -> int:
    """Return Java's BigDecimal.hashCode; it is computed from 32-bit words and the scale."""
    unscaled, scale = _trimmed(value)
    total = 0
    for shift in reversed(range(0, abs(unscaled).bit_length(), _WORD_BITS)):
        total = 31 * total + (abs(unscaled) >> shift & _WORD_MASK)
    return (31 * (-total if unscaled < 0 else total) + scale) & _WORD_MASK


def decimal_bytes(value: decimal.Decimal) -> bytes:
    """Return Java's BigInteger.toByteArray of the unscaled value.

    Example:
        >>> from decimal import Decimal
        >>> decimal_bytes(Decimal("-1.280")).hex()
        '80'
    """
    unscaled, _ = _trimmed(value)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def timestamp_bytes(seconds: int, nanos: int) -> bytes:
    """Return a timestamp as Hive serialises it (TimestampWritableV2.convertTimestampToBytes).

    Example:
        >>> timestamp_bytes(1577836800, 123000000).hex()
        'de0be1008e0141'
    """
    is_long = not 0 <= seconds <= _INT_MAX
    has_more = is_long or nanos != 0
    first = (seconds & _INT_MAX) | (_INT_MAX + 1 if has_more else 0)
    data = first.to_bytes(4, "big")
    if has_more:
        # A negative number tells the reader that the upper bits of the seconds follow.
        reversed_nanos = int(f"{nanos:09d}"[::-1])
        data += variable_long(-reversed_nanos - 1 if is_long else reversed_nanos)
    return data + variable_long(seconds >> (_WORD_BITS - 1)) if is_long else data


def variable_long(value: int) -> bytes:
    """Return Hadoop's variable-length form of an integer (WritableUtils.writeVLong).

    Example:
        >>> variable_long(-112).hex(), variable_long(321).hex()
        ('90', '8e0141')
    """
    if value in _ONE_BYTE:
        return value.to_bytes(1, "big", signed=True)
    magnitude = value if value >= 0 else ~value
    length = (magnitude.bit_length() + 7) // 8
    # The first byte is -112 - length for positive numbers, and 8 less for negative numbers.
    head = _ONE_BYTE.start - length - (0 if value >= 0 else _LONGEST)
    return head.to_bytes(1, "big", signed=True) + magnitude.to_bytes(length, "big")


def _trimmed(value: decimal.Decimal) -> tuple[int, int]:
    """Return a decimal's unscaled value and scale without trailing zeros, as in HiveDecimal."""
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))), -int(exponent)
    if not unscaled:
        return 0, 0
    while scale > 0 and not unscaled % 10:
        unscaled, scale = unscaled // 10, scale - 1
    return -unscaled if sign else unscaled, scale


# --- Hive's variant of 32-bit Murmur3, computed over many values at once ---
# The variant sign-extends the one to three bytes after the last whole word (Murmur3.hash32). So
# common libraries compute different hashes for text that is not ASCII.

SEED: Final = np.uint32(104729)

_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_M: Final = np.uint32(5)
_N: Final = np.uint32(0xE6546B64)
_F1: Final = np.uint32(0x85EBCA6B)
_F2: Final = np.uint32(0xC2B2AE35)
_WORD_BYTES: Final = 4


def murmur3_words(words: Sequence[Hashes]) -> Hashes:
    """Return a hash per value; `words[i]` has the i-th little-endian 32-bit word of each value."""
    hashes = np.full(len(words[0]), SEED)
    for word in words:
        hashes = _mixed_in(hashes, word)
    return _finished(hashes, np.uint32(_WORD_BYTES * len(words)))


def murmur3_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> Hashes:
    """Return the hash of each byte string `data[offsets[i]:offsets[i + 1]]`.

    Each step hashes one 32-bit word of every value that has one; the longest come first.

    Example:
        >>> data = np.frombuffer("é".encode(), np.uint8)
        >>> murmur3_bytes(data, np.array([0, 2])).view(np.int32).tolist()
        [-527561221]
    """
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    word_counts = lengths // _WORD_BYTES
    by_length = np.argsort(-word_counts, kind="stable")
    sorted_counts = word_counts[by_length]
    hashes = np.full(len(lengths), SEED)
    # A view that holds the 32-bit word at every byte offset, aligned or not.
    windows = np.ndarray((max(0, len(data) - 3),), "<u4", np.ascontiguousarray(data), 0, (1,))
    for step in range(int(word_counts.max(initial=0))):
        at_work = by_length[: np.searchsorted(-sorted_counts, -step)]
        words = windows[starts[at_work] + _WORD_BYTES * step]
        hashes[at_work] = _mixed_in(hashes[at_work], words)
    hashes ^= _scrambled(_tails(data, starts + _WORD_BYTES * word_counts, lengths % _WORD_BYTES))
    return _finished(hashes, lengths.astype(np.uint32))


def _tails(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], counts: npt.NDArray[Any]
) -> Hashes:
    """Return the sign-extended bytes after each value's last whole word; 0 if there are none."""
    signed = data.view(np.int8)
    tails = np.zeros(len(starts), np.uint32)
    for byte in range(_WORD_BYTES - 1):
        has_one = counts > byte
        words = signed[starts[has_one] + byte].astype(np.int32).view(np.uint32)
        tails[has_one] ^= words << np.uint32(8 * byte)
    return tails


def _scrambled(words: Hashes) -> Hashes:
    return _rotated(words * _C1, 15) * _C2


def _mixed_in(hashes: Hashes, words: Hashes) -> Hashes:
    return _rotated(hashes ^ _scrambled(words), 13) * _M + _N


def _finished(hashes: Hashes, lengths: Hashes | np.uint32) -> Hashes:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * _F1
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _F2
    return hashes ^ (hashes >> np.uint32(16))


def _rotated(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))

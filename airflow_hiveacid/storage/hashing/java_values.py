"""Java's and Hive's hash codes and binary forms of decimals, timestamps and integers."""

from __future__ import annotations

import decimal
from typing import Final

_WORD_BITS: Final = 32
_WORD_MASK: Final = 0xFFFFFFFF
_INT_MAX: Final = 0x7FFFFFFF
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

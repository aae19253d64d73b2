"""Strings with a length limit (`char` and `varchar`), and strings that are not UTF-8.

The value of a `char(n)` has no trailing blanks, but files store it padded with blanks to n
characters. A `varchar(n)` is cut after n characters. Hive does not decode the bytes of files, so a
value that is not UTF-8 must stay unchanged.

Example:
    >>> padded(unpadded(pa.array(["a  ", "ä"])), 3).to_pylist()
    ['a  ', 'ä  ']
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_BLANK: Final = " "
_CONTINUATION_MASK: Final = 0xC0
_CONTINUATION: Final = 0x80


def unpadded(array: pa.Array) -> pa.Array:
    """Return the strings without trailing blanks."""
    # Arrow's other trim kernel refuses bytes that are not UTF-8.
    return pc.ascii_rtrim(array, _BLANK)


def padded(array: pa.Array, length: int) -> pa.Array:
    """Pad strings with blanks to a length in characters; leave longer strings unchanged."""
    return pc.utf8_rpad(array, length, _BLANK)


def longest(array: pa.Array) -> int:
    """Return the length of the longest string in characters; 0 if there are no strings."""
    return pc.max(pc.utf8_length(array)).as_py() or 0


def cut(array: pa.Array, length: int) -> pa.Array:
    """Cut strings to a length in characters."""
    if longest(array) <= length:
        return array
    try:
        return pc.utf8_slice_codeunits(array, 0, length)
    except pa.ArrowInvalid:
        cut_bytes = [None if value is None else _cut(value, length) for value in _bytes(array)]
        return pa.array(cut_bytes, pa.binary()).view(pa.string())


def is_utf8(array: pa.Array) -> bool:
    """Return True if all strings are UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def texts(array: pa.Array) -> list[str | None]:
    """Decode the strings; as in Java, replace bytes that are not UTF-8 with U+FFFD."""
    return [None if value is None else value.decode(errors="replace") for value in _bytes(array)]


def _bytes(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = array.view(pa.binary()).to_pylist()
    return values


def _cut(value: bytes, length: int) -> bytes:
    """Return the first `length` characters: a character is a byte and its continuation bytes."""
    count = 0
    for index, byte in enumerate(value):
        count += byte & _CONTINUATION_MASK != _CONTINUATION
        if count > length:
            return value[:index]
    return value

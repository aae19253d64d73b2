"""Text of a length: what `char` and `varchar` make of it, and text as bytes that need not be UTF-8.

`char(n)` means its text without trailing blanks, and is stored with as many as make n characters;
`varchar(n)` is cut at n. Files hold bytes: Hive looks at nothing else, so that a value that is no
UTF-8 must come through as it is. Takes and gives Arrow arrays of strings.

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
    """The texts without trailing blanks."""
    # Of the two kernels that trim, only this one takes bytes that are no UTF-8; a blank is ASCII.
    return pc.ascii_rtrim(array, _BLANK)


def padded(array: pa.Array, length: int) -> pa.Array:
    """The texts with blanks behind them up to a length in characters; longer ones stay."""
    return pc.utf8_rpad(array, length, _BLANK)


def longest(array: pa.Array) -> int:
    """The length in characters of the longest text; 0 without any."""
    return pc.max(pc.utf8_length(array)).as_py() or 0


def cut(array: pa.Array, length: int) -> pa.Array:
    """The texts up to a length in characters."""
    if longest(array) <= length:
        return array
    try:
        return pc.utf8_slice_codeunits(array, 0, length)
    except pa.ArrowInvalid:
        cut_bytes = [None if value is None else _cut(value, length) for value in _bytes(array)]
        return pa.array(cut_bytes, pa.binary()).view(pa.string())


def is_utf8(array: pa.Array) -> bool:
    """Whether all texts are UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def texts(array: pa.Array) -> list[str | None]:
    """The texts in Python, with U+FFFD for what is no UTF-8, as Java decodes it."""
    return [None if value is None else value.decode(errors="replace") for value in _bytes(array)]


def _bytes(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = array.view(pa.binary()).to_pylist()
    return values


def _cut(value: bytes, length: int) -> bytes:
    """As many characters from the start, each a byte with the continuations that follow it."""
    count = 0
    for at, byte in enumerate(value):
        count += byte & _CONTINUATION_MASK != _CONTINUATION
        if count > length:
            return value[:at]
    return value

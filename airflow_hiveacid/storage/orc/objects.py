"""Count the objects that a parser would create for a section of a tail, without parsing it.

An empty message takes two bytes in a section and two hundred bytes in memory. A section of empty
messages shrinks a thousandfold if it is compressed. Counting creates none of the objects.

Example:
    >>> from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
    >>> count_objects(pb.Footer(stripes=[pb.Stripe(), pb.Stripe()]).SerializeToString(), FOOTER, 9)
    2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED: Final = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_CONTINUED: Final = 0x80
_LONGEST_VARINT: Final = 10


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a message that become objects: nested messages, strings and value lists.

    The fields are given by number. Each byte of a field in `values` may become an object.
    """

    below: Mapping[int, Shape] = field(default_factory=dict)
    texts: frozenset[int] = frozenset()
    values: frozenset[int] = frozenset()


_LEAF: Final = Shape()
_STATISTICS: Final = Shape(dict.fromkeys((2, 3, 4, 5, 6, 7, 8, 9, 12), _LEAF))
# In a type, field 2 contains the children as packed or unpacked numbers. Field 3 contains a name
# for each child.
_TYPE: Final = Shape(texts=frozenset({3}), values=frozenset({2}))

FOOTER: Final = Shape({3: _LEAF, 4: _TYPE, 5: _LEAF, 7: _STATISTICS})
"""The footer: stripes, types, user metadata, statistics of columns."""

METADATA: Final = Shape({1: Shape({1: _STATISTICS})})
"""The metadata: statistics of the columns of each stripe."""


def count_objects(section: bytes, shape: Shape, most: int) -> int:
    """Return the number of objects in a section; stop counting above `most`.

    Raises:
        DecodeError: the bytes are not a protobuf message.
    """
    count = 0
    stack = [(0, len(section), shape)]
    while stack and count <= most:
        offset, end, shape = stack.pop()
        while offset < end and count <= most:
            key, offset = _varint(section, offset, end)
            number, kind = key >> 3, key & 7
            if kind == _VARINT:
                _, offset = _varint(section, offset, end)
                count += number in shape.values
                continue
            length = _FIXED.get(kind)
            if kind == _BYTES:
                length, offset = _varint(section, offset, end)
            if length is None or offset + length > end:
                raise DecodeError("a field is cut off")
            if kind == _BYTES and number in shape.below:
                count += 1
                stack.append((offset, offset + length, shape.below[number]))
            elif number in shape.values:
                count += length
            else:
                count += number in shape.texts
            offset += length
    return count


def _varint(section: bytes, offset: int, end: int) -> tuple[int, int]:
    value = 0
    for number in range(_LONGEST_VARINT):
        if offset >= end:
            break
        byte = section[offset]
        offset += 1
        value |= (byte & ~_CONTINUED) << (7 * number)
        if not byte & _CONTINUED:
            return value, offset
    raise DecodeError("a number is cut off")

"""Change or refuse values that ORC, its C++ writer or Hive cannot store correctly.

Every check is one Arrow or NumPy kernel over a column.

- The children of a NULL struct become NULL. Otherwise the children's values would move to different
  rows. Arrow's ORC writer sets children to NULL only if the outermost struct is NULL
  (NormalizeArray). Our outermost struct, `row`, is never NULL.
- `char(n)` is stored padded with blanks to n characters. Readers remove and restore the padding.
  But Hive compares the padded literal of a pushed-down filter with the statistics
  (ConvertAstToSearchArg.boxLiteral).
- A string longer than its type allows is refused, because readers would cut it.
- Timestamps before 1970 with a fraction are written row by row. Arrow's ORC writer would store
  negative nanoseconds, and Hive cannot read these. Timestamps after 2262, the limit of Arrow's
  nanoseconds, are also written row by row.
- A timestamp in the last second before 1970 is refused if its fraction is a millisecond or more.
  Readers would return a value that is one second too high. The format corrects negative seconds by
  their sign, and zero has no sign.
- Columns with a NUL character are reported, so that the writer omits their statistics. ORC's C++
  writer compares strings only up to the NUL. So the minimum and maximum are wrong
  (StringColumnStatisticsImpl::update).

The value of a `char(n)` has no trailing blanks, but files store it padded with blanks to n
characters. A `varchar(n)` is cut after n characters. Hive does not decode the bytes of files, so a
value that is not UTF-8 must stay unchanged.

Example:
    >>> from airflow_hiveacid.format.table import Column
    >>> from airflow_hiveacid.storage.acid import type_tree
    >>> nodes = type_tree([Column(name="c", type="char(3)")])
    >>> fit_rows(pa.array([{"c": "a"}]), nodes, table="db.t").rows.to_pylist()
    [{'c': 'a  '}]
    >>> padded(unpadded(pa.array(["a  ", "ä"])), 3).to_pylist()
    ['a  ', 'ä  ']
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL, CharType, PrimitiveType, VarcharType
from airflow_hiveacid.storage.values import timestamps
from airflow_hiveacid.storage.values.column_types import TypeNode
from airflow_hiveacid.storage.values.nested import mask_of, parts_of

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


Longs = npt.NDArray[np.int64]

_UNADJUSTED_NANOS: Final = 999_999
_OFFSET_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows ready for encoding, with facts about them that the encoder needs.

    NULL structs in `rows` have NULL children, and `char` values are padded. Timestamp pairs are
    converted to Arrow timestamps in nanoseconds, unless `needs_rows`: then Arrow's ORC writer
    cannot write at least one timestamp. `nul_column_ids` are the string columns that contain a NUL
    character.
    """

    rows: pa.StructArray
    needs_rows: bool
    nul_column_ids: frozenset[int]


@dataclass(slots=True, kw_only=True)
class _Findings:
    """The findings about one batch; the checks of each column add some."""

    table: object
    is_orc: bool
    needs_rows: bool = False
    nul_column_ids: set[int] = field(default_factory=set)


def fit_rows(rows: pa.StructArray, nodes: Sequence[TypeNode], *, table: object) -> FittedRows:
    """Check one batch of rows; convert it to the values to store.

    `rows` is a struct without NULL, with the fields of `nodes`. Raises TypeMismatchError if a
    string is too long for its column, or a timestamp has a fraction in the last second before 1970.
    """
    findings = _Findings(table=table, is_orc=True)
    return FittedRows(
        rows=_fit_all(rows, nodes, findings),
        needs_rows=findings.needs_rows,
        nul_column_ids=frozenset(findings.nul_column_ids),
    )


def fit_texts(rows: pa.StructArray, nodes: Sequence[TypeNode], *, table: object) -> pa.StructArray:
    """Check rows for Parquet: chars are not padded, any timestamp is allowed; see `fit_rows`."""
    return _fit_all(rows, nodes, _Findings(table=table, is_orc=False))


def _fit_all(
    rows: pa.StructArray, nodes: Sequence[TypeNode], findings: _Findings
) -> pa.StructArray:
    columns = rows.flatten()
    fitted = [_fit(node, column, findings) for node, column in zip(nodes, columns, strict=True)]
    if all(map(operator.is_, fitted, columns)):
        return rows
    return pa.StructArray.from_arrays(fitted, names=[field.name for field in rows.type])


def used_parts(values: pa.Array) -> list[pa.Array]:
    """Return an array's fields (NULL where the struct is) or this slice's items and values."""
    if pa.types.is_struct(values.type):
        return list(values.flatten())
    if not len(values):  # an empty Java array has no offsets, so a read returns garbage
        return [part.slice(0, 0) for part in parts_of(values)]
    if not pa.types.is_nested(values.type):
        return []
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return [part.slice(first, last - first) for part in parts_of(values)]


def _fit(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    """Return the values to store; return `values` itself if nothing changes."""
    match node.type:
        case CharType(length=length):
            fitted = _as_char(values, length) if findings.is_orc else unpadded(values)
            return _text(node, fitted, length, findings)
        case VarcharType(length=length):
            return _text(node, values, length, findings)
        case PrimitiveType(name="string"):
            return _text(node, values, None, findings)
        case PrimitiveType(name=name) if name in ("timestamp", TIMESTAMP_LOCAL):
            return _timestamps(node, values, findings) if findings.is_orc else values
    return _fit_nested(node, values, findings) if node.children else values


def _fit_nested(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    children = used_parts(values)
    fitted = [
        _fit(child, array, findings) for child, array in zip(node.children, children, strict=True)
    ]
    # `used_parts` has made the children of NULL structs NULL, which must be kept.
    has_null_structs = pa.types.is_struct(values.type) and values.null_count
    if not has_null_structs and all(map(operator.is_, fitted, children)):
        return values
    return _rebuilt(values, fitted)


def _rebuilt(values: pa.Array, children: Sequence[pa.Array]) -> pa.Array:
    mask = mask_of(values)
    if pa.types.is_struct(values.type):
        names = [field.name for field in values.type]
        return pa.StructArray.from_arrays(children, names=names, mask=mask)
    offsets = pc.subtract(values.offsets, values.offsets[0])
    build = pa.MapArray if pa.types.is_map(values.type) else pa.ListArray
    return build.from_arrays(offsets, *children, mask=mask)


def _as_char(values: pa.Array, length: int) -> pa.Array:
    fitted = padded(unpadded(values), length)
    return values if fitted.equals(values) else fitted


def _text(node: TypeNode, values: pa.Array, length: int | None, findings: _Findings) -> pa.Array:
    if _has_nul(values):
        findings.nul_column_ids.add(node.column_id)
    # The length in bytes is fast to compute, and never less than that in characters.
    if length is not None and (pc.max(pc.binary_length(values)).as_py() or 0) > length:
        character_count = longest(values)
        if character_count > length:
            raise TypeMismatchError(
                table=findings.table,
                column=node.name,
                column_type=str(node.type),
                value_type=f"a string of {character_count} characters",
                remedy="shorten it",
            )
    return values


def _has_nul(values: pa.Array) -> bool:
    _, offsets_buffer, data = values.buffers()
    if not len(values) or data is None:
        return False
    start = values.offset * _OFFSET_BYTES
    offsets = np.frombuffer(offsets_buffer, np.int32, len(values) + 1, start)
    text_bytes = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return bool(text_bytes.size) and not text_bytes.min()


def _timestamps(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    """Convert timestamp pairs to Arrow nanoseconds if all fit; otherwise return `values`."""
    is_pair = pa.types.is_struct(values.type)
    if not is_pair and timestamps.counts_of(values).min(initial=0) >= 0:
        return values  # Arrow's writer stores times from 1970 on correctly
    seconds, nanos = timestamps.seconds_and_nanos(values)
    # Nanoseconds up to 999,999 are safe, because the format adjusts only larger values.
    lost = (seconds == -1) & (nanos > _UNADJUSTED_NANOS)
    if lost.any():
        raise TypeMismatchError(
            table=findings.table,
            column=node.name,
            column_type=str(node.type),
            value_type=f"1969-12-31 23:59:59.{nanos[lost][0]:09d} (ORC cannot store a fraction in"
            " the last second before 1970)",
            remedy="round it to a whole second, or make the column a string",
        )
    is_far = is_pair and bool((np.abs(seconds) >= timestamps.NANOSECONDS_REACH_S).any())
    if is_far or ((seconds < 0) & (nanos != 0)).any():
        findings.needs_rows = True
    if not is_pair or is_far:
        return values
    zone = "UTC" if node.type == PrimitiveType(TIMESTAMP_LOCAL) else None
    counts = pa.array(seconds * timestamps.NANOS_A_SECOND + nanos)
    numbers = pc.if_else(values.is_valid(), counts, None) if values.null_count else counts
    return numbers.cast(pa.timestamp("ns", zone))

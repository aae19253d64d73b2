"""What ORC, its C++ writer or Hive cannot take as it is: found, mended or refused beforehand.

Takes the `row` column of a batch; gives it back as it is to be stored, and says what else the
writer has to know of it. Every check is one pass of a kernel over a column.

- A NULL struct has NULL children: Arrow's ORC writer sees to that only where the outermost struct
  is NULL (NormalizeArray), and ours, `row`, never is. Else the children's values shift against the
  rows.
- `char(n)` is stored padded with blanks to n characters. Readers strip and pad again, but Hive
  pushes the padded literal down and compares it with the statistics
  (ConvertAstToSearchArg.boxLiteral).
- Text longer than its type allows would be cut by the reader: refused.
- Timestamps before 1970 with a fraction: Arrow's ORC writer gives them negative nanoseconds, on
  which Hive fails; and beyond 2262 Arrow's nanoseconds do not reach. Both go row by row.
- The last second before 1970, from its second millisecond on: the format adds a second to it
  (readers recognise an adjusted second by its sign, and zero has none). Refused.
- Text with a NUL character: ORC's C++ writer compares strings only up to it, so minimum and maximum
  are wrong (StringColumnStatisticsImpl::update). Reported, so that nobody is shown them.

Example:
    >>> from airflow_hiveacid.format.table import Column
    >>> from airflow_hiveacid.storage.acid.row_schema import type_tree
    >>> nodes = type_tree([Column(name="c", type="char(3)")])
    >>> fit_rows(pa.array([{"c": "a"}]), nodes, table="db.t").rows.to_pylist()
    [{'c': 'a  '}]
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL, CharType, PrimitiveType, VarcharType
from airflow_hiveacid.storage.values.char_text import longest, padded, unpadded
from airflow_hiveacid.storage.values.timestamps import (
    NANOS_A_SECOND,
    NANOSECONDS_REACH_S,
    counts_of,
    seconds_and_nanos,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from airflow_hiveacid.storage.values.column_types import TypeNode

    Longs = npt.NDArray[np.int64]

_UNADJUSTED_NANOS: Final = 999_999
_OFFSET_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows that may be encoded, and what the encoder has to know of them.

    Attributes:
        rows: The struct array; no NULL struct hides values, `char` values are padded. Timestamps
            that came as pairs are Arrow timestamps in nanoseconds, unless `needs_rows`.
        needs_rows: Whether some timestamp cannot go through Arrow's ORC writer.
        nul_column_ids: ORC column IDs of text columns in which a NUL character occurs.
    """

    rows: pa.StructArray
    needs_rows: bool
    nul_column_ids: frozenset[int]


@dataclass(slots=True, kw_only=True)
class _Findings:
    """Collects while the columns are walked; lives for one call only."""

    table: object
    is_orc: bool
    needs_rows: bool = False
    nul_column_ids: set[int] = field(default_factory=set)


def fit_rows(rows: pa.StructArray, nodes: Sequence[TypeNode], *, table: object) -> FittedRows:
    """Check one batch of rows and make them what is stored.

    Args:
        rows: No row may be NULL; fields as in `nodes`.
        nodes: The columns' types.
        table: For messages.

    Raises:
        TypeMismatchError: a text is too long for its column, or a timestamp is in the one second
            that ORC cannot hold.
    """
    findings = _Findings(table=table, is_orc=True)
    return FittedRows(
        rows=_fit_all(rows, nodes, findings),
        needs_rows=findings.needs_rows,
        nul_column_ids=frozenset(findings.nul_column_ids),
    )


def fit_texts(rows: pa.StructArray, nodes: Sequence[TypeNode], *, table: object) -> pa.StructArray:
    """The same for Parquet, as Hive writes it: a char without its padding, and any timestamp.

    Raises:
        TypeMismatchError: a text is too long for its column.
    """
    return _fit_all(rows, nodes, _Findings(table=table, is_orc=False))


def _fit_all(
    rows: pa.StructArray, nodes: Sequence[TypeNode], findings: _Findings
) -> pa.StructArray:
    columns = rows.flatten()
    fitted = [_fit(node, column, findings) for node, column in zip(nodes, columns, strict=True)]
    if all(map(operator.is_, fitted, columns)):
        return rows
    return pa.StructArray.from_arrays(fitted, names=[field.name for field in rows.type])


def used_items(lists: pa.Array, items: pa.Array) -> pa.Array:
    """The items that these lists refer to; slices of an array share the items of the whole."""
    if not len(lists):
        return items.slice(0, 0)  # Java sends no offset then, and what is read for one is anything
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return items.slice(first, last - first)


def _fit(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    """The values to store; the same object when nothing had to be changed."""
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
    if pa.types.is_struct(values.type):
        children = values.flatten()  # NULL wherever the struct is
    elif pa.types.is_map(values.type):
        children = [used_items(values, values.keys), used_items(values, values.items)]
    else:
        children = [used_items(values, values.values)]
    fitted = [
        _fit(child, array, findings) for child, array in zip(node.children, children, strict=True)
    ]
    has_null_structs = pa.types.is_struct(values.type) and values.null_count
    if not has_null_structs and all(map(operator.is_, fitted, children)):
        return values
    return _rebuilt(values, fitted)


def _rebuilt(values: pa.Array, children: Sequence[pa.Array]) -> pa.Array:
    mask = _null_mask(values)
    if pa.types.is_struct(values.type):
        names = [field.name for field in values.type]
        return pa.StructArray.from_arrays(children, names=names, mask=mask)
    offsets = pc.subtract(values.offsets, values.offsets[0])
    build = pa.MapArray if pa.types.is_map(values.type) else pa.ListArray
    return build.from_arrays(offsets, *children, mask=mask)


def _null_mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _as_char(values: pa.Array, length: int) -> pa.Array:
    fitted = padded(unpadded(values), length)
    return values if fitted.equals(values) else fitted


def _text(node: TypeNode, values: pa.Array, length: int | None, findings: _Findings) -> pa.Array:
    if _has_nul(values):
        findings.nul_column_ids.add(node.column_id)
    # Bytes bound characters from above, and are free to count.
    if length is not None and (pc.max(pc.binary_length(values)).as_py() or 0) > length:
        found = longest(values)
        if found > length:
            raise TypeMismatchError(
                table=findings.table,
                column=node.name,
                column_type=str(node.type),
                value_type=f"a string of {found} characters",
            )
    return values


def _has_nul(values: pa.Array) -> bool:
    _, offsets_buffer, data = values.buffers()
    if not len(values) or data is None:
        return False
    start = values.offset * _OFFSET_BYTES
    offsets = np.frombuffer(offsets_buffer, np.int32, len(values) + 1, start)
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return bool(used.size) and not used.min()


def _timestamps(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    """The timestamps as they came, or pairs as nanoseconds where those can hold them all."""
    is_pair = pa.types.is_struct(values.type)
    if not is_pair and counts_of(values).min(initial=0) >= 0:
        return values
    seconds, nanos = seconds_and_nanos(values)
    # Nanoseconds up to 999,999 stay as they are: the format adjusts the second only beyond.
    lost = (seconds == -1) & (nanos > _UNADJUSTED_NANOS)
    if lost.any():
        raise TypeMismatchError(
            table=findings.table,
            column=node.name,
            column_type=str(node.type),
            value_type=f"1969-12-31 23:59:59.{nanos[lost][0]:09d}, in the one second (the last"
            " before 1970) of which ORC cannot hold a fraction",
        )
    is_far = is_pair and bool((np.abs(seconds) >= NANOSECONDS_REACH_S).any())
    if is_far or ((seconds < 0) & (nanos != 0)).any():
        findings.needs_rows = True
    if not is_pair or is_far:
        return values
    zone = "UTC" if node.type == PrimitiveType(TIMESTAMP_LOCAL) else None
    counts = pa.array(seconds * NANOS_A_SECOND + nanos)
    numbers = pc.if_else(values.is_valid(), counts, None) if values.null_count else counts
    return numbers.cast(pa.timestamp("ns", zone))

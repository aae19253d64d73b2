"""What ORC, its C++ writer or Hive cannot take as it is: looked for, mended or refused before encoding.

Takes the `row` column of a batch; gives it back as it is to be stored, and says what else the writer
has to know of it. Every check is one pass of a kernel over a column.

- A NULL struct has NULL children: Arrow's ORC writer sees to that only where the outermost struct is
  NULL (NormalizeArray), and ours, `row`, never is. Else the children's values shift against the rows.
- `char(n)` is stored padded with blanks to n characters. Readers strip and pad again, but Hive pushes
  the padded literal down and compares it with the statistics (ConvertAstToSearchArg.boxLiteral).
- Text longer than its type allows would be cut by the reader: refused.
- Timestamps before 1970 with a fraction: Arrow's ORC writer gives them negative nanoseconds, on which
  Hive fails. Reported, so that they go another way.
- The last second before 1970, from its second millisecond on: the format adds a second to it (readers
  recognise an adjusted second by its sign, and zero has none). Refused.
- Text with a NUL character: ORC's C++ writer compares strings only up to it, so minimum and maximum are
  wrong (StringColumnStatisticsImpl::update). Reported, so that nobody is shown them.

Example:
    >>> from airflow_hiveacid.format.table import Column
    >>> from airflow_hiveacid.storage.row_schema import type_tree
    >>> nodes = type_tree([Column(name="c", type="char(3)")])
    >>> fit_rows(pa.array([{"c": "a"}]), nodes, table="db.t").rows.to_pylist()
    [{'c': 'a  '}]
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.format.types import CharType, PrimitiveType, VarcharType
from airflow_hiveacid.storage.row_schema import TypeNode

UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows that may be encoded, and what the encoder has to know of them.

    Attributes:
        rows: The struct array, `char` values padded, NULL structs NULL throughout.
        early_fractions: Whether some timestamp lies before 1970 and has a fraction of a second.
        nul_column_ids: ORC column IDs of text columns in which a NUL character occurs.
    """

    rows: pa.StructArray
    early_fractions: bool
    nul_column_ids: frozenset[int]


@dataclass(slots=True, kw_only=True)
class _Findings:
    """Collects while the columns are walked; lives for one call only."""

    table: object
    early_fractions: bool = False
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
    findings = _Findings(table=table)
    columns = rows.flatten()
    fitted = [_fit(node, column, findings) for node, column in zip(nodes, columns, strict=True)]
    if not all(map(operator.is_, fitted, columns)):
        rows = pa.StructArray.from_arrays(fitted, fields=list(rows.type))
    return FittedRows(
        rows=rows,
        early_fractions=findings.early_fractions,
        nul_column_ids=frozenset(findings.nul_column_ids),
    )


def _fit(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    """The values to store; the same object when nothing had to be changed."""
    if node.children:
        return _fit_nested(node, values, findings)
    match node.type:
        case CharType(length=length):
            return _text(node, _padded(values, length), length, findings)
        case VarcharType(length=length):
            return _text(node, values, length, findings)
        case PrimitiveType(name="string"):
            return _text(node, values, None, findings)
        case PrimitiveType() if pa.types.is_timestamp(values.type):
            _check_timestamps(node, values, findings)
    return values


def _fit_nested(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    if pa.types.is_struct(values.type):
        children = values.flatten()  # NULL wherever the struct is
    elif pa.types.is_map(values.type):
        children = [used(values, values.keys), used(values, values.items)]
    else:
        children = [used(values, values.values)]
    fitted = [
        _fit(child, array, findings) for child, array in zip(node.children, children, strict=True)
    ]
    has_null_structs = pa.types.is_struct(values.type) and values.null_count
    if not has_null_structs and all(map(operator.is_, fitted, children)):
        return values
    return _rebuilt(values, fitted)


def used(lists: pa.Array, items: pa.Array) -> pa.Array:
    """The part of the items that these lists refer to: slices share the items of the whole."""
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return items.slice(first, last - first)


def _rebuilt(values: pa.Array, children: Sequence[pa.Array]) -> pa.Array:
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(values.type):
        return pa.StructArray.from_arrays(children, fields=list(values.type), mask=mask)
    offsets = pc.subtract(values.offsets, values.offsets[0])
    if pa.types.is_map(values.type):
        return pa.MapArray.from_arrays(offsets, *children, type=values.type, mask=mask)
    return pa.ListArray.from_arrays(offsets, *children, type=values.type, mask=mask)


def _padded(values: pa.Array, length: int) -> pa.Array:
    padded = pc.utf8_rpad(pc.utf8_rtrim(values, characters=" "), width=length)
    return values if padded.equals(values) else padded


def _text(node: TypeNode, values: pa.Array, length: int | None, findings: _Findings) -> pa.Array:
    if _has_nul(values):
        findings.nul_column_ids.add(node.column_id)
    # Bytes bound characters from above, and are free to count.
    if length is not None and _greatest(pc.binary_length(values)) > length:
        longest = _greatest(pc.utf8_length(values))
        if longest > length:
            raise TypeMismatchError(
                table=findings.table,
                column=node.name,
                column_type=str(node.type),
                value_type=f"a string of {longest} characters",
            )
    return values


def _greatest(lengths: pa.Array) -> int:
    return pc.max(lengths).as_py() or 0


def _has_nul(values: pa.Array) -> bool:
    _, offsets_buffer, data = values.buffers()
    if not len(values) or data is None:
        return False
    offsets = np.frombuffer(offsets_buffer, np.int32, len(values) + 1, values.offset * 4)
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return bool(used.size) and not used.min()


def _timestamps(node: TypeNode, values: pa.Array, findings: _Findings) -> pa.Array:
    """The timestamps as they are, or pairs in nanoseconds where Arrow's can hold them all."""
    seconds, nanos = seconds_and_nanos(values)
    has_fraction = nanos != 0
    # Nanoseconds up to 999,999 stay as they are: the format adjusts the second only beyond.
    lost = (seconds == -1) & (nanos > _UNADJUSTED_NANOS)
    if lost.any():
        raise TypeMismatchError(
            table=findings.table,
            column=node.name,
            column_type=str(node.type),
            value_type=f"1969-12-31 23:59:59.{nanos[lost][0]:09d}, in the one second (the last before"
            " 1970) of which ORC cannot hold a fraction",
        )
    fits_nanos = pa.types.is_timestamp(values.type) or not (np.abs(seconds) >= _REACH_S).any()
    if not fits_nanos or ((seconds < 0) & has_fraction).any():
        findings.needs_rows = True
    if pa.types.is_timestamp(values.type) or not fits_nanos:
        return values
    numbers = seconds * NANOS_PER_SECOND + nanos
    return pa.array(numbers, pa.timestamp("ns", findings_zone(node)), mask=_null_mask(values))


def seconds_and_nanos(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Seconds rounded down, and the nanoseconds above them; zeros where it is NULL.

    Args:
        values: Timestamps of any unit, or `PAIR_TYPE`.
    """
    if pa.types.is_struct(values.type):
        found = of_pairs(values)
        return np.where(found.valid, found.seconds, 0), np.where(found.valid, found.nanos, 0)
    unit = UNITS_PER_SECOND[values.type.unit]
    numbers = values.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, rest = np.divmod(numbers, unit)
    return seconds, rest * (NANOS_PER_SECOND // unit)

"""Constants as Arrow columns, and conditions and keys over Arrow columns, without loops over rows.

Every mask and position is without NULL: a comparison with NULL is false, and a NULL key matches
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.statements import conditions
from airflow_hiveacid.plan.statements.constants import Constant
from airflow_hiveacid.storage.values.column_types import arrow_type

Positions = npt.NDArray[np.int64]
"""The position of each row's match, or -1."""

_KERNELS: Final[Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def array_of(values: Sequence[Constant], column_type: str) -> pa.Array:
    """Return constants as a column of a Hive type."""
    return pa.array(values, arrow_type(parse_type(column_type)))


def repeated(value: Constant, column_type: str, count: int) -> pa.Array:
    """Return a column that has one value in all rows."""
    return pa.repeat(pa.scalar(value, arrow_type(parse_type(column_type))), count)


def rows_that_meet(
    condition: conditions.Condition, columns: Mapping[str, pa.Array]
) -> pa.BooleanArray:
    """Return the mask of the rows that meet a condition."""
    match condition:
        case conditions.AllOf(parts=parts):
            return reduce(pc.and_, (rows_that_meet(part, columns) for part in parts))
        case conditions.AnyOf(parts=parts):
            return reduce(pc.or_, (rows_that_meet(part, columns) for part in parts))
        case conditions.NullTest(column=column, is_null=is_null):
            return columns[column].is_null() if is_null else columns[column].is_valid()
        case conditions.Membership(column=column, values=values):
            members = [value for value in values if value is not None]
            return pc.is_in(columns[column], value_set=pa.array(members, columns[column].type))
        case conditions.Comparison(column=column, operator=operator, value=value):
            scalar = pa.scalar(value, columns[column].type)
            return pc.fill_null(_KERNELS[operator](columns[column], scalar), fill_value=False)


@dataclass(frozen=True, slots=True, eq=False)
class KeyIndex:
    """The keys of a MERGE's source, for look-ups. Each key value is counted once.

    A key of several columns gets one code: column by column, the code so far and the position of
    the column's value are combined and numbered again. So codes stay below the number of source
    rows. For each column, `values` are its distinct values, and `codes` the sorted combinations
    that occur. `of_rows` is the number of each source row's key, -1 with a NULL.
    """

    values: tuple[pa.Array, ...]
    codes: tuple[npt.NDArray[np.int64], ...]
    of_rows: Positions

    @classmethod
    def of(cls, keys: Sequence[pa.Array]) -> KeyIndex:
        """Return the index of the source's key columns, which have equal lengths."""
        values: list[pa.Array] = []
        codes: list[npt.NDArray[np.int64]] = []
        rows = np.zeros(len(keys[0]), np.int64)
        for key in keys:
            distinct = pc.unique(key.drop_null())
            combined = _combined(rows, _positions(key, distinct), len(distinct))
            key_codes = np.unique(combined[combined >= 0])
            rows = _found(combined, key_codes)
            values.append(distinct)
            codes.append(key_codes)
        return cls(tuple(values), tuple(codes), rows)

    @property
    def size(self) -> int:
        """The number of distinct keys without NULL."""
        return len(self.codes[-1])

    def look_up(self, keys: Sequence[pa.Array]) -> Positions:
        """Return the number of each row's key among the distinct keys of the source, or -1."""
        rows = np.zeros(len(keys[0]), np.int64)
        for key, values, key_codes in zip(keys, self.values, self.codes, strict=True):
            rows = _found(_combined(rows, _positions(key, values), len(values)), key_codes)
        return rows


def _positions(key: pa.Array, values: pa.Array) -> Positions:
    indices = pc.index_in(key, value_set=values)
    positions: Positions = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def _combined(codes: Positions, positions: Positions, count: int) -> Positions:
    return np.where((codes >= 0) & (positions >= 0), codes * count + positions, -1)


def _found(codes: Positions, key_codes: npt.NDArray[np.int64]) -> Positions:
    """Return the position of each code in the sorted `key_codes`, or -1."""
    if not len(key_codes):
        return np.full(len(codes), -1, np.int64)
    positions = np.minimum(np.searchsorted(key_codes, codes), len(key_codes) - 1)
    return np.where((codes >= 0) & (key_codes[positions] == codes), positions, -1)


def ends_of(values: Mapping[str, pa.Array]) -> dict[str, tuple[Constant, Constant]]:
    """Return the least and the greatest value of each column; columns of NULLs are left out."""
    ends: dict[str, tuple[Constant, Constant]] = {}
    for name, column in values.items():
        both = pc.min_max(column).as_py()
        if both["min"] is not None:
            ends[name] = both["min"], both["max"]
    return ends

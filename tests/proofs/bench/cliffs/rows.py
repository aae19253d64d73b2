"""The rows of the cliffs' tables: six columns of types that are common in users' tables.

The values are drawn from seeds, like the sales of the main course; keys in, Arrow tables out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.table import Column
from tests.proofs.bench.sales import KEY, Ints, generator, grades, moments, money

DAY: Final = Column(name="day", type="string")
"""The partition column of partitioned tables."""

CLIFF_COLUMNS: Final = (
    Column(name=KEY, type="bigint"),
    Column(name="quantity", type="int"),
    Column(name="sold_at", type="timestamp"),
    Column(name="paid", type="decimal(12,2)"),
    Column(name="remark", type="string"),
    Column(name="grade", type="char(4)"),
)
DELETED_OF: Final = 100
"""One row in this many is deleted."""

_FIRST_DAY: Final = np.datetime64("2000-01-01")
_CENTS: Final = 10_000_000
_LETTERS: Final = (97, 123)
_PLAIN_COLUMNS: Final = CLIFF_COLUMNS[:2] + CLIFF_COLUMNS[3:4]
_WIDE_TYPES: Final = ("bigint", "decimal(12,2)", "int", "string")


def cliff_rows(keys: Ints) -> pa.Table:
    draw, count = generator("cliffs", int(keys[0])), len(keys)
    columns = [
        pa.array(keys),
        pa.array(draw.integers(1, 100, count).astype(np.int32)),
        moments(draw.integers(11_000, 21_000, count), draw),
        money(draw.integers(0, _CENTS, count)),
        pa.array(draw.integers(0, 1_000_000, count)).cast(pa.string()),
        grades(draw, count),
    ]
    return pa.table(columns, names=[column.name for column in CLIFF_COLUMNS])


def day_names(count: int) -> list[str]:
    """Return the names of this many days, ascending."""
    return [str(day) for day in _FIRST_DAY + np.arange(count)]


def day_folder(day: str) -> str:
    return f"{DAY.name}={day}"


def is_deleted(keys: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of the keys whose rows are deleted: one in a hundred in every partition."""
    found: npt.NDArray[np.bool_] = keys % DELETED_OF == DELETED_OF // 2
    return found


# ---- wide rows, and long ones --------------------------------------------------------------------


def wide_columns(count: int) -> tuple[Column, ...]:
    """Return this many columns: key, quantity and paid, then more of four types in turn."""
    more = count - len(_PLAIN_COLUMNS)
    types = (_WIDE_TYPES[i % len(_WIDE_TYPES)] for i in range(more))
    return (*_PLAIN_COLUMNS, *(Column(name=f"c{i:04d}", type=t) for i, t in enumerate(types)))


def wide_rows(columns: tuple[Column, ...], count: int) -> pa.Table:
    draw = generator("wide", len(columns))
    drawn = []
    for column in columns:
        numbers = draw.integers(0, _CENTS, count)
        match column.type:
            case "bigint":
                drawn.append(pa.array(np.arange(count) if column.name == KEY else numbers))
            case "int":
                drawn.append(pa.array((numbers % 100).astype(np.int32)))
            case "string":
                drawn.append(pa.array(numbers).cast(pa.string()))
            case _:
                drawn.append(money(numbers))
    return pa.table(drawn, names=[column.name for column in columns])


TEXT_COLUMNS: Final = (*_PLAIN_COLUMNS, Column(name="text", type="string"))


def long_texts(count: int, size: int) -> Iterator[pa.Table]:
    """Yield this many rows with a text of `size` bytes each, a hundred at a time."""
    for first in range(0, count, 100):
        keys = np.arange(first, min(first + 100, count))
        draw = generator("texts", first)
        letters = draw.integers(*_LETTERS, len(keys) * size, dtype=np.uint8)
        offsets = np.arange(len(keys) + 1, dtype=np.int32) * size
        text = pa.Array.from_buffers(
            pa.string(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        )
        cents = draw.integers(0, _CENTS, len(keys))
        quantity = pa.array(draw.integers(1, 100, len(keys)).astype(np.int32))
        yield pa.table(
            [pa.array(keys), quantity, money(cents), text], names=[c.name for c in TEXT_COLUMNS]
        )

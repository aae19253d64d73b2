"""The sales, drawn from seeds: the same seed and keys give the same sales.

They have 23 columns of plain types, and two more that are harder to read: a timestamp and a char.
Keys in, Arrow tables out; no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.table import Column

Ints = npt.NDArray[np.int64]

KEY: Final = "sale_id"
OPERATION: Final = "op"
CUSTOMERS: Final = 2_000_000

SEED_VERSION: Final = 2
"""Increases with every change of the drawn values."""

_CENTS: Final = 10_000_000
_IDS: Final = {
    "customer_id": CUSTOMERS,
    "product_id": 300_000,
    "store_id": 1_000,
    "promotion_id": 100_000_000,
    "address_id": 100_000_000,
    "household_id": 100_000_000,
    "ticket_id": 100_000_000,
}
_MONEY: Final = (
    "wholesale_cost",
    "list_price",
    "sales_price",
    "discount",
    "tax",
    "coupon",
    "paid",
    "profit",
)
_FIRST_DAY: Final = 19_000  # in January 2022, counted from 1970
_DAYS: Final = 1_500
_DAY_MICROSECONDS: Final = 86_400_000_000
_GRADES: Final = ("k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9")
_STATUSES: Final = ("new", "paid", "packed", "sent", "delivered", "returned")
_CHANNELS: Final = ("web", "store", "phone")
_MOODS: Final = ("calm", "hasty", "picky", "merry", "gruff", "shy", "loyal")
_WISHES: Final = ("gift wrap please", "leave at the door", "call before noon", "no plastic")

COLUMNS: Final = (
    Column(name=KEY, type="bigint"),
    *(Column(name=name, type="bigint") for name in _IDS),
    Column(name="quantity", type="int"),
    *(Column(name=name, type="decimal(12,2)") for name in _MONEY),
    Column(name="sold_on", type="date"),
    Column(name="shipped_on", type="date"),
    *(Column(name=name, type="string") for name in ("status", "channel", "email", "remark")),
)
STAMPED_COLUMNS: Final = (
    *COLUMNS,
    Column(name="sold_at", type="timestamp"),
    Column(name="grade", type="char(4)"),
)


def sales(keys: Ints, *seed: str | int, columns: Sequence[Column] = STAMPED_COLUMNS) -> pa.Table:
    """Return sales with these keys and otherwise random values, with these of the columns above."""
    draw, count = generator(*seed), len(keys)
    sold = draw.integers(0, _DAYS, count)
    drawn = [
        pa.array(keys),
        *(pa.array(draw.integers(1, high, count)) for high in _IDS.values()),
        pa.array(draw.integers(1, 100, count).astype(np.int32)),
        *(money(draw.integers(0, _CENTS, count)) for _ in _MONEY),
        _dates(_FIRST_DAY + sold),
        _dates(_FIRST_DAY + sold + draw.integers(0, 30, count)),
        _one_of(_STATUSES, draw, count),
        _one_of(_CHANNELS, draw, count),
        _joined("@", _text(draw.integers(1, CUSTOMERS, count)), pa.scalar("mail.example")),
        _joined(
            ", ",
            _one_of(_MOODS, draw, count),
            _one_of(_WISHES, draw, count),
            _text(draw.integers(0, 1_000_000, count)),
        ),
        moments(_FIRST_DAY + sold, draw),
        grades(draw, count),
    ]
    names = [column.name for column in STAMPED_COLUMNS]
    return pa.table(drawn, names=names).select([column.name for column in columns])


def money(cents: Ints) -> pa.Array:
    """Return whole cents as decimal(12,2); exact, without a Python object per value."""
    # A decimal128 is its unscaled value in 16 little-endian bytes, so the upper half is the sign.
    halves = np.stack([cents, cents >> 63], axis=1)
    return pa.Array.from_buffers(
        pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(halves.tobytes())]
    )


def moments(days: Ints, draw: np.random.Generator) -> pa.Array:
    """Return a moment of each day, given from 1970, in microseconds and without a time zone."""
    within = draw.integers(0, _DAY_MICROSECONDS, len(days))
    return pa.array(days * _DAY_MICROSECONDS + within).cast(pa.timestamp("us"))


def grades(draw: np.random.Generator, count: int) -> pa.Array:
    """Return texts of two letters each, for a char of four."""
    return _one_of(_GRADES, draw, count)


def generator(*seed: str | int) -> np.random.Generator:
    words = [int.from_bytes(str(part).encode(), "little") for part in (SEED_VERSION, *seed)]
    return np.random.default_rng(words)


def _dates(days: Ints) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def _one_of(words: tuple[str, ...], draw: np.random.Generator, count: int) -> pa.Array:
    return pa.array(words).take(pa.array(draw.integers(0, len(words), count)))


def _text(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _joined(between: str, *parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(between))

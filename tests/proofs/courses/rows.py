"""Rows whose values follow from key and version, and the model of a table of such rows.

So any reader's rows can be checked exactly, value by value, without a second engine: the model
knows the version of each key, and the values are computed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.table import Column
from tests.proofs.bench.recorder import WrongRowsError
from tests.proofs.bench.sales import KEY, OPERATION, Ints, generator, money

VERSION: Final = "version"
DAY: Final = Column(name="day", type="string")
"""The partition column of a partitioned table; it follows from the key."""

_NUMBERS: Final = ("customer_id", "product_id", "store_id", "promotion_id", "ticket_id")
_MONEY: Final = ("list_price", "discount", "tax", "paid")
_WORDS: Final = {
    "status": ("new", "paid", "packed", "sent", "delivered", "returned"),
    "channel": ("web", "store", "phone"),
}
COLUMNS: Final = (
    Column(name=KEY, type="bigint"),
    Column(name=VERSION, type="int"),
    *(Column(name=name, type="bigint") for name in _NUMBERS),
    Column(name="quantity", type="int"),
    *(Column(name=name, type="decimal(12,2)") for name in _MONEY),
    Column(name="sold_on", type="date"),
    *(Column(name=name, type="string") for name in (*_WORDS, "email")),
)
GONE: Final = -1
"""In place of a version, for a key without a row."""

_FIRST_DAY: Final = np.datetime64("2026-01-01")
_CENTS: Final = 10_000_000


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the values, well mixed (the finaliser of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def rows_of(keys: Ints, versions: npt.NDArray[np.int32], days: int = 0) -> pa.Table:
    """Return the rows of these keys in these versions; with `days`, also their partition."""
    seeds = _mixed(keys.astype(np.uint64) << np.uint64(32) | versions.astype(np.uint64))
    columns = {KEY: pa.array(keys), VERSION: pa.array(versions)}
    for number, column in enumerate(COLUMNS[len(columns) :]):
        columns[column.name] = _values(column, _mixed(seeds + np.uint64(number + 1)))
    if days:
        columns[DAY.name] = pa.array(day_names(days)).take(pa.array(keys % days))
    return pa.table(columns)


def _values(column: Column, drawn: npt.NDArray[np.uint64]) -> pa.Array:
    """Return the values of a column that these numbers select."""

    def below(high: int) -> Ints:
        return (drawn % np.uint64(high)).astype(np.int64)

    match column.type:
        case "bigint":
            return pa.array(below(2_000_000))
        case "int":
            return pa.array(below(100).astype(np.int32))
        case "date":
            return pa.array((19_000 + below(1_500)).astype(np.int32)).cast(pa.date32())
        case "string":
            words = _WORDS.get(column.name)
            if words is not None:
                return pa.array(words).take(pa.array(below(len(words))))
            numbers = pa.array(below(1_000_000)).cast(pa.string())
            return pc.binary_join_element_wise(numbers, "mail.example", "@")
        case _:
            return money(below(_CENTS))


def day_names(days: int) -> list[str]:
    return [str(_FIRST_DAY + day) for day in range(days)]


@dataclass(slots=True, kw_only=True)
class Model:
    """The version of each key that a table must have. Mutable: changes are applied to it.

    `next_key` is the lowest key that never had a row; `days` is the number of partitions, or 0.
    """

    versions: npt.NDArray[np.int32]
    next_key: int
    days: int

    @classmethod
    def of(cls, rows: int, most: int, days: int = 0) -> Self:
        """Return the model of a table with keys from 0, in version 0; `most` keys can exist."""
        versions = np.full(most, GONE, np.int32)
        versions[:rows] = 0
        return cls(versions=versions, next_key=rows, days=days)

    @property
    def rows(self) -> int:
        return int((self.versions != GONE).sum())

    def require(self, batches: Iterable[pa.RecordBatch], what: str) -> None:
        """Check that these are exactly the rows of the model.

        Raises:
            WrongRowsError: a row is missing, doubled, too many, or has another value.
        """
        found = np.full_like(self.versions, GONE)
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            keys, versions = rows[KEY].to_numpy(), rows[VERSION].to_numpy()
            if (found[keys] != GONE).any() or len(np.unique(keys)) < len(keys):
                raise WrongRowsError(f"{what} has a key twice")
            found[keys] = versions
            expected = rows_of(keys, versions, self.days)
            for name in expected.column_names:
                if not rows[name].cast(expected[name].type).equals(expected[name]):
                    raise WrongRowsError(f"{what} has wrong values in {name}")
        wrong = np.flatnonzero(found != self.versions)
        if len(wrong):
            key = int(wrong[0])
            raise WrongRowsError(
                f"{what} has {len(wrong)} wrong keys: {key} is in version {found[key]} instead of"
                f" {self.versions[key]} ({GONE}: no row)"
            )


# ---- changes -------------------------------------------------------------------------------------


def upsert(model: Model, count: int, new: int, version: int) -> pa.Table:
    """Return rows for an upsert, `new` of them with new keys; apply them to the model."""
    live = np.flatnonzero(model.versions != GONE)
    draw = generator("upsert", version)
    old = draw.choice(live, count - new, replace=False)
    keys = np.concatenate([old, model.next_key + np.arange(new)])
    model.next_key += new
    draw.shuffle(keys)
    model.versions[keys] = version
    return rows_of(keys, model.versions[keys], model.days)


def strewn(model: Model, part: int, parts: int) -> pa.Table:
    """Return every `parts`th key, in random order; remove their rows from the model."""
    keys = np.arange(part, model.next_key, parts)
    generator("strewn", part).shuffle(keys)
    model.versions[keys] = GONE
    return pa.table({KEY: keys})


def change_log(model: Model, count: int, first: int) -> pa.Table:
    """Return a log of inserts, updates and deletes, out of order; apply it to the model.

    Events have consecutive versions from `first`. A key may have several events: the one with the
    highest version says whether it has a row.
    """
    draw = generator("log", first)
    fresh, new = model.next_key, max(1, count // 4)
    model.next_key += new
    # A third of the events are of new keys; many keys have several events.
    keys = np.where(
        draw.random(count) < 1 / 3,
        fresh + draw.integers(0, new, count),
        draw.integers(0, fresh, count),
    )
    operations = np.array(["U", "I", "D"])[
        np.where(draw.random(count) < 0.2, 2, (keys >= fresh).astype(int))
    ]
    versions = np.arange(first, first + count, dtype=np.int32)
    model.versions[keys] = np.where(operations == "D", GONE, versions)  # the last one counts
    order = draw.permutation(count)
    rows = rows_of(keys[order], versions[order], model.days)
    return rows.append_column(OPERATION, pa.array(operations[order]))


def newest(log: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows to upsert and those to delete: of each key, only the newest event counts."""
    keys, versions = log[KEY].to_numpy(), log[VERSION].to_numpy()
    order = np.lexsort((versions, keys))
    is_last = np.append(keys[order][1:] != keys[order][:-1], True)
    last = log.take(pa.array(order[is_last]))
    is_delete = pc.equal(last[OPERATION], "D")
    rows = last.drop_columns([OPERATION])
    return rows.filter(pc.invert(is_delete)), rows.filter(is_delete)

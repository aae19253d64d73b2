"""Knows the workload: sales of a shop, drawn from seeds, as Parquet files, and what must come out.

A base, ten appends and ten deletes by key, and the source of a MERGE with an operation column.
`generate` makes the files once per size and hands on the `Truth`: rows and sums that the
numbers themselves give, before any engine has seen them. Memory holds one chunk, whatever the
size.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_hiveacid.format.table import Column
from bench.sizes import BATCHES, Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Ints = npt.NDArray[np.int64]

KEY: Final = "sale_id"
OPERATION: Final = "op"
CUSTOMERS: Final = 2_000_000

_VERSION: Final = 1
_PARQUET: Final = {"compression": "zstd", "store_decimal_as_integer": True}
_BASE_FILES: Final = 4
_CHUNK_ROWS: Final = 250_000
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a state of the table adds up to: rows, keys, items sold, cents paid."""

    rows: int = 0
    keys: int = 0
    quantity: int = 0
    paid_cents: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def __sub__(self, other: Sums) -> Sums:
        return Sums(**{name: value - getattr(other, name) for name, value in asdict(self).items()})

    @classmethod
    def of(cls, sales: pa.Table) -> Self:
        """Add up some sales."""
        return cls(
            rows=sales.num_rows,
            keys=pc.sum(sales[KEY]).as_py() or 0,
            quantity=pc.sum(sales["quantity"]).as_py() or 0,
            paid_cents=int((pc.sum(sales["paid"]).as_py() or 0) * 100),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the table holds after each stage: the base, ten appends and deletes, the MERGE."""

    base: Sums
    changed: Sums
    merged: Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Where the files are. `base` is a folder of Parquet files, the others are one file each."""

    folder: Path
    sizes: Sizes
    truth: Truth

    @property
    def base(self) -> Path:
        """All columns of every row of the base, ascending by key."""
        return self.folder / "base"

    @property
    def appends(self) -> tuple[Path, ...]:
        """All columns of rows that are new."""
        return tuple(self.folder / f"append-{i}.parquet" for i in range(BATCHES))

    @property
    def deletes(self) -> tuple[Path, ...]:
        """Keys of rows of the base; no key twice."""
        return tuple(self.folder / f"delete-{i}.parquet" for i in range(BATCHES))

    @property
    def merge(self) -> Path:
        """All columns and `op`: U and D on rows of the base that are still there, I on new keys."""
        return self.folder / "merge.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """Keys of the base that later stages touch; disjoint, each array ascending."""

    deleted: tuple[Ints, ...]
    updated: Ints
    merged_away: Ints

    @classmethod
    def of(cls, sizes: Sizes) -> Self:
        """Draw them."""
        counts = [*[sizes.delete_rows] * BATCHES, sizes.merge_updates, sizes.merge_deletes]
        drawn = _generator("picks").choice(sizes.rows, sum(counts), replace=False)
        *deleted, updated, merged_away = (
            np.sort(part) for part in np.split(drawn, np.cumsum(counts)[:-1])
        )
        return cls(deleted=tuple(deleted), updated=updated, merged_away=merged_away)


def sales(keys: Ints, *seed: str | int) -> pa.Table:
    """Sales with these keys and otherwise random values, the same for the same seed and keys."""
    draw, count = _generator(*seed), len(keys)
    sold = draw.integers(0, _DAYS, count)
    columns = [
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
    ]
    return pa.table(columns, names=[column.name for column in COLUMNS])


def money(cents: Ints) -> pa.Array:
    """Whole cents as decimal(12,2); exact, without a Python object per value."""
    # A decimal128 is its unscaled value in 16 little-endian bytes, so the upper half is the sign.
    halves = np.stack([cents, cents >> 63], axis=1)
    return pa.Array.from_buffers(
        pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(halves.tobytes())]
    )


def generate(folder: Path, sizes: Sizes) -> Workload:
    """Make the workload below a folder, unless it is there."""
    target = folder / f"data-{_VERSION}-{sizes.rows}"
    notes = target / "truth.json"
    if notes.is_file():
        stages = json.loads(notes.read_text(encoding="utf-8"))
        truth = Truth(**{stage: Sums(**sums) for stage, sums in stages.items()})
        return Workload(folder=target, sizes=sizes, truth=truth)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    maker = _Maker(folder=target, sizes=sizes, picks=Picks.of(sizes))
    truth = maker.make()
    notes.write_text(json.dumps(asdict(truth), indent=1), encoding="utf-8")
    return Workload(folder=target, sizes=sizes, truth=truth)


@dataclass(slots=True, kw_only=True)
class _Maker:
    """Writes the files of one size. Mutable: it counts keys."""

    folder: Path
    sizes: Sizes
    picks: Picks
    next_key: int = field(default=0)

    def make(self) -> Truth:
        base, deleted, replaced = self._write_base()
        changed = base - deleted
        for i in range(BATCHES):
            rows = sales(self._new_keys(self.sizes.append_rows), "append", i)
            self._write(f"append-{i}", rows)
            self._write(f"delete-{i}", pa.table({KEY: self.picks.deleted[i]}))
            changed += Sums.of(rows)
        updates = sales(self.picks.updated, "update")
        deletes = sales(self.picks.merged_away, "merged away")
        inserts = sales(self._new_keys(self.sizes.merge_inserts), "insert")
        parts = [
            rows.append_column(OPERATION, pa.repeat(pa.scalar(code), rows.num_rows))
            for code, rows in (("U", updates), ("D", deletes), ("I", inserts))
        ]
        self._write("merge", pa.concat_tables(parts))
        merged = changed - replaced + Sums.of(updates) + Sums.of(inserts)
        return Truth(base=base, changed=changed, merged=merged)

    def _write_base(self) -> tuple[Sums, Sums, Sums]:
        """Write the base; sums of all of it, of what deletes take and of what the MERGE takes."""
        whole, deleted, replaced = Sums(), Sums(), Sums()
        gone = np.concatenate(self.picks.deleted)
        merged = np.concatenate([self.picks.updated, self.picks.merged_away])
        (self.folder / "base").mkdir()
        ends = np.linspace(0, self.sizes.rows, _BASE_FILES + 1).astype(int)
        for i, end in enumerate(ends[1:]):
            path = self.folder / "base" / f"part-{i}.parquet"
            schema = sales(np.arange(0), "schema").schema
            with pq.ParquetWriter(path, schema, **_PARQUET) as writer:
                for rows in self._chunks(int(end)):
                    writer.write_table(rows)
                    keys = rows[KEY].to_numpy()
                    whole += Sums.of(rows)
                    deleted += Sums.of(rows.filter(pa.array(np.isin(keys, gone))))
                    replaced += Sums.of(rows.filter(pa.array(np.isin(keys, merged))))
        return whole, deleted, replaced

    def _chunks(self, end: int) -> Iterator[pa.Table]:
        while self.next_key < end:
            first = self.next_key
            yield sales(self._new_keys(min(_CHUNK_ROWS, end - first)), "base", first)

    def _new_keys(self, count: int) -> Ints:
        self.next_key += count
        return np.arange(self.next_key - count, self.next_key, dtype=np.int64)

    def _write(self, name: str, rows: pa.Table) -> None:
        pq.write_table(rows, self.folder / f"{name}.parquet", **_PARQUET)


def _generator(*seed: str | int) -> np.random.Generator:
    words = [int.from_bytes(str(part).encode(), "little") for part in (_VERSION, *seed)]
    return np.random.default_rng(words)


def _dates(days: Ints) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def _one_of(words: tuple[str, ...], draw: np.random.Generator, count: int) -> pa.Array:
    return pa.array(words).take(pa.array(draw.integers(0, len(words), count)))


def _text(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _joined(between: str, *parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(between))

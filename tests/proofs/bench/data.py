"""The workload: sales of a shop as Parquet files, and the expected results.

It has a base, ten appends, ten deletes by key, and the source of a MERGE with an operation column;
a condition selects the rows of a partial UPDATE. `generate` makes the files once per size and
returns the `Truth`: rows and sums that follow from the numbers themselves, before any engine reads
them. Memory holds one chunk, whatever the size.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_hiveacid.format.table import Column
from tests.proofs.bench.sales import (
    COLUMNS,
    CUSTOMERS,
    KEY,
    OPERATION,
    SEED_VERSION,
    Ints,
    generator,
    sales,
)

_RAISED_CUSTOMERS: Final = CUSTOMERS // 100

RAISED: Final = f"customer_id <= {_RAISED_CUSTOMERS}"
"""The rows of the partial UPDATE, as SQL: one in a hundred, all over the table."""

RAISE: Final = ("quantity", "quantity + 1")
"""The one column that the partial UPDATE sets, and its new value."""

BATCHES: Final = 10
"""Appends, and deletes, on top of the base when figures are taken."""

_SMALLEST: Final = 10_000
_PARQUET: Final = {"compression": "zstd", "store_decimal_as_integer": True}
_BASE_FILES: Final = 4
_CHUNK_ROWS: Final = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows of each part of the workload; all of them follow from the rows of the base.

    `batches` appends, and as many deletes, are on top of the base. All deletes together remove 1 %
    of it.

    Example:
        >>> Sizes(rows=4_000_000).merge_rows
        100000
    """

    rows: int
    batches: int = BATCHES

    def __post_init__(self) -> None:
        """Refuse a base in which a batch would be empty.

        Raises:
            ValueError: The base is too small; it names the smallest one.
        """
        if self.rows < _SMALLEST:
            raise ValueError(f"rows must be {_SMALLEST} or more, not {self.rows}")

    @property
    def stamped(self) -> Sizes:
        """Sizes of the second table, which also has a timestamp and a char."""
        return Sizes(rows=max(_SMALLEST, self.rows // 4), batches=self.batches)

    @property
    def append_rows(self) -> int:
        return self.rows // 40

    @property
    def delete_rows(self) -> int:
        return self.rows // 100 // self.batches

    @property
    def merge_rows(self) -> int:
        return self.rows // 40

    @property
    def merge_updates(self) -> int:
        return self.merge_rows // 2

    @property
    def merge_deletes(self) -> int:
        return self.merge_rows // 10

    @property
    def merge_inserts(self) -> int:
        return self.merge_rows - self.merge_updates - self.merge_deletes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The sums of a state of the table: rows, keys, items sold, cents paid."""

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
        return cls(
            rows=sales.num_rows,
            keys=pc.sum(sales[KEY]).as_py() or 0,
            quantity=pc.sum(sales["quantity"]).as_py() or 0,
            paid_cents=int((pc.sum(sales["paid"]).as_py() or 0) * 100),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The table's sums after each stage: the base, ten appends and deletes, the MERGE.

    `raised` are those after the appends and deletes and then the UPDATE, instead of the MERGE.
    """

    base: Sums
    changed: Sums
    raised: Sums
    merged: Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The workload's files. `base` is a folder of Parquet files, the others are single files."""

    folder: Path
    sizes: Sizes
    columns: tuple[Column, ...]
    truth: Truth

    @property
    def base(self) -> Path:
        """All columns of every row of the base, ascending by key."""
        return self.folder / "base"

    @property
    def appends(self) -> tuple[Path, ...]:
        """All columns of new rows."""
        return tuple(self.folder / f"append-{i}.parquet" for i in range(self.sizes.batches))

    @property
    def deletes(self) -> tuple[Path, ...]:
        """Keys of rows of the base; each key occurs once."""
        return tuple(self.folder / f"delete-{i}.parquet" for i in range(self.sizes.batches))

    @property
    def merge(self) -> Path:
        """All columns and `op`: U and D for remaining rows of the base, I for new keys."""
        return self.folder / "merge.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """Keys of the base that later stages touch; disjoint, each array ascending."""

    deleted: tuple[Ints, ...]
    updated: Ints
    merged_away: Ints

    @classmethod
    def of(cls, sizes: Sizes) -> Self:
        counts = [*[sizes.delete_rows] * sizes.batches, sizes.merge_updates, sizes.merge_deletes]
        drawn = generator("picks").choice(sizes.rows, sum(counts), replace=False)
        *deleted, updated, merged_away = (
            np.sort(part) for part in np.split(drawn, np.cumsum(counts)[:-1])
        )
        return cls(deleted=tuple(deleted), updated=updated, merged_away=merged_away)


def generate(folder: Path, sizes: Sizes, columns: Sequence[Column] = COLUMNS) -> Workload:
    """Make the workload below a folder, unless it exists, from sales with these columns."""
    target = folder / f"data-{SEED_VERSION}-{len(columns)}-{sizes.rows}-{sizes.batches}"
    notes = target / "truth.json"
    if notes.is_file():
        stages = json.loads(notes.read_text(encoding="utf-8"))
        truth = Truth(**{stage: Sums(**sums) for stage, sums in stages.items()})
    else:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        maker = _Maker(folder=target, sizes=sizes, columns=columns, picks=Picks.of(sizes))
        truth = maker.make()
        notes.write_text(json.dumps(asdict(truth), indent=1), encoding="utf-8")
    return Workload(folder=target, sizes=sizes, columns=tuple(columns), truth=truth)


@dataclass(slots=True, kw_only=True)
class _Maker:
    """A writer of the files of one size. Mutable: it counts keys."""

    folder: Path
    sizes: Sizes
    columns: Sequence[Column]
    picks: Picks
    next_key: int = 0

    def make(self) -> Truth:
        base, deleted, replaced, raised = self._write_base()
        changed = base - deleted
        for i in range(self.sizes.batches):
            rows = self._sales(self._new_keys(self.sizes.append_rows), "append", i)
            self._write(f"append-{i}", rows)
            self._write(f"delete-{i}", pa.table({KEY: self.picks.deleted[i]}))
            changed += Sums.of(rows)
            raised += _raised(rows)
        updates = self._sales(self.picks.updated, "update")
        deletes = self._sales(self.picks.merged_away, "merged away")
        inserts = self._sales(self._new_keys(self.sizes.merge_inserts), "insert")
        parts = [
            rows.append_column(OPERATION, pa.repeat(pa.scalar(code), rows.num_rows))
            for code, rows in (("U", updates), ("D", deletes), ("I", inserts))
        ]
        self._write("merge", pa.concat_tables(parts))
        merged = changed - replaced + Sums.of(updates) + Sums.of(inserts)
        return Truth(
            base=base, changed=changed, raised=changed + Sums(quantity=raised), merged=merged
        )

    def _write_base(self) -> tuple[Sums, Sums, Sums, int]:
        """Write the base.

        Returns:
            Sums of all of it, of the rows that deletes remove and of those that the MERGE replaces;
            the number of rows for the UPDATE that are not deleted.
        """
        whole, deleted, replaced, raised = Sums(), Sums(), Sums(), 0
        gone = np.concatenate(self.picks.deleted)
        merged = np.concatenate([self.picks.updated, self.picks.merged_away])
        (self.folder / "base").mkdir()
        ends = np.linspace(0, self.sizes.rows, _BASE_FILES + 1).astype(int)
        for i, end in enumerate(ends[1:]):
            path = self.folder / "base" / f"part-{i}.parquet"
            schema = self._sales(np.arange(0), "schema").schema
            with pq.ParquetWriter(path, schema, **_PARQUET) as writer:
                for rows in self._chunks(int(end)):
                    writer.write_table(rows)
                    keys = rows[KEY].to_numpy()
                    whole += Sums.of(rows)
                    is_gone = np.isin(keys, gone)
                    deleted += Sums.of(rows.filter(pa.array(is_gone)))
                    raised += _raised(rows.filter(pa.array(~is_gone)))
                    replaced += Sums.of(rows.filter(pa.array(np.isin(keys, merged))))
        return whole, deleted, replaced, raised

    def _chunks(self, end: int) -> Iterator[pa.Table]:
        while self.next_key < end:
            first = self.next_key
            yield self._sales(self._new_keys(min(_CHUNK_ROWS, end - first)), "base", first)

    def _sales(self, keys: Ints, *seed: str | int) -> pa.Table:
        return sales(keys, *seed, columns=self.columns)

    def _new_keys(self, count: int) -> Ints:
        self.next_key += count
        return np.arange(self.next_key - count, self.next_key, dtype=np.int64)

    def _write(self, name: str, rows: pa.Table) -> None:
        pq.write_table(rows, self.folder / f"{name}.parquet", **_PARQUET)


def _raised(rows: pa.Table) -> int:
    """Return the number of rows that the partial UPDATE changes."""
    return int(pc.sum(pc.less_equal(rows["customer_id"], _RAISED_CUSTOMERS)).as_py() or 0)

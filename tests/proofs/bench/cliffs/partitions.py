"""A measurement of tables with many partitions: scans, one partition, a MERGE into three.

The same rows are in few partitions and in many, with and without one row in a hundred deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, functions as F

from tests.proofs.bench import files
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.rows import DAY, cliff_rows, day_folder, day_names, is_deleted
from tests.proofs.bench.ground import Ground, case_of, read_and_hash
from tests.proofs.bench.queries import Answer
from tests.proofs.bench.recorder import WrongRowsError
from tests.proofs.bench.records import FLAT, OURS
from tests.proofs.bench.sales import KEY
from tests.proofs.bench.yardsticks import FlatPartitions

_PART: Final = "partitions"
_MERGE: Final = "merge"
_DELETES: Final = files.delta(2, is_delete=True)
_TOUCHED: Final = 3
_NEW_KEYS: Final = 1_000_000_000
_NEW_ROWS: Final = 50
_UPDATED_OF: Final = 3


def measure_partitions(ground: Ground) -> None:
    """Measure few partitions, then many."""
    few, many = ground.size(400, 3), ground.size(4_000)
    rows = ground.size(600_000, 4_000)
    _Days(ground=ground, count=few, rows=rows).measure(merges=False)
    _Days(ground=ground, count=many, rows=rows).measure(merges=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Days:
    """One table of `rows` rows with a partition for each of `count` days."""

    ground: Ground
    count: int
    rows: int

    def measure(self, *, merges: bool) -> None:
        self.ground.begin(f"{self.count:,} partitions: making them")
        table = self._create(f"days_{self.count}", self.names)
        for name, rows in self._each():
            files.write_directory(
                table.folder / day_folder(name), files.FIRST_BASE, [files.inserted(rows, 1)]
            )
            files.write_flat(self._flat_file("whole", name), rows)
        table.use_up_write_ids(1)
        self._scan("", table, "whole")
        for name, rows in self._each():
            gone = pa.array(is_deleted(rows[KEY].to_numpy()))
            events = files.deleted(files.inserted(rows, 1), gone, 2)
            files.write_directory(table.folder / day_folder(name), _DELETES, [events])
            files.write_flat(self._flat_file("less", name), rows.filter(pc.invert(gone)))
        table.use_up_write_ids(1)
        self._scan("deleted-", table, "less")
        if merges:
            self._merge(table)
        table.drop()
        shutil.rmtree(self.ground.folder)

    @property
    def names(self) -> list[str]:
        return day_names(self.count)

    def _create(self, name: str, days: Sequence[str]) -> AcidTable:
        return files.partitioned(self.ground.lab, f"{self.ground.name}_{name}", days)

    def _each(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each partition's rows, drawn all at once, since drawing few at a time is slow."""
        size = self.rows // self.count
        rows = cliff_rows(np.arange(size * self.count))
        for i, name in enumerate(self.names):
            yield name, rows.slice(i * size, size)

    def _flat_file(self, state: str, name: str) -> Path:
        return self.ground.folder / state / day_folder(name) / "part-0.orc"

    def _scan(self, prefix: str, table: AcidTable, state: str) -> None:
        """Ask the three questions about all of it, then one about a partition in the middle."""
        self.ground.begin(f"{self.count:,} partitions, {state}: scans")
        name = f"{self.ground.name}_{self.count}_{state}"
        flat = FlatPartitions.over(self.ground.lab.spark, name, self.ground.folder / state)
        sides: Mapping[str, AcidTable | FlatPartitions] = {FLAT: flat, OURS: table}
        self.ground.ask((_PART, self.count), self.rows, sides, prefix=prefix)
        question = partial(_one, day=self.names[self.count // 2])
        case = case_of(_PART, self.count, f"{prefix}one")
        self.ground.recorder.ask(case, self.rows // self.count, sides, question)
        flat.drop()

    def _merge(self, table: AcidTable) -> None:
        """Run the same MERGE into all partitions and into a table of those that it touches."""
        self.ground.begin(f"MERGE into {_TOUCHED} of {self.count:,} partitions")
        touched = [self.names[(i + 1) * self.count // (_TOUCHED + 1)] for i in range(_TOUCHED)]
        alone = self._create("days_alone", touched)
        for name in touched:
            files.link(table.folder / day_folder(name), alone.folder / day_folder(name))
        alone.use_up_write_ids(2)
        kept = {name: rows for name, rows in self._each() if name in touched}
        for run in range(self.ground.recorder.repeats):
            source = self.ground.folder / f"merge-{run}.parquet"
            rows = _source(kept, run)
            pq.write_table(rows, source)
            for size, side in ((self.count, table), (_TOUCHED, alone)):
                work = partial(side.upsert, source, (DAY.name, KEY))
                self.ground.change((_MERGE, size), "merge", {OURS: work}, rows.num_rows, run)
        found = {_hash(side, touched) for side in (table, alone)}
        if len(found) != 1:
            raise WrongRowsError(f"one MERGE had different results: {found}")
        alone.drop()


def _one(side: AcidTable | FlatPartitions, day: str) -> Answer:
    """Return the number of rows in one partition, and their sum."""
    with side.frame((DAY.name, "paid"), f"{DAY.name} = '{day}'") as rows:
        return _sums(rows)


def _sums(rows: DataFrame) -> Answer:
    return tuple(tuple(row) for row in rows.agg(F.count(F.lit(1)), F.sum("paid")).collect())


def _hash(table: AcidTable, days: Sequence[str]) -> Answer:
    names = ", ".join(f"'{day}'" for day in days)
    with table.frame(where=f"{DAY.name} in ({names})") as rows:
        return read_and_hash(rows)


def _source(kept: dict[str, pa.Table], run: int) -> pa.Table:
    """Return new values for a third of each partition's rows, and some new rows."""
    parts = []
    for i, (name, rows) in enumerate(kept.items()):
        keys = rows[KEY].to_numpy()
        old = keys[(keys % _UPDATED_OF == run % _UPDATED_OF) & ~is_deleted(keys)]
        first = _NEW_KEYS + (run * len(kept) + i) * _NEW_ROWS
        drawn = cliff_rows(np.concatenate([old, np.arange(first, first + _NEW_ROWS)]))
        parts.append(drawn.append_column(DAY.name, pa.repeat(pa.scalar(name), drawn.num_rows)))
    return pa.concat_tables(parts)

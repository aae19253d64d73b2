"""A measurement of large rows: two thousand columns, or one text of 100 KB."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from airflow_hiveacid.format.table import Column
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.rows import TEXT_COLUMNS, long_texts, wide_columns, wide_rows
from tests.proofs.bench.contender import Readable
from tests.proofs.bench.ground import QUESTIONS, Ground
from tests.proofs.bench.queries import Query, read_everything
from tests.proofs.bench.records import FLAT, OURS
from tests.proofs.bench.sales import KEY
from tests.proofs.bench.yardsticks import FlatOrc

_UPDATED_OF: Final = 100
# With a hash over two thousand columns, mostly the hash would be measured.
_WIDE_QUESTIONS: Final = {**QUESTIONS, "all": Query(columns=None, ask=read_everything)}


def measure_columns(ground: Ground) -> None:
    """Measure a table with very many columns."""
    columns, count = wide_columns(ground.size(2_000, 100)), ground.size(5_000, 500)
    ground.begin(f"{len(columns):,} columns")
    source = _folder(ground) / "source.parquet"
    pq.write_table(wide_rows(columns, count), source, compression="zstd")
    _Large(
        ground=ground,
        part="columns",
        size=len(columns),
        columns=columns,
        source=source,
        rows=count,
        questions=_WIDE_QUESTIONS,
    ).measure()


def measure_texts(ground: Ground) -> None:
    """Measure a table with very long texts."""
    count, size = ground.size(2_000, 200), ground.size(100_000, 10_000)
    ground.begin(f"texts of {size:,} bytes")
    source = _folder(ground) / "source.parquet"
    schema = next(iter(long_texts(1, 1))).schema
    with pq.ParquetWriter(source, schema, compression="zstd") as writer:
        for rows in long_texts(count, size):
            writer.write_table(rows)
    _Large(
        ground=ground,
        part="texts",
        size=size,
        columns=TEXT_COLUMNS,
        source=source,
        rows=count,
        questions=QUESTIONS,
    ).measure()


def _folder(ground: Ground) -> Path:
    ground.folder.mkdir(parents=True)
    return ground.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Large:
    """One measurement of `rows` large rows: write, read, update one column of one in a hundred."""

    ground: Ground
    part: str
    size: int
    columns: tuple[Column, ...]
    source: Path
    rows: int
    questions: Mapping[str, Query]

    def measure(self) -> None:
        table, flat = self.ground.recorder.last(self._create)
        place = (self.part, self.size)
        self.ground.ask(place, self.rows, {FLAT: flat, OURS: table}, self.questions)
        sides: Mapping[str, Readable] = {FLAT: self._update(table, flat), OURS: table}
        self.ground.ask(place, self.rows, sides, {"all": self.questions["all"]}, "updated-")
        table.drop()
        shutil.rmtree(self.ground.folder)

    def _create(self, run: int) -> tuple[AcidTable, FlatOrc]:
        lab, path = self.ground.lab, self.ground.folder / f"base-{run}"
        table = AcidTable.create(lab, f"{self.ground.name}_{self.part}_{run}", self.columns)
        flat = FlatOrc(spark=lab.spark, path=path)
        works = {
            FLAT: partial(flat.append, self.source),
            OURS: partial(table.overwrite, self.source),
        }
        self.ground.change((self.part, self.size), "create", works, self.rows, run)
        return table, flat

    def _update(self, table: AcidTable, flat: FlatOrc) -> FlatOrc:
        """Update other rows in each run; each result is the input of the next run."""
        for run in range(self.ground.recorder.repeats):
            order = ("quantity", "quantity + 1", f"{KEY} % {_UPDATED_OF} = {run}")
            path = self.ground.folder / f"updated-{run}"
            works = {
                FLAT: partial(_bytes_set, flat, order, path),
                OURS: partial(table.set_column, *order),
            }
            rows = self.rows // _UPDATED_OF
            self.ground.change((self.part, self.size), "update", works, rows, run)
            flat = FlatOrc(spark=flat.spark, path=path)
        return flat


def _bytes_set(flat: FlatOrc, order: tuple[str, str, str], path: Path) -> int:
    return flat.set_column(*order, path).size_bytes

"""The run of one use case with one system: load, rounds, and the check of every row in the end."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, assert_never

import numpy as np
import pyarrow.parquet as pq

from tests.proofs.bench.lab import FOLDER
from tests.proofs.bench.recorder import Recorder, WrongRowsError
from tests.proofs.courses.cases import PARTS, Change, UseCase
from tests.proofs.courses.rows import Model, change_log, rows_of, strewn, upsert
from tests.proofs.courses.tables import CourseTable, create, keys_of

_CHUNK_ROWS: Final = 500_000
_BASE_FILES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One use case with one system; `system` may be ours in Python."""

    case: UseCase
    system: str
    recorder: Recorder
    name: str

    def run(self) -> None:
        """Run it, and drop the table."""
        case, folder = self.case, self.recorder.lab.folder / f"changes-{self.name}"
        model = model_of(case)
        self._begin("load")
        table = create(self.recorder.lab, self.system, self.name, case)
        self._timed("load", 0, case.rows, partial(table.load, write_base(case)))
        for round_ in range(case.rounds):
            self._begin(f"round {round_ + 1} of {case.rounds}")
            source = write_change(case, model, round_, folder)
            self._timed("change", round_, case.changes, self._change(table, source))
            if not case.erases:
                self._timed("maintain", round_, model.rows, partial(table.maintain, round_))
            for again in range(case.reads):
                number = round_ * case.reads + again
                self._timed("read", number, model.rows, partial(_read, table, model.rows))
        if case.erases:
            self._erase(table, model.rows)
        self._begin("check")
        model.require(table.batches(), f"{self.system} after {case.name}")
        table.drop()
        shutil.rmtree(folder)

    def _erase(self, table: CourseTable, rows: int) -> None:
        """Erase deleted rows, and prove it; the proof must fail before."""
        self._begin("erase and prove")
        if (early := table.is_erased(self.case.rounds)) is True:
            raise WrongRowsError(f"{self.system} proved an erasure before it erased")
        self._timed("erase", 0, rows, partial(table.erase))
        if early is not None:
            self._timed("prove", 0, rows, partial(_prove, table, self.case.rounds))

    def _begin(self, stage: str) -> None:
        self.recorder.begin(f"{self.system} {self.name}: {stage}")

    def _timed(self, what: str, number: int, rows: int, work: partial[int]) -> None:
        case = f"course.{self.case.name}.{what}"
        self.recorder.timed(case, self.system, number, rows, work)

    def _change(self, table: CourseTable, source: Path) -> partial[int]:
        match self.case.change:
            case Change.UPSERT:
                return partial(table.upsert, source, keys_of(self.case))
            case Change.DELETE:
                return partial(table.delete, source)
            case Change.LOG:
                return partial(table.apply, source)


def model_of(case: UseCase) -> Model:
    """Return the model of the loaded table."""
    most = case.rows + case.rounds * case.changes
    return Model.of(case.rows, case.rows if case.erases else most, case.days)


def write_base(case: UseCase) -> Path:
    """Write the first rows as Parquet files, unless they exist, and return their folder."""
    base = FOLDER / f"courses-{case.rows}-{case.days}"
    if (base / "_SUCCESS").exists():
        return base
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    ends = np.linspace(0, case.rows, _BASE_FILES + 1).astype(int)
    for file, (first, end) in enumerate(itertools.pairwise(ends)):
        writer = None
        for at in range(first, end, _CHUNK_ROWS):
            keys = np.arange(at, min(at + _CHUNK_ROWS, end))
            rows = rows_of(keys, np.zeros(len(keys), np.int32), case.days)
            path = base / f"part-{file}.parquet"
            writer = writer or pq.ParquetWriter(path, rows.schema, store_decimal_as_integer=True)
            writer.write_table(rows)
        if writer is not None:
            writer.close()
    (base / "_SUCCESS").touch()
    return base


def write_change(case: UseCase, model: Model, round_: int, folder: Path) -> Path:
    """Write a round's change as a Parquet file, apply it to the model, and return the file."""
    match case.change:
        case Change.UPSERT:
            rows = upsert(model, case.changes, round(case.new * case.changes), round_ + 1)
        case Change.DELETE:
            rows = strewn(model, round_, PARTS)
        case Change.LOG:
            rows = change_log(model, case.changes, 1 + round_ * case.changes)
        case _:
            assert_never(case.change)
    path = folder / f"change-{round_}.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, store_decimal_as_integer=True)
    return path


def _prove(table: CourseTable, rounds: int) -> int:
    """Prove that deleted rows are gone, and return 0 bytes written."""
    if not table.is_erased(rounds):
        raise WrongRowsError(f"{table.system} has files with rows that were erased")
    return 0


def _read(table: CourseTable, rows: int) -> int:
    """Read everything, check the number of rows, and return 0 bytes written."""
    if (found := table.read()) != rows:
        raise WrongRowsError(f"{table.system} has {found} rows instead of {rows}")
    return 0

"""Knows what every cliff works with, and the questions that are asked at each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader knows

from bench.queries import Query, count_rows, sum_one_column
from bench.recorder import answer, itself

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.cliffs.sizes import CliffSizes
    from bench.lab import Lab
    from bench.queries import Answer
    from bench.recorder import Readable, Recorder

CLIFF: Final = "cliff"
"""Begins the names of cases: cliff.PART.SIZE.WHAT."""


def read_and_hash(rows: DataFrame) -> Answer:
    """Every value of every row, in one number that tells two tables apart."""
    hashed = F.bit_xor(F.xxhash64(*sorted(rows.columns)))
    return tuple(tuple(row) for row in rows.agg(F.count(F.lit(1)), hashed).collect())


QUESTIONS: Final[Mapping[str, Query]] = {
    "count": Query(columns=(), ask=count_rows),
    "sum": Query(columns=("paid",), ask=sum_one_column),
    "all": Query(columns=None, ask=read_and_hash),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where cliffs are measured. `name` begins the names of tables and folders."""

    recorder: Recorder
    sizes: CliffSizes
    name: str

    @property
    def lab(self) -> Lab:
        """What everything runs in."""
        return self.recorder.lab

    @property
    def folder(self) -> Path:
        """For flat files and sources of statements."""
        return self.lab.folder / f"cliffs-{self.name}"

    def begin(self, stage: str) -> None:
        """Tell where we are."""
        self.recorder.begin(f"{self.name}: {stage}")

    def ask(
        self,
        place: tuple[str, int],
        rows: int,
        sides: Mapping[str, Readable],
        questions: Mapping[str, Query] = QUESTIONS,
        prefix: str = "",
    ) -> None:
        """Ask all sides the same questions; `place` is part and size."""
        for what, query in questions.items():
            case = case_of(*place, prefix + what)
            self.recorder.ask(case, rows, sides, partial(answer, query=query))

    def change(
        self,
        place: tuple[str, int],
        what: str,
        works: Mapping[str, Callable[[], int]],
        rows: int,
        run: int,
    ) -> None:
        """Measure one run of a change on each side; the works answer the bytes they wrote."""
        for system, work in works.items():
            self.recorder.timed((case_of(*place, what), system, run, rows), work, itself)


def case_of(part: str, size: int, what: str) -> str:
    """The name of a case."""
    return f"{CLIFF}.{part}.{size}.{what}"


def part_of(case: str) -> str:
    """The part that a case is of."""
    return case.split(".")[1]

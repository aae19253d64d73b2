"""The common ground of all cliffs, and the questions that each answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from tests.proofs.bench.queries import Query, count_rows, sum_one_column
from tests.proofs.bench.recorder import answer, itself

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.proofs.bench.cliffs.sizes import CliffSizes
    from tests.proofs.bench.lab import Lab
    from tests.proofs.bench.queries import Answer
    from tests.proofs.bench.recorder import Readable, Recorder

CLIFF: Final = "cliff"
"""Prefix of the names of cases: cliff.PART.SIZE.WHAT."""


def read_and_hash(rows: DataFrame) -> Answer:
    """Read every value of every row into a count and a hash that distinguish two tables."""
    hashed = F.bit_xor(F.xxhash64(*sorted(rows.columns)))
    return tuple(tuple(row) for row in rows.agg(F.count(F.lit(1)), hashed).collect())


QUESTIONS: Final[Mapping[str, Query]] = {
    "count": Query(columns=(), ask=count_rows),
    "sum": Query(columns=("paid",), ask=sum_one_column),
    "all": Query(columns=None, ask=read_and_hash),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The place where cliffs are measured. `name` is a prefix of tables and folders."""

    recorder: Recorder
    sizes: CliffSizes
    name: str

    @property
    def lab(self) -> Lab:
        """The laboratory of all systems."""
        return self.recorder.lab

    @property
    def folder(self) -> Path:
        """The folder of flat files and of statements' sources."""
        return self.lab.folder / f"cliffs-{self.name}"

    def begin(self, stage: str) -> None:
        """Report the current stage."""
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
        """Measure one run of a change on each side; `works` return the bytes that they wrote."""
        for system, work in works.items():
            self.recorder.timed((case_of(*place, what), system, run, rows), work, itself)


def case_of(part: str, size: int, what: str) -> str:
    """Return the name of a case."""
    return f"{CLIFF}.{part}.{size}.{what}"


def part_of(case: str) -> str:
    """Return the part that a case belongs to."""
    return case.split(".")[1]

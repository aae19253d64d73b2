"""Knows how a course of measurements is taken down: pieces of work in turn, answers compared.

What is compared runs system by system in turn, so that the noise of a machine falls on all. A
difference between the systems' rows or answers ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from bench.check import WrongRowsError, fingerprint, require_same, require_sums
from bench.records import FLAT, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from bench.data import Sums
    from bench.lab import Lab
    from bench.queries import Answer, Query

_T = TypeVar("_T")

Case = tuple[str, str, int, int]
"""What is done, by which system, the how manieth run, how many rows it is about."""


class Readable(Protocol):
    """What questions are asked of."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files that a reader reads."""
        ...

    def frame(self, columns: Sequence[str] | None = None) -> AbstractContextManager[DataFrame]:
        """Its rows, with at least these columns."""
        ...


class System(Readable, Protocol):
    """A side that has a name."""

    @property
    def system(self) -> str:
        """What records call it."""
        ...


_R = TypeVar("_R", bound=Readable)


def itself(value: int) -> int:
    """The size of a piece of work that answers its size."""
    return value


def always(value: int, _result: object) -> int:
    """The size of a piece of work of a known size."""
    return value


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Takes down what pieces of work took. Mutable: it collects records.

    Attributes:
        lab: Where it happens.
        process: The system whose process this is.
        repeats: How often each case is measured.
        rehearses: Whether each question is asked once before.
        say: Is told each stage.
        keep: Is given the records so far, at each stage.
    """

    lab: Lab
    process: str
    repeats: int
    rehearses: bool
    say: Callable[[str], None]
    keep: Callable[[Sequence[Record]], None]
    records: list[Record] = field(default_factory=list)

    def begin(self, stage: str) -> None:
        """Tell where we are, and keep what there is."""
        self.keep(self.records)
        self.say(stage)

    def timed(self, case: Case, work: Callable[[], _T], size_of: Callable[[_T], int]) -> _T:
        """Measure one run of a case; `size_of` tells the bytes of its result."""
        name, system, run, rows = case
        result, took = self.lab.measure(work)
        self.records.append(
            Record.of(name, system, self.process, run, took, size_bytes=size_of(result), rows=rows)
        )
        return result

    def ask(
        self, case: str, rows: int, sides: Mapping[str, _R], question: Callable[[_R], Answer]
    ) -> None:
        """Let all sides answer one question in turn.

        Raises:
            WrongRowsError: Their answers differ.
        """
        sizes = {system: side.size_bytes for system, side in sides.items()}
        answers = {question(side) for side in sides.values()} if self.rehearses else set()
        for run in range(self.repeats):
            for system, side in sides.items():
                size_of = partial(always, sizes[system])
                work = partial(question, side)
                answers.add(self.timed((case, system, run, rows), work, size_of))
        if len(answers) != 1:
            raise WrongRowsError(f"{case} has several answers: {answers}")

    def scan(
        self, state: str, rows: int, sides: Mapping[str, Readable], queries: Mapping[str, Query]
    ) -> None:
        """Ask all sides the same questions about one state."""
        for name, query in queries.items():
            self.ask(f"scan.{state}.{name}", rows, sides, partial(answer, query=query))

    def agree(self, stage: str, table: System, flat: Readable, sums: Sums) -> None:
        """Both hold what they should, and the same down to the last value.

        Raises:
            WrongRowsError: They do not.
        """
        with flat.frame() as rows:
            expected = fingerprint(rows)
        require_sums(expected, sums, f"{FLAT} after {stage}")
        with table.frame() as rows:
            require_same(fingerprint(rows), expected, f"{table.system} after {stage}")


def answer(side: Readable, query: Query) -> Answer:
    """Ask one side one question."""
    with side.frame(query.columns) as rows:
        return query.ask(rows)

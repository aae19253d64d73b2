"""The recorder of a course of measurements: pieces of work in turn, and their answers compared.

Compared systems run in turn, so that the machine's noise affects all of them. A difference between
the systems' rows or answers ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from tests.proofs.bench.check import WrongRowsError, fingerprint, require_same, require_sums
from tests.proofs.bench.records import FLAT, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from tests.proofs.bench.data import Sums
    from tests.proofs.bench.lab import Lab
    from tests.proofs.bench.queries import Answer, Query

_T = TypeVar("_T")

Case = tuple[str, str, int, int]
"""The name of the case, the system, the number of the run, the number of rows."""


class Readable(Protocol):
    """A side that answers questions."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files that a reader reads."""
        ...

    def frame(self, columns: Sequence[str] | None = None) -> AbstractContextManager[DataFrame]:
        """Return its rows, with at least these columns."""
        ...


class System(Readable, Protocol):
    """A side with a name."""

    @property
    def system(self) -> str:
        """Its name in records."""
        ...


_R = TypeVar("_R", bound=Readable)


def itself(value: int) -> int:
    """Return the size of a piece of work whose result is its size."""
    return value


def always(value: int, _result: object) -> int:
    """Return the size of a piece of work of a known size."""
    return value


@dataclass(slots=True, kw_only=True)
class Recorder:
    """A recorder of the cost of pieces of work. Mutable: it collects records.

    Attributes:
        lab: The laboratory.
        process: The system of this process.
        repeats: The number of measurements of each case.
        rehearses: True if each question is asked once before the measurement.
        say: Receives the name of each stage.
        keep: Receives the records so far, at each stage.
    """

    lab: Lab
    process: str
    repeats: int
    rehearses: bool
    say: Callable[[str], None]
    keep: Callable[[Sequence[Record]], None]
    records: list[Record] = field(default_factory=list)

    def begin(self, stage: str) -> None:
        """Report the current stage, and keep the records so far."""
        self.keep(self.records)
        self.say(stage)

    def timed(self, case: Case, work: Callable[[], _T], size_of: Callable[[_T], int]) -> _T:
        """Measure one run of a case; `size_of` returns the bytes of its result."""
        name, system, run, rows = case
        result, took = self.lab.measure(work)
        self.records.append(
            Record.of(name, system, self.process, run, took, size_bytes=size_of(result), rows=rows)
        )
        return result

    def ask(
        self, case: str, rows: int, sides: Mapping[str, _R], question: Callable[[_R], Answer]
    ) -> None:
        """Ask all sides one question in turn.

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
            raise WrongRowsError(f"{case} has different answers: {answers}")

    def scan(
        self, state: str, rows: int, sides: Mapping[str, Readable], queries: Mapping[str, Query]
    ) -> None:
        """Ask all sides the same questions about one state."""
        for name, query in queries.items():
            self.ask(f"scan.{state}.{name}", rows, sides, partial(answer, query=query))

    def agree(self, stage: str, table: System, flat: Readable, sums: Sums) -> None:
        """Check that both sides have the expected rows, equal down to the last value.

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

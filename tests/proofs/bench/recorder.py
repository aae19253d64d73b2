"""The recorder of a course of measurements: pieces of work in turn, and their answers compared.

Compared systems run in turn, so that the machine's noise affects all of them. A difference between
the systems' rows or answers ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame, functions as F

from tests.proofs.bench.contender import Contender, Readable
from tests.proofs.bench.data import Sums
from tests.proofs.bench.lab import Lab
from tests.proofs.bench.queries import Answer, Query
from tests.proofs.bench.records import FLAT, Record
from tests.proofs.bench.sales import KEY
from tests.proofs.bench.yardsticks import FlatOrc


class _Table(Protocol):
    def drop(self) -> None: ...


_Side = TypeVar("_Side", bound="Readable")
_Result = TypeVar("_Result", bound="int | FlatOrc")
_Tables = TypeVar("_Tables", bound="tuple[_Table, ...]")


@dataclass(slots=True, kw_only=True)
class Recorder:
    """A recorder of the cost of pieces of work. Mutable: it collects records.

    Attributes:
        process: The system of this process.
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

    def timed(
        self, case: str, system: str, run: int, rows: int, work: Callable[[], _Result]
    ) -> _Result:
        """Measure one run of a change, which returns the bytes written, or new flat files."""
        result, took = self.lab.measure(work)
        size_bytes = result if isinstance(result, int) else result.size_bytes
        self.records.append(
            Record.of(case, system, self.process, run, took, size_bytes=size_bytes, rows=rows)
        )
        return result

    def ask(
        self, case: str, rows: int, sides: Mapping[str, _Side], question: Callable[[_Side], Answer]
    ) -> None:
        sizes = {system: side.size_bytes for system, side in sides.items()}
        answers = {question(side) for side in sides.values()} if self.rehearses else set()

        def work(system: str) -> int:
            answers.add(question(sides[system]))
            return sizes[system]

        for run in range(self.repeats):
            for system in sides:
                self.timed(case, system, run, rows, partial(work, system))
        if len(answers) != 1:
            raise WrongRowsError(f"{case} has different answers: {answers}")

    def scan(
        self, state: str, rows: int, sides: Mapping[str, Readable], queries: Mapping[str, Query]
    ) -> None:
        """Ask all sides the same questions about one state."""
        for name, query in queries.items():
            self.ask(f"scan.{state}.{name}", rows, sides, partial(answer, query=query))

    def agree(self, stage: str, table: Contender, flat: Readable, sums: Sums) -> None:
        """Check that both sides have the expected rows, equal down to the last value."""
        with flat.frame() as rows:
            expected = fingerprint(rows)
        require_sums(expected, sums, f"{FLAT} after {stage}")
        with table.frame() as rows:
            require_same(fingerprint(rows), expected, f"{table.system} after {stage}")

    def last(self, once: Callable[[int], _Tables]) -> _Tables:
        """Run a change repeatedly, and return its last tables; the others are dropped."""
        tables = once(0)
        for run in range(1, self.repeats):
            for table in tables:
                table.drop()
            tables = once(run)
        return tables


def answer(side: Readable, query: Query) -> Answer:
    """Ask one side one question."""
    with side.frame(query.columns) as rows:
        return query.ask(rows)


# ---- checks --------------------------------------------------------------------------------------


class WrongRowsError(Exception):
    """A system ended with other rows than the workload requires, so its figures mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A summary that distinguishes states of the table: sums, and a hash over all values."""

    sums: Sums
    hash: int


def fingerprint(frame: DataFrame) -> Fingerprint:
    """Read every row of a frame once, and return its fingerprint."""
    row = frame.agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(KEY).alias("keys"),
        F.sum("quantity").alias("quantity"),
        (F.sum("paid") * 100).cast("bigint").alias("paid_cents"),
        F.bit_xor(F.xxhash64(*sorted(frame.columns))).alias("hash"),
    ).first()
    values = row.asDict() if row is not None else {}
    return Fingerprint(hash=values.pop("hash"), sums=Sums(**values))


def require_sums(found: Fingerprint, expected: Sums, what: str) -> None:
    """Compare the sums with those that follow from the workload's own numbers."""
    if found.sums != expected:
        raise WrongRowsError(f"{what} holds {found.sums}, but should hold {expected}")


def require_same(found: Fingerprint, expected: Fingerprint, what: str) -> None:
    """Compare with another system's fingerprint."""
    if found != expected:
        raise WrongRowsError(f"{what} holds {found}, the other system {expected}")

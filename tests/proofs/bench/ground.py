"""The place where cliffs and compactions are measured: tables in a lab, questions, findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from pyspark.sql import DataFrame, functions as F

from tests.proofs.bench import acid, contender, records
from tests.proofs.bench.lab import Lab
from tests.proofs.bench.meter import Measurement
from tests.proofs.bench.queries import Answer, Query, count_rows, sum_one_column
from tests.proofs.bench.recorder import Recorder, WrongRowsError, answer

Work = Callable[[], object]


def read_and_hash(rows: DataFrame) -> Answer:
    """Read every value of every row into a count and a hash that distinguish two tables."""
    hashed = F.bit_xor(F.xxhash64(*sorted(rows.columns)))
    return tuple(tuple(row) for row in rows.agg(F.count(F.lit(1)), hashed).collect())


QUESTIONS: Final[Mapping[str, Query]] = {
    "count": Query(columns=(), ask=count_rows),
    "sum": Query(columns=("paid",), ask=sum_one_column),
    "all": Query(columns=None, ask=read_and_hash),
}


@dataclass(slots=True, kw_only=True)
class Ground:
    """The place of one measurement. Mutable: it collects findings.

    Attributes:
        recorder: Receives the measurements of cliffs, and knows the lab and the repetitions.
        scale: The scale of all sizes; 1 is for the figures, 0.01 shows that everything runs.
        name: Prefix of tables and folders.
        findings: The findings so far, of compactions.
    """

    recorder: Recorder
    scale: float
    name: str = "full"
    peers: tuple[str, ...] = ()
    findings: list[records.Finding] = field(default_factory=list)
    _part: str = ""
    _taken: list[Measurement] = field(default_factory=list)

    @property
    def lab(self) -> Lab:
        return self.recorder.lab

    @property
    def folder(self) -> Path:
        """The folder of flat files and of statements' sources."""
        return self.lab.folder / f"cliffs-{self.name}"

    def size(self, full: int, least: int = 4) -> int:
        return max(least, round(full * self.scale))

    # Cliffs: records of cases named cliff.PART.SIZE.WHAT

    def begin(self, stage: str) -> None:
        """Report the current stage."""
        self.recorder.begin(f"{self.name}: {stage}")

    def ask(
        self,
        place: tuple[str, int],
        rows: int,
        sides: Mapping[str, contender.Readable],
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
            self.recorder.timed(case_of(*place, what), system, run, rows, work)

    # Compactions: findings beside what is asked

    def begin_part(self, part: str) -> None:
        """Begin a part of the course, which the next findings belong to."""
        self._part = part
        self.recorder.say(part)

    def measure(self, work: Work) -> Measurement:
        """Measure a piece of work once."""
        _, took = self.lab.measure(work)
        self._taken.append(took)
        return took

    def in_turn(self, works: Mapping[str, Callable[[], Work]]) -> dict[str, list[Measurement]]:
        """Measure works in turn; each call of a work's value prepares one run and returns it."""
        took: dict[str, list[Measurement]] = {name: [] for name in works}
        for run in range(self.recorder.repeats + self.recorder.rehearses):
            for name, prepare in works.items():
                work = prepare()
                if run < self.recorder.rehearses:
                    work()
                else:
                    took[name].append(self.measure(work))
        return took

    def found(
        self, case: str, unit: str, runs: float | Sequence[float], limit: float | None = None
    ) -> None:
        """Add a finding, with the CPU seconds that were measured since the last one."""
        self.findings.append(
            records.Finding(
                part=self._part,
                case=case,
                unit=unit,
                runs=tuple(runs) if not isinstance(runs, int | float) else (runs,),
                limit=limit,
                cpu_seconds=sum(took.cpu_seconds for took in self._taken),
                other_cpu_seconds=sum(took.other_cpu_seconds for took in self._taken),
            )
        )
        self._taken.clear()
        self.recorder.say(f"  {case}: {self.findings[-1].value:.3g} {unit}")


def case_of(part: str, size: int, what: str) -> str:
    """Return the name of a cliff's case."""
    return f"cliff.{part}.{size}.{what}"


def cpu(runs: Sequence[Measurement]) -> list[float]:
    return [took.cpu_seconds for took in runs]


def ratios(runs: Sequence[Measurement], others: Sequence[Measurement]) -> list[float]:
    """Return each run's CPU seconds, divided by the median of the others'."""
    # Work too short for the clock counts as one tick.
    return [one / max(median(cpu(others)), 0.01) for one in cpu(runs)]


def require_rows(table: acid.AcidTable, expected: Answer) -> None:
    if (found := rows_of(table)) != expected:
        raise WrongRowsError(f"{table.name} has {found} instead of {expected}")


def rows_of(table: acid.AcidTable) -> Answer:
    """Return the number of a table's rows, and a hash over their values."""
    with table.frame() as rows:
        return read_and_hash(rows)

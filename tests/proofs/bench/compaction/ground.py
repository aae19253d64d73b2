"""The ground of all measurements of compactions: works in turn, and the findings about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from tests.proofs.bench.check import WrongRowsError
from tests.proofs.bench.cliffs.ground import read_and_hash
from tests.proofs.bench.compaction.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.proofs.bench.acid import AcidTable
    from tests.proofs.bench.lab import Lab
    from tests.proofs.bench.meter import Measurement
    from tests.proofs.bench.queries import Answer

    Work = Callable[[], object]


@dataclass(slots=True, kw_only=True)
class Ground:
    """The place where compactions are measured. Mutable: it collects findings.

    Attributes:
        lab: The laboratory.
        scale: The scale of all sizes; 1 is for the figures.
        repeats: The number of measurements of each work.
        warms_up: True if each work runs once before it is measured.
        peers: Other systems to measure.
        say: Receives the name of each part.
        findings: The findings so far.
    """

    lab: Lab
    scale: float
    repeats: int
    warms_up: bool
    peers: tuple[str, ...]
    say: Callable[[str], None]
    findings: list[Finding] = field(default_factory=list)
    _part: str = ""
    _taken: list[Measurement] = field(default_factory=list)

    def begin(self, part: str) -> None:
        """Begin a part of the course."""
        self._part = part
        self.say(part)

    def size(self, full: int, least: int = 4) -> int:
        """Return a size at this scale."""
        return max(least, round(full * self.scale))

    def measure(self, work: Work) -> Measurement:
        """Measure a piece of work once."""
        _, took = self.lab.measure(work)
        self._taken.append(took)
        return took

    def in_turn(self, works: Mapping[str, Callable[[], Work]]) -> dict[str, list[Measurement]]:
        """Measure works in turn; each call of a work's value prepares one run and returns it."""
        took: dict[str, list[Measurement]] = {name: [] for name in works}
        for run in range(self.repeats + self.warms_up):
            for name, prepare in works.items():
                work = prepare()
                if run < self.warms_up:
                    work()
                else:
                    took[name].append(self.measure(work))
        return took

    def found(
        self, case: str, unit: str, runs: float | Sequence[float], limit: float | None = None
    ) -> None:
        """Add a finding, with the CPU seconds that were measured since the last one."""
        self.findings.append(
            Finding(
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
        self.say(f"  {case}: {self.findings[-1].value:.3g} {unit}")


def cpu(runs: Sequence[Measurement]) -> list[float]:
    """Return the CPU seconds of each run."""
    return [took.cpu_seconds for took in runs]


def ratios(runs: Sequence[Measurement], others: Sequence[Measurement]) -> list[float]:
    """Return each run's CPU seconds, divided by the median of the others'."""
    # Work too short for the clock counts as one tick.
    return [one / max(median(cpu(others)), 0.01) for one in cpu(runs)]


def require_rows(table: AcidTable, expected: Answer) -> None:
    """Compare a table's rows with an answer of `rows_of`.

    Raises:
        WrongRowsError: They differ.
    """
    if (found := rows_of(table)) != expected:
        raise WrongRowsError(f"{table.info.ref} has {found} instead of {expected}")


def rows_of(table: AcidTable) -> Answer:
    """Return the number of a table's rows, and a hash over their values."""
    with table.frame() as rows:
        return read_and_hash(rows)

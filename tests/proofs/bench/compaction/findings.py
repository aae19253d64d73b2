"""What was measured, beside what is asked: one line for each aim, in a JSON list and on the page.

A finding is met if its value is at most its limit. Without a limit, it only says something.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.grid import Grid, replaced, setting_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.proofs.bench.machine import Setting

COMPACTION_BEGIN: Final = "<!-- compactions: written by `python -m tests.proofs.bench report` -->"
COMPACTION_END: Final = "<!-- end of compactions -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One measured value.

    Attributes:
        part: The part of the course that measured it.
        case: What was done.
        unit: The unit of the values, such as `CPU s` or `of the CPU of cp`.
        runs: The values of all runs; their median counts.
        limit: The highest value that meets the aim; None if nothing is asked.
        other_cpu_seconds: CPU seconds that other programs used meanwhile.
        cpu_seconds: CPU seconds that the measurement used.
    """

    part: str
    case: str
    unit: str
    runs: tuple[float, ...]
    limit: float | None
    cpu_seconds: float
    other_cpu_seconds: float

    @property
    def value(self) -> float:
        """The median of the runs."""
        return median(self.runs)

    @property
    def is_met(self) -> bool | None:
        """True if the aim is reached; None if nothing is asked."""
        return None if self.limit is None else self.value <= self.limit


def read_findings(path: Path) -> tuple[Finding, ...]:
    """Read the list.

    Raises:
        FileNotFoundError: Nothing was measured.
        TypeError: Another version of this module wrote it.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Finding(**{**entry, "runs": tuple(entry["runs"])}) for entry in entries)


def finding_grids(findings: Sequence[Finding]) -> tuple[Grid, ...]:
    """Return the table of all findings."""
    rows = tuple(
        (
            finding.case,
            "" if finding.limit is None else f"at most {_number(finding.limit)} {finding.unit}",
            f"{_number(finding.value)} {finding.unit}",
            {True: "yes", False: "no", None: ""}[finding.is_met],
            ", ".join(map(_number, finding.runs)) if len(finding.runs) > 1 else "",
        )
        for finding in findings
    )
    header = ("case", "asked", "measured", "met", "runs")
    return (Grid(title="Compactions, beside what is asked of them", header=header, rows=rows),)


def finding_page(text: str, findings: Sequence[Finding], setting: Setting) -> str:
    """Return the page with these findings between its markers.

    Raises:
        ValueError: A marker is missing.
    """
    blocks = [setting_text(setting, findings), *(g.markdown() for g in finding_grids(findings))]
    return replaced(text, COMPACTION_BEGIN, COMPACTION_END, blocks)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"

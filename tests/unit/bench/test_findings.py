from __future__ import annotations

from tests.proofs.bench.compaction.course import merged
from tests.proofs.bench.compaction.findings import (
    COMPACTION_BEGIN,
    COMPACTION_END,
    Finding,
    finding_grids,
    finding_page,
)
from tests.unit.bench.made_up_records import SETTING


def finding(part: str, *runs: float, limit: float | None = None) -> Finding:
    return Finding(
        part=part,
        case=f"the case of {part}",
        unit="CPU s",
        runs=runs,
        limit=limit,
        cpu_seconds=3.0,
        other_cpu_seconds=1.0,
    )


FOUND = (
    finding("minor", 0.3, 0.1, 0.2, limit=0.2),
    finding("major", 0.5, limit=0.25),
    finding("hours", 1234.0),
)


def test_the_median_of_the_runs_is_compared_with_what_is_asked() -> None:
    (grid,) = finding_grids(FOUND)
    assert grid.rows == (
        ("the case of minor", "at most 0.2 CPU s", "0.2 CPU s", "yes", "0.3, 0.1, 0.2"),
        ("the case of major", "at most 0.25 CPU s", "0.5 CPU s", "no", ""),
        ("the case of hours", "", "1,234 CPU s", "", ""),
    )


def test_a_part_that_is_measured_again_replaces_its_former_findings() -> None:
    new = [finding("major", 0.1, limit=0.25)]
    assert merged(FOUND, new) == (FOUND[0], *new, FOUND[2])


def test_the_page_shows_the_findings_between_its_markers() -> None:
    page = finding_page(f"before\n{COMPACTION_BEGIN}\nold\n{COMPACTION_END}\nafter", FOUND, SETTING)
    assert "old" not in page
    assert "| the case of major | at most 0.25 CPU s | 0.5 CPU s | no |  |" in page
    assert "Other programs used 25% of all CPU time meanwhile." in page

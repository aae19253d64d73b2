from __future__ import annotations

import dataclasses

import pytest

from tests.proofs.bench.check import Fingerprint, WrongRowsError, require_same, require_sums
from tests.proofs.bench.data import Sums
from tests.proofs.bench.figures import pairs
from tests.proofs.bench.queries import QUERIES, STAMPED
from tests.proofs.bench.records import FLAT, OURS, SPARK, Record
from tests.proofs.bench.report import BEGIN, END, grids, page
from tests.unit.bench.made_up_records import SETTING, record

STATES = {
    **dict.fromkeys(("base", "changed", "merged", "compacted"), tuple(QUERIES)),
    **dict.fromkeys(("plain", "stamped", "plain-changed", "stamped-changed"), STAMPED),
}


def measured(system: str = OURS, *, own: float = 3.0, flat: float = 2.0) -> list[Record]:
    """A whole measurement in which everything costs as much."""
    scans = [f"scan.{state}.{query}" for state, queries in STATES.items() for query in queries]
    by_flat = ["create", "append", "delete", "update", "merge", *scans]
    spark = ["compact.minor", "compact.major"]
    sides = [*((c, FLAT) for c in by_flat), *((c, SPARK) for c in spark)]
    return [
        r
        for case, yardstick in sides
        for r in (
            record(case, yardstick, flat, process=system),
            record(case, system, own, wall=0.5, process=system),
        )
    ]


def test_figures_are_medians_and_ratios_are_computed_from_medians() -> None:
    records = [
        *(record("merge", FLAT, cpu, run=i) for i, cpu in enumerate((10.0, 12.0, 50.0))),
        *(record("merge", OURS, cpu, run=i, wall=2.0) for i, cpu in enumerate((2.0, 3.0, 99.0))),
    ]
    (pair,) = pairs(records)
    assert pair.figure.cpu_seconds == 3.0
    assert pair.cpu_ratio == 0.25
    assert pair.wall_ratio == 2.0


def test_memory_is_the_highest_peak_of_all_runs() -> None:
    (pair,) = pairs([record("merge", OURS, 1.0, run=i) for i in range(3)])
    assert pair.figure.worker_peak_bytes == 102 << 20


def test_compactions_are_compared_with_spark_and_other_cases_with_flat_files() -> None:
    found = {p.figure.case: p.yardstick.system for p in pairs(measured()) if p.yardstick}
    assert found.pop("compact.minor") == found.pop("compact.major") == SPARK
    assert set(found.values()) == {FLAT}


def test_a_case_without_a_yardstick_has_no_ratio() -> None:
    (pair,) = pairs([record("compact.minor", "iceberg", 1.0)])
    assert pair.cpu_ratio is None
    assert pair.wall_ratio is None


def test_a_yardstick_of_zero_seconds_does_not_cause_a_division_by_zero() -> None:
    (pair,) = pairs([record("merge", FLAT, 0.0), record("merge", OURS, 0.5)])
    assert pair.cpu_ratio == 50.0


def test_every_case_is_in_a_table_with_its_ratio() -> None:
    steps, cpu, wall, memory = grids(pairs(measured()))
    assert [row[0] for row in steps.rows] == [
        "write the base",
        "append one batch",
        "delete one batch by key",
        "UPDATE one column of 1 %",
        "MERGE",
        "minor compaction",
        "major compaction",
    ]
    assert {row[2] for row in steps.rows} == {"1.50"}
    cells = {cell for row in cpu.rows for cell in row[1:]}
    assert cells == {"1.50 (3.00)", ""}  # a count asks for no column
    assert {cell for row in wall.rows for cell in row[1:]} == {"0.50 (0.50)", ""}
    assert len(cpu.rows) == len(STATES)
    assert len(memory.rows) == len(steps.rows) + len(STATES)


def test_a_peer_is_compared_with_us_and_with_its_own_flat_files() -> None:
    ours, theirs = measured(), measured("delta", own=1.5, flat=1.0)
    steps, _, _, beside, _ = grids(pairs([*ours, *theirs]))
    found = {row[0]: dict(zip(steps.header, row, strict=True)) for row in steps.rows}
    assert found["MERGE"]["CPU / delta's"] == "2.00"
    assert found["MERGE"]["delta / flat"] == "1.50"
    assert found["MERGE"]["CPU / flat"] == "1.50"
    assert beside.rows[0][1:] == ("2.00 (1.50)",) * len(QUERIES)


def test_the_cells_of_a_case_that_a_peer_lacks_are_empty() -> None:
    theirs = [r for r in measured("delta") if r.case != "compact.minor"]
    steps, *_ = grids(pairs([*measured(), *theirs]))
    (minor,) = [row for row in steps.rows if row[0] == "minor compaction"]
    assert (minor[3], minor[4]) == ("", "")


def test_a_page_changes_only_between_its_markers() -> None:
    text = f"before\n\n{BEGIN}\nold figures\n{END}\n\nafter\n"
    written = page(text, pairs(measured()), SETTING)
    assert written.startswith("before\n\n")
    assert written.endswith("\n\nafter\n")
    assert "old figures" not in written
    assert "2 cores and 24 GiB" in written
    assert page(written, pairs(measured()), SETTING) == written


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="figures"):
        page("prose only", pairs(measured()), SETTING)


def test_a_difference_of_one_cent_or_of_the_hash_raises_an_error() -> None:
    sums = Sums(rows=3, keys=6, quantity=9, paid_cents=100)
    found = Fingerprint(sums=sums, hash=77)
    require_sums(found, sums, "a")
    require_same(found, found, "a")
    with pytest.raises(WrongRowsError, match="paid_cents=101"):
        require_sums(found, dataclasses.replace(sums, paid_cents=101), "a")
    with pytest.raises(WrongRowsError):
        require_same(found, dataclasses.replace(found, hash=76), "a")

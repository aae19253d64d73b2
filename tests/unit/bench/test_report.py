"""The figures of measurements and their tables: no measurement runs here."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.proofs.bench.cliffs.rows import (
    day_names,
    is_deleted,
    long_texts,
    wide_columns,
    wide_rows,
)
from tests.proofs.bench.compaction.readers import Progress, require_whole_writes
from tests.proofs.bench.courses import COURSES
from tests.proofs.bench.data import Sizes, Sums, generate
from tests.proofs.bench.grid import page
from tests.proofs.bench.lab import Setting
from tests.proofs.bench.queries import QUERIES, STAMPED
from tests.proofs.bench.recorder import Fingerprint, WrongRowsError, require_same, require_sums
from tests.proofs.bench.records import FLAT, OURS, SPARK, Finding, Record, merged, pairs
from tests.proofs.bench.report import cliff_grids, finding_grids, sales_grids
from tests.proofs.bench.sales import COLUMNS, STAMPED_COLUMNS, money, sales

SETTING = Setting(
    cores=2,
    memory_gib=24,
    kernel="Linux 6.1",
    python="3.11.2",
    java="17.0.15",
    spark="4.1.4",
    pyarrow="26.0.1",
    metastore="4.0.1",
    workload="a base of 4 rows",
    repeats=3,
    threads=2,
    driver_memory="3g",
)


def record(
    case: str, system: str, cpu: float, *, wall: float = 1.0, run: int = 0, process: str = OURS
) -> Record:
    return Record(
        case=case,
        system=system,
        process=process,
        run=run,
        seconds=wall,
        cpu_seconds=cpu,
        other_cpu_seconds=1.0,
        bytes=3 << 20,
        rows=10,
        driver_peak_bytes=200 << 20,
        jvm_peak_bytes=500 << 20,
        worker_peak_bytes=(100 + run) << 20,
    )


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


FINDINGS = (
    finding("minor", 0.3, 0.1, 0.2, limit=0.2),
    finding("major", 0.5, limit=0.25),
    finding("hours", 1234.0),
)


CLIFFS = [
    record(f"cliff.deltas.{size}.sum", system, cpu)
    for size, system, cpu in (
        (100, FLAT, 1.0),
        (100, OURS, 1.5),
        (1_000, FLAT, 4.0),
        (1_000, OURS, 15.0),
    )
]

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
    steps, cpu, wall, memory = sales_grids(pairs(measured()))
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
    steps, _, _, beside, _ = sales_grids(pairs([*ours, *theirs]))
    found = {row[0]: dict(zip(steps.header, row, strict=True)) for row in steps.rows}
    assert found["MERGE"]["CPU / delta's"] == "2.00"
    assert found["MERGE"]["delta / flat"] == "1.50"
    assert found["MERGE"]["CPU / flat"] == "1.50"
    assert beside.rows[0][1:] == ("2.00 (1.50)",) * len(QUERIES)


def test_the_cells_of_a_case_that_a_peer_lacks_are_empty() -> None:
    theirs = [r for r in measured("delta") if r.case != "compact.minor"]
    steps, *_ = sales_grids(pairs([*measured(), *theirs]))
    (minor,) = [row for row in steps.rows if row[0] == "minor compaction"]
    assert (minor[3], minor[4]) == ("", "")


@pytest.mark.parametrize("name", ["sales", "cliffs", "compaction"])
def test_a_page_changes_only_between_its_markers(name: str) -> None:
    course = COURSES[name]
    records = {"sales": measured(), "cliffs": CLIFFS, "compaction": FINDINGS}[name]
    shown = course.shown(records)
    begin = f"<!-- {course.mark}: written by `python -m tests.proofs.bench report` -->"
    text = f"before\n{begin}\nold\n<!-- end of {course.mark} -->\nafter\n"
    grids = course.grids(shown)
    show = partial(page, mark=course.mark, grids=grids, figures=shown, setting=SETTING)
    written = show(text)
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "old\n" not in written
    assert "2 cores and 24 GiB" in written
    assert all(grid.markdown() in written for grid in grids)
    assert "Other programs used 25% of all CPU time meanwhile." in written or name != "compaction"
    assert show(written) == written


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="figures"):
        page("prose only", "figures", (), (), SETTING)


def test_a_difference_of_one_cent_or_of_the_hash_raises_an_error() -> None:
    sums = Sums(rows=3, keys=6, quantity=9, paid_cents=100)
    found = Fingerprint(sums=sums, hash=77)
    require_sums(found, sums, "a")
    require_same(found, found, "a")
    with pytest.raises(WrongRowsError, match="paid_cents=101"):
        require_sums(found, dataclasses.replace(sums, paid_cents=101), "a")
    with pytest.raises(WrongRowsError):
        require_same(found, dataclasses.replace(found, hash=76), "a")


# ---- cliffs and compactions ----------------------------------------------------------------------


def test_new_figures_of_a_part_replace_only_the_old_figures_of_that_part() -> None:
    order = ("partitions", "merge", "deltas")
    former = [record(f"cliff.{part}.10.count", OURS, 1.0) for part in ("partitions", "deltas")]
    new = [record("cliff.partitions.20.count", OURS, 2.0), record("cliff.merge.3.merge", OURS, 1.0)]
    assert merged(former, new, order) == [*new, former[1]]
    again = [finding("major", 0.1, limit=0.25)]
    order = ("minor", "major", "hours")
    assert merged(FINDINGS, again, order) == [FINDINGS[0], *again, FINDINGS[2]]


def test_a_cliff_is_compared_with_flat_files_and_with_its_smallest_size() -> None:
    cases, growth = cliff_grids(pairs(CLIFFS))
    assert cases.title == "Many deltas"
    assert [row[:4] for row in cases.rows] == [
        ("100 deltas: one column", "1.50", "1.50", "1.00"),
        ("1,000 deltas: one column", "3.75", "15.0", "4.00"),
    ]
    assert growth.rows == (("1,000 deltas: one column", "100", "10.00", "15.0 / 1.50"),)


def test_the_median_of_the_runs_is_compared_with_what_is_asked() -> None:
    (grid,) = finding_grids(FINDINGS)
    assert grid.rows == (
        ("the case of minor", "at most 0.2 CPU s", "0.2 CPU s", "yes", "0.3, 0.1, 0.2"),
        ("the case of major", "at most 0.25 CPU s", "0.5 CPU s", "no", ""),
        ("the case of hours", "", "1,234 CPU s", "", ""),
    )
    assert "| the case of major | at most 0.25 CPU s | 0.5 CPU s | no |  |" in grid.markdown()


def test_the_same_seed_generates_the_same_sales_and_a_different_seed_does_not() -> None:
    keys = np.arange(100)
    assert sales(keys, "a", 1).equals(sales(keys, "a", 1))
    assert not sales(keys, "a", 1).equals(sales(keys, "a", 2))


def test_two_additional_columns_do_not_change_the_other_columns() -> None:
    drawn = sales(np.arange(1_000), "types")
    assert drawn.select([c.name for c in COLUMNS]).equals(
        sales(np.arange(1_000), "types", columns=COLUMNS)
    )
    assert [c.name for c in STAMPED_COLUMNS if c not in COLUMNS] == ["sold_at", "grade"]
    assert drawn["sold_at"].type == pa.timestamp("us")
    day = pc.floor_temporal(drawn["sold_at"], unit="day").cast(pa.date32())
    assert day.equals(drawn["sold_on"])


def test_positive_and_negative_cents_become_exact_decimals() -> None:
    values = money(np.array([0, 1, -1, 9_999_999_999, -250], dtype=np.int64)).to_pylist()
    assert values == [Decimal(t) for t in ("0.00", "0.01", "-0.01", "99999999.99", "-2.50")]


def test_a_base_too_small_for_its_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="10000 or more"):
        Sizes(rows=500)


@pytest.mark.parametrize("scale", [0, 1.5])
def test_a_scale_of_zero_or_above_one_is_refused(scale: float) -> None:
    options: Any = SimpleNamespace(scale=scale)
    with pytest.raises(ValueError, match="scale"):
        COURSES["cliffs"].measure(options, print)


def test_one_row_is_deleted_in_each_partition_of_a_hundred_rows() -> None:
    assert is_deleted(np.arange(1_000)).reshape(10, 100).sum(axis=1).tolist() == [1] * 10


def test_the_requested_number_of_different_days_is_generated() -> None:
    assert day_names(3) == ["2000-01-01", "2000-01-02", "2000-01-03"]
    assert len(set(day_names(10_000))) == 10_000


def test_wide_rows_have_all_columns_and_long_texts_have_the_requested_length() -> None:
    columns = wide_columns(100)
    assert wide_rows(columns, 7).column_names == [c.name for c in columns]
    assert len({c.name for c in columns}) == 100
    texts = list(long_texts(150, 1_000))
    assert [t.num_rows for t in texts] == [100, 50]
    assert {len(text) for t in texts for text in t["text"].to_pylist()} == {1_000}


def test_an_existing_workload_is_not_generated_again(tmp_path: Path) -> None:
    workload = generate(tmp_path, Sizes(rows=10_000))
    before = {file: file.stat().st_mtime_ns for file in workload.folder.rglob("*.parquet")}
    assert generate(tmp_path, Sizes(rows=10_000)) == workload
    assert before == {file: file.stat().st_mtime_ns for file in before}


def test_an_incomplete_workload_is_generated_again(tmp_path: Path) -> None:
    whole = generate(tmp_path, Sizes(rows=10_000))
    (whole.folder / "truth.json").unlink()
    whole.merge.unlink()
    again = generate(tmp_path, Sizes(rows=10_000))
    assert again.merge.is_file()
    assert again.truth == whole.truth


BASE = 1_000_000


@pytest.mark.parametrize("appends", [2, 3, 4])
def test_rows_of_the_base_and_of_whole_appends_are_accepted(appends: int) -> None:
    require_whole_writes(BASE + 250 * appends, BASE, 2, 4)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(0, id="no base"),
        pytest.param(BASE // 2 + 500, id="half a base"),
        pytest.param(2 * BASE + 500, id="two bases"),
        pytest.param(BASE + 600, id="a part of an append"),
        pytest.param(BASE + 250, id="too few appends"),
        pytest.param(BASE + 1250, id="too many appends"),
    ],
)
def test_rows_that_are_not_those_of_whole_writes_are_refused(rows: int) -> None:
    with pytest.raises(WrongRowsError, match=f"saw {rows} rows.* 2 to 4 appends"):
        require_whole_writes(rows, BASE, 2, 4)


def test_beside_overwrites_a_reader_need_not_see_an_append() -> None:
    for with_overwrites, least in ((False, 1), (True, 0)):
        progress = Progress.none(with_overwrites=with_overwrites)
        if progress.ended is not None:
            progress.ended.value += 1
        assert progress.least() == least

from __future__ import annotations

from datetime import date
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from demo.changes import (
    ACTUAL,
    BOOTSTRAP_FILE,
    KEY,
    LAST_DAY,
    PLANNED,
    BatchCounts,
    batch_name,
    changes_of,
    cut,
    first_days,
    read_flights,
)

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2013, 1, 11)


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


def of_op(batch: pa.Table, op: str) -> pa.Table:
    return batch.filter(pc.equal(batch["op"], op))


def distinct(flights: pa.Table, columns: tuple[str, ...]) -> int:
    return flights.group_by(list(columns)).aggregate([]).num_rows


def test_the_key_is_unique_in_all_flights_of_the_year(flights: pa.Table) -> None:
    assert flights.num_rows == 336_776
    assert distinct(flights, KEY) == flights.num_rows
    assert all(flights[name].null_count == 0 for name in KEY)


@pytest.mark.parametrize("left_out", KEY[1:])
def test_no_column_of_the_key_is_superfluous(flights: pa.Table, left_out: str) -> None:
    fewer = tuple(name for name in KEY if name != left_out)
    assert distinct(flights, fewer) < flights.num_rows


def test_every_column_of_the_source_is_planned_or_actual(flights: pa.Table) -> None:
    assert set(PLANNED) | set(ACTUAL) == set(flights.column_names)
    assert not set(PLANNED) & set(ACTUAL)
    assert all(flights[name].null_count == 0 for name in PLANNED)


def test_a_batch_inserts_the_next_days_flights_and_changes_todays_flights(
    flights: pa.Table,
) -> None:
    batch = changes_of(flights, DAY)
    assert of_op(batch, "I")["day"].unique().to_pylist() == [DAY.day + 1]
    for op in ("U", "D"):
        assert of_op(batch, op)["day"].unique().to_pylist() == [DAY.day]
    counts = [of_op(batch, op).num_rows for op in "IUD"]
    assert counts == [690, 919, 11]
    assert sum(counts) == batch.num_rows


def test_an_insert_has_only_the_planned_columns(flights: pa.Table) -> None:
    inserts = of_op(changes_of(flights, DAY), "I")
    assert all(inserts[name].null_count == inserts.num_rows for name in ACTUAL)
    assert all(inserts[name].null_count == 0 for name in PLANNED)


def test_an_update_has_all_columns_of_a_flight_that_departed(flights: pa.Table) -> None:
    updates = of_op(changes_of(flights, DAY), "U").drop_columns("op")
    same_day = pc.and_(pc.equal(flights["month"], DAY.month), pc.equal(flights["day"], DAY.day))
    left = flights.filter(pc.and_(same_day, pc.is_valid(flights["dep_time"])))
    assert updates.equals(left)


def test_a_delete_has_only_the_key_columns(flights: pa.Table) -> None:
    deletes = of_op(changes_of(flights, DAY), "D").drop_columns("op")
    others = [name for name in deletes.column_names if name not in KEY]
    assert all(deletes[name].null_count == deletes.num_rows for name in others)


def test_each_key_occurs_only_once_in_a_batch(flights: pa.Table) -> None:
    for day in first_days(31):
        batch = changes_of(flights, day)
        assert distinct(batch, KEY) == batch.num_rows


def test_the_batch_of_the_last_day_inserts_no_flights(flights: pa.Table) -> None:
    assert of_op(changes_of(flights, LAST_DAY), "I").num_rows == 0


def test_generating_the_batches_twice_gives_the_same_files(
    flights: pa.Table, tmp_path: Path
) -> None:
    for folder in ("first", "second", "second"):
        cut(flights, tmp_path / folder, days=3)
    names = sorted(file.name for file in (tmp_path / "first").iterdir())
    assert names == [*map(batch_name, first_days(3)), BOOTSTRAP_FILE]
    for name in names:
        first, second = (tmp_path / folder / name for folder in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_the_reported_counts_match_the_rows_in_the_files(flights: pa.Table, tmp_path: Path) -> None:
    counts = cut(flights, tmp_path, days=2)
    assert counts[date(2013, 1, 1)] == BatchCounts(inserts=943, updates=838, deletes=4)
    for day, told in counts.items():
        batch = pq.read_table(tmp_path / batch_name(day))
        assert told.inserts + told.updates + told.deletes == batch.num_rows


def test_the_bootstrap_file_contains_the_planned_flights_of_the_first_day(
    flights: pa.Table, tmp_path: Path
) -> None:
    cut(flights, tmp_path, days=1)
    bootstrap = pq.read_table(tmp_path / BOOTSTRAP_FILE)
    assert bootstrap.num_rows == 842
    assert bootstrap.column_names == [*PLANNED, *ACTUAL]
    assert bootstrap["day"].unique().to_pylist() == [1]
    assert all(bootstrap[name].null_count == 842 for name in ACTUAL)


@pytest.mark.parametrize("days", [0, 366])
def test_numbers_of_days_outside_one_year_are_refused(
    flights: pa.Table, tmp_path: Path, days: int
) -> None:
    with pytest.raises(ValueError, match=f"{days} days"):
        cut(flights, tmp_path, days=days)
    assert not any(tmp_path.iterdir())


def test_the_batches_applied_row_by_row_give_the_expected_flights(flights: pa.Table) -> None:
    """Five days replayed row by row: what the three clauses of the merge mean."""
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    bootstrap = [{**row, **dict.fromkeys(ACTUAL)} for row in day_rows(flights, 1)]
    changes = (changes_of(flights, day).to_pylist() for day in first_days(5))
    for row in chain(({"op": "I", **row} for row in bootstrap), *changes):
        key = tuple(row[name] for name in KEY)
        if row["op"] == "D":
            del rows[key]
        else:
            assert (key in rows) == (row["op"] == "U")
            rows[key] = {name: row[name] for name in (*PLANNED, *ACTUAL)}
    flown = [row for day in range(1, 6) for row in day_rows(flights, day) if row["dep_time"]]
    scheduled = [{**row, **dict.fromkeys(ACTUAL)} for row in day_rows(flights, 6)]
    expected = {tuple(row[name] for name in KEY): row for row in [*flown, *scheduled]}
    assert rows == expected


def day_rows(flights: pa.Table, day: int) -> list[dict[str, object]]:
    same_day = pc.and_(pc.equal(flights["month"], 1), pc.equal(flights["day"], day))
    return list(flights.filter(same_day).to_pylist())

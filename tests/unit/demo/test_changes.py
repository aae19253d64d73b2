from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo import changes

DAY = date(2013, 1, 11)


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return changes.read_flights()


def of_op(batch: pa.Table, op: str) -> pa.Table:
    return batch.filter(pc.equal(batch["op"], op))


def distinct(flights: pa.Table, columns: tuple[str, ...]) -> int:
    return flights.group_by(list(columns)).aggregate([]).num_rows


def test_the_key_is_unique_in_all_flights_of_the_year(flights: pa.Table) -> None:
    assert flights.num_rows == 336_776
    assert distinct(flights, changes.KEY) == flights.num_rows
    assert all(flights[name].null_count == 0 for name in changes.KEY)


@pytest.mark.parametrize("left_out", changes.KEY[1:])
def test_no_column_of_the_key_is_superfluous(flights: pa.Table, left_out: str) -> None:
    fewer = tuple(name for name in changes.KEY if name != left_out)
    assert distinct(flights, fewer) < flights.num_rows


def test_a_delete_has_only_the_key_columns(flights: pa.Table) -> None:
    deletes = of_op(changes.changes_of(flights, DAY), "D").drop_columns("op")
    others = [name for name in deletes.column_names if name not in changes.KEY]
    assert deletes.num_rows == 11
    assert all(deletes[name].null_count == 11 for name in others)


def test_each_key_occurs_only_once_in_a_batch(flights: pa.Table) -> None:
    for day in changes.first_days(31):
        batch = changes.changes_of(flights, day)
        assert distinct(batch, changes.KEY) == batch.num_rows


def test_the_batch_of_the_last_day_inserts_no_flights(flights: pa.Table) -> None:
    assert of_op(changes.changes_of(flights, changes.LAST_DAY), "I").num_rows == 0


def test_generating_the_batches_twice_gives_the_same_files(
    flights: pa.Table, tmp_path: Path
) -> None:
    for folder in ("first", "second", "second"):
        changes.cut(flights, tmp_path / folder, days=3)
    names = sorted(file.name for file in (tmp_path / "first").iterdir())
    assert names == [*map(changes.batch_name, changes.first_days(3)), changes.BOOTSTRAP_FILE]
    for name in names:
        first, second = (tmp_path / folder / name for folder in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("days", [0, 366])
def test_numbers_of_days_outside_one_year_are_refused(
    flights: pa.Table, tmp_path: Path, days: int
) -> None:
    with pytest.raises(ValueError, match=f"{days} days"):
        changes.cut(flights, tmp_path, days=days)
    assert not any(tmp_path.iterdir())

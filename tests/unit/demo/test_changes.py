from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from demo import changes


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return changes.read_flights()


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

"""Days before 1582-10-15 keep their label when the calendar changes under them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs as pafs, orc

from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.values.timestamps import (
    SWITCHOVER_DAY,
    is_hybrid,
    may_have_old_days,
    to_proleptic_days,
    to_proleptic_seconds,
)
from tests.support.cases import tables_of
from tests.unit.storage.orc_tables import insert, write_acid

EPOCH = dt.date(1970, 1, 1)

TABLES = tables_of(__file__)


@pytest.mark.parametrize(("hybrid", "label"), TABLES["labels"])
def test_a_hybrid_day_becomes_the_proleptic_day_of_its_label(hybrid: int, label: str) -> None:
    expected = (dt.date.fromisoformat(label) - EPOCH).days
    assert to_proleptic_days(np.array([hybrid])).tolist() == [expected]


def test_days_since_the_calendar_change_are_unchanged() -> None:
    days = np.arange(SWITCHOVER_DAY, SWITCHOVER_DAY + 400, dtype=np.int32)
    assert (to_proleptic_days(days) == days).all()


def test_each_date_before_the_calendar_change_occurs_once_except_julian_leap_days() -> None:
    days = to_proleptic_days(np.arange(-719164, SWITCHOVER_DAY))
    steps = np.diff(days)
    assert set(steps.tolist()) == {0, 1}
    assert (steps == 0).sum() == 12  # the years 100, 200, 300, 500, ... that are leap years no more


def test_the_calendar_conversion_keeps_the_time_of_day() -> None:
    seconds = np.array([-719164 * 86400 + 1, SWITCHOVER_DAY * 86400 - 1, SWITCHOVER_DAY * 86400, 5])
    expected = [-719162 * 86400 + 1, -141438 * 86400 + 86399, SWITCHOVER_DAY * 86400, 5]
    assert to_proleptic_seconds(seconds).tolist() == expected


@pytest.mark.parametrize(
    ("calendar", "writer", "version", "is_hives", "expected"),
    [
        *TABLES["writers"],
        *((0, writer, version, False, True) for writer in range(6) for version in range(10)),
    ],
)
def test_the_calendar_of_a_file_depends_on_its_footer_and_its_writer(
    tmp_path: Path, calendar: int, writer: int, version: int, is_hives: bool, expected: bool
) -> None:
    path = write_acid(tmp_path / "f", [insert(1, 0, 1)])
    tail = read_tail(pafs.LocalFileSystem(), str(path))
    tail.footer.calendar, tail.footer.writer = calendar, writer
    tail.postscript.writer_version = version
    assert is_hybrid(tail, is_hives=is_hives) == expected


def dated(path: Path, values: list[object], type_: pa.DataType) -> OrcTail:
    orc.write_table(pa.table({"c": pa.array(values, type_)}), str(path))
    return read_tail(pafs.LocalFileSystem(), str(path))


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([SWITCHOVER_DAY, 20000], pa.date32(), False),
        ([SWITCHOVER_DAY - 1, 20000], pa.date32(), True),
        ([None, None], pa.date32(), False),
        ([SWITCHOVER_DAY * 86400, 5], pa.timestamp("s"), False),
        ([SWITCHOVER_DAY * 86400 - 1, 5], pa.timestamp("s"), True),
        ([None], pa.timestamp("s"), False),
    ],
)
def test_statistics_show_whether_a_column_may_have_days_before_the_calendar_change(
    tmp_path: Path, values: list[object], type_: pa.DataType, expected: bool
) -> None:
    assert may_have_old_days(dated(tmp_path / "f", values, type_), 1) is expected


@pytest.mark.parametrize("type_", [pa.date32(), pa.timestamp("s")])
def test_a_column_whose_statistics_prove_nothing_may_have_days_before_the_calendar_change(
    tmp_path: Path, type_: pa.DataType
) -> None:
    whole, unbounded, uncounted, unindexed = (
        dated(tmp_path / name, [20000], type_) for name in "abcd"
    )
    assert not may_have_old_days(whole, 1)
    unbounded.footer.statistics[1].dates.ClearField("minimum")
    unbounded.footer.statistics[1].timestamps.ClearField("minimum_utc")  # as in files of Hive 2
    uncounted.footer.statistics[1].ClearField("values")
    unindexed.footer.row_index_stride = 0  # Java writes wrong statistics into such files
    for tail in (unbounded, uncounted, unindexed):
        assert may_have_old_days(tail, 1)

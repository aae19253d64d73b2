"""When a window of quiet hours ends, also in the nights in which the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan.window import WindowEnd

# The clocks of Zurich are set forward on 2026-03-29 (02:00 becomes 03:00), and back on 2026-10-25
# (03:00 becomes 02:00).
_BEGIN_AND_END = {
    "the same night": ("05:00", "2026-11-27T01:00+01:00", "2026-11-27T05:00+01:00"),
    "past midnight": ("05:00", "2026-11-26T22:00+01:00", "2026-11-27T05:00+01:00"),
    "a begin in UTC on the day before": ("05:00", "2026-11-26T23:30Z", "2026-11-27T05:00+01:00"),
    "a begin behind the end": ("05:00", "2026-11-27T05:00+01:00", "2026-11-28T05:00+01:00"),
    "with seconds": ("05:00:30", "2026-11-27T05:00+01:00", "2026-11-27T05:00:30+01:00"),
    "forward, three hours long": ("05:00", "2026-03-29T01:00+01:00", "2026-03-29T05:00+02:00"),
    "forward over the end": ("02:30", "2026-03-29T01:00+01:00", "2026-03-29T01:30Z"),
    "behind an end that was skipped": ("02:30", "2026-03-29T01:45Z", "2026-03-30T02:30+02:00"),
    "back, five hours long": ("05:00", "2026-10-25T01:00+02:00", "2026-10-25T05:00+01:00"),
    "the first of two": ("02:30", "2026-10-25T01:00+02:00", "2026-10-25T02:30+02:00"),
    "the second of two": ("02:30", "2026-10-25T02:45+02:00", "2026-10-25T02:30+01:00"),
    "behind both": ("02:30", "2026-10-25T02:45+01:00", "2026-10-26T02:30+01:00"),
}


@pytest.mark.parametrize(
    ("clock", "began", "end"), _BEGIN_AND_END.values(), ids=list(_BEGIN_AND_END)
)
def test_a_window_ends_when_a_clock_of_its_zone_shows_the_time(
    clock: str, began: str, end: str
) -> None:
    found = WindowEnd.parse(f"{clock} Europe/Zurich").after(datetime.fromisoformat(began))
    assert found.astimezone(UTC) == datetime.fromisoformat(end).astimezone(UTC)


def test_the_zone_decides_and_not_the_offset_of_the_beginning() -> None:
    began = datetime(2026, 11, 27, 0, tzinfo=UTC)
    ends = [WindowEnd.parse(f"05:00 {zone}").after(began) for zone in ("UTC", "America/New_York")]
    assert [end.astimezone(UTC).hour for end in ends] == [5, 10]


def test_a_moment_ends_every_window() -> None:
    end = WindowEnd.parse("2026-11-27 05:00:00+01:00")
    for began in (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)):
        assert end.after(began) == datetime(2026, 11, 27, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "05:00", "5 Europe/Zurich", "05:00 Europe/Zuerich", "2026-11-27T05:00", "25:00 UTC", "x"],
)
def test_a_text_without_a_time_or_zone_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="such as '05:00 Europe/Zurich'"):
        WindowEnd.parse(text)


def test_a_moment_of_the_zone_is_shown_with_its_offset() -> None:
    began = datetime(2026, 11, 27, 1, tzinfo=ZoneInfo("Europe/Zurich"))
    assert str(WindowEnd.parse("05:00 Europe/Zurich").after(began)) == "2026-11-27 05:00:00+01:00"

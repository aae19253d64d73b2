"""Offsets of time zones, against Java's.

`java_offsets.json` was printed by OpenJDK 17.0.15 (`TimeZone.getOffset`), whose rules are those of
the database's release 2025b: for each of its zones, the offsets at the same times.
"""

from __future__ import annotations

import json
import zoneinfo
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from airflow_hiveacid.storage.values import time_zones
from airflow_hiveacid.storage.values.time_zones import zone_of

JAVA: Final = json.loads((Path(__file__).parent / "java_offsets.json").read_text())
SECONDS: Final = np.array(JAVA["seconds"])
# Parliaments have changed the law after Java's copy of the database.
LATER_LAWS: Final = frozenset(
    {
        *("Africa/Casablanca", "Africa/El_Aaiun", "America/Edmonton", "America/Inuvik"),
        *("America/Rainy_River", "America/Vancouver", "America/Winnipeg", "America/Yellowknife"),
        *("Asia/Gaza", "Asia/Hebron", "Canada/Central", "Canada/Mountain", "Canada/Pacific"),
    }
)
# Java's own, with two years of daylight saving time that no rule of the database's form describes.
JAVAS_OWN: Final = frozenset(name for name in JAVA["offsets"] if name.startswith("SystemV/")) - {
    f"SystemV/{name}" for name in ("AST4", "EST5", "CST6", "MST7", "PST8", "YST9", "HST10")
}


@pytest.mark.parametrize("name", sorted(set(JAVA["offsets"]) - LATER_LAWS - JAVAS_OWN))
def test_a_zone_has_the_offsets_of_java_at_all_times(name: str) -> None:
    assert zone_of(name).offsets_at(SECONDS).tolist() == JAVA["offsets"][name]


@pytest.mark.parametrize("name", sorted(LATER_LAWS))
def test_a_zone_whose_law_changed_since_has_javas_offsets_until_then_and_on_the_last_day(
    name: str,
) -> None:
    known = (SECONDS < 1_780_000_000) | (SECONDS[-1] == SECONDS)
    expected = np.array(JAVA["offsets"][name])[known].tolist()
    assert zone_of(name).offsets_at(SECONDS[known]).tolist() == expected


NO_NAMES: Final = (
    *("", "Foo/Bar", "utc", "+08:00", "GMT+24:00", "GMT+08:60", "GMT+08:00\n"),
    *("../tzdata/zones", "/etc/passwd", "Europe", "Europe/", "tzdata.zi", "\N{KELVIN SIGN}/x"),
)


@pytest.mark.parametrize("name", [*sorted(JAVAS_OWN), *NO_NAMES])
def test_a_name_that_java_or_the_database_lacks_has_no_rules(name: str) -> None:
    with pytest.raises(LookupError):
        zone_of(name)


def test_the_last_rules_repeat_for_ever() -> None:
    summers = np.array(["2099-07-01", "2500-07-01", "9999-07-01"], "datetime64[s]").astype(int)
    winters = np.array(["2100-01-01", "2499-12-31", "9999-12-31"], "datetime64[s]").astype(int)
    berlin, sydney = zone_of("Europe/Berlin"), zone_of("Australia/Sydney")
    assert set(berlin.offsets_at(summers).tolist()) == {7200}
    assert set(berlin.offsets_at(winters).tolist()) == {3600}
    assert set(sydney.offsets_at(summers).tolist()) == {36000}
    assert set(sydney.offsets_at(winters).tolist()) == {39600}


def test_the_systems_files_are_used_if_the_package_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    berlin = (resources.files("tzdata") / "zoneinfo" / "Europe" / "Berlin").read_bytes()
    (tmp_path / "Some").mkdir()
    (tmp_path / "Some" / "Where").write_bytes(berlin)
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path),))
    monkeypatch.setattr(time_zones.resources, "files", _missing)
    assert zone_of("Some/Where").offsets_at(np.array([1_720_000_000])).tolist() == [7200]


def _missing(name: str) -> None:
    raise ModuleNotFoundError(name)

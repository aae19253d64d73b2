"""Cleanings list files and directories that no metadata knows, and remove old files on request."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import LocationPermissionError, TableChangedError
from airflow_hiveacid.format.names import STAGING_PREFIX
from airflow_hiveacid.format.table import (
    READS_ORIGINALS,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.jobs.short_form import MOST_BYTES, short_form
from airflow_hiveacid.maintenance import unknown_paths
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.operators.reporting.plan_text import cleaned_table_lines, cleaning_lines
from airflow_hiveacid.plan.keeping import NO_CLEANUP
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.support.steps import act_after, act_before, raises
from tests.support.tables import id_table
from tests.support.terms import job_spec

pytestmark = pytest.mark.promise("K9")

REF = TableRef("default", "t")
DELTA = "delta_0000001_0000001_0000"
DAY_S = 86400.0
MONTH_S = 30 * DAY_S


@dataclass
class Place:
    """A table with one committed insert, and files that this test puts next to it."""

    client: FakeClient
    root: Path
    files: list[Path] = field(default_factory=list)

    def table(
        self,
        *partition_columns: str,
        kind: TransactionalKind = TransactionalKind.FULL_ACID,
        parameters: Mapping[str, str] = {},
    ) -> TableInfo:
        by = ", ".join(f"{name} int" for name in partition_columns)
        table = id_table(self.client, REF, self.root, by=by, kind=kind, parameters=parameters)
        txn_id = self.client.open_txn()
        self.client.allocate_write_id(txn_id, REF)
        self.client.commit_txn(txn_id)
        self.root.mkdir(exist_ok=True)
        return table

    def days(self, *days: int) -> TableInfo:
        """A table with these partitions, each of one row."""
        table = self.table("day")
        names = [PartitionName(("day",), (str(day),)) for day in days]
        for partition in self.client.add_partitions(table, names):
            self.put(f"{partition.name}/{DELTA}/bucket_00000")
        return table

    def put(self, path: str, text: str = "rows", *, age_s: float = 2 * MONTH_S) -> Path:
        """Write a file, and give it and its directories an age."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        at_s = time.time() - age_s
        for one in (file, *(p for p in file.parents if p != self.root and self.root in p.parents)):
            os.utime(one, (at_s, at_s))
        self.files.append(file)
        return file

    def clean(self, *, after_s: float | None = None, plan_only: bool = False) -> JobResult:
        spec = CleanSpec.of_table(str(REF), unknown_age_s=after_s, plan_only=plan_only)
        return clean_tables(self.client, spec, lambda _: None).result(job_of(spec))

    def wait(self, seconds: float) -> None:
        """Let the notes of when a cleaner first wanted to remove each file be older."""
        notes = TableNotes.of(self.client.get_table(REF))
        seen = notes.first_seen(PartitionName())
        noted = {path: replace(note, at_s=note.at_s - seconds) for path, note in seen.items()}
        notes.note_first_seen(PartitionName(), noted)

    def notice(self) -> None:
        """Find the files to remove, a day before another cleaning may remove them."""
        self.clean(after_s=DAY_S)
        self.wait(DAY_S)

    def clean_twice(self) -> JobResult:
        self.notice()
        return self.clean(after_s=DAY_S)

    def left(self) -> list[Path]:
        return [file for file in self.files if file.exists()]


def job_of(spec: CleanSpec) -> JobSpec:
    return job_spec(spec, "dag/run/clean/-1")


def outcomes(result: JobResult) -> list[dict[str, Any]]:
    found: Any = result.details["cleanings"]
    return list(found)


def unknown(result: JobResult) -> dict[str, str]:
    """The listed unknown paths, each with its reason."""
    summaries = [one["unknown"] for one in outcomes(result) if one["unknown"]]
    return {one["path"]: one["why"] for found in summaries for one in found["largest"]}


def paths(result: JobResult, key: str) -> list[str]:
    return [one["path"] for outcome in outcomes(result) for one in outcome[key]]


def after_listing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act after the cleaner has listed the directories between the partitions."""
    act_after(monkeypatch, unknown_paths, "unknown_between", lambda *_: act())


@pytest.fixture
def place(client: FakeClient, tmp_path: Path) -> Place:
    return Place(client, tmp_path / "t")


# ---- what is listed ------------------------------------------------------------------------------


def test_each_kind_of_unknown_path_of_an_unpartitioned_table_is_listed(place: Place) -> None:
    place.table()
    place.put(f"{DELTA}/bucket_00000")
    place.put(f"{DELTA}/notes.txt", "12", age_s=DAY_S)
    place.put(f"{DELTA}/bucket_00001", "")
    place.put(f"{DELTA}/{DELTA}/bucket_00000")
    place.put("000000_0", "")
    place.put(".hive-staging_hive_1/-ext-10000/000000_0", "123")
    result = place.clean()
    assert (result.status, result.files) == (JobStatus.NOTHING_TO_DO, 0)
    assert unknown(result) == {
        f"{DELTA}/notes.txt": (
            "its name is not that of a data file, such as bucket_00000 or 000000_0"
        ),
        f"{DELTA}/bucket_00001": "ignored: it is empty",
        f"{DELTA}/{DELTA}/bucket_00000": ("it is in a base or delta inside another base or delta"),
        "000000_0": "ignored: it is empty",
        ".hive-staging_hive_1": "hidden: another program may still use it",
    }
    (outcome,) = outcomes(result)
    assert (outcome["unknown"]["count"], outcome["unknown"]["size_bytes"]) == (5, 9)
    ages = {one["path"]: one["age_s"] for one in outcome["unknown"]["largest"]}
    assert not any(one["is_removable"] for one in outcome["unknown"]["largest"])
    assert ages[f"{DELTA}/notes.txt"] == pytest.approx(DAY_S, abs=60)
    assert ages[".hive-staging_hive_1"] == pytest.approx(2 * MONTH_S, abs=60)


def test_each_kind_of_unknown_path_between_partitions_is_listed(place: Place) -> None:
    table = place.table("year", "month")
    name = PartitionName(("year", "month"), ("2012", "1"))
    place.client.add_partitions(table, [name])
    place.put(f"year=2012/month=1/{DELTA}/bucket_00000")
    place.put("notes.txt")
    place.put("year=2012/export.csv")
    place.put(f"year=2012/month=2/{DELTA}/bucket_00000")
    place.put("backup/year=2012/000000_0")
    place.put(".hive-staging_hive_1/000000_0")
    gone = "MSCK REPAIR TABLE adds it"
    found = unknown(place.clean())
    assert found.pop("year=2012/month=2").count(gone) == 1
    assert found == {
        "notes.txt": "no partition contains it",
        "year=2012/export.csv": "no partition contains it",
        "backup": "no partition contains it; it may belong to another table",
        ".hive-staging_hive_1": "hidden: another program may still use it",
    }


def test_known_files_are_not_listed(place: Place) -> None:
    place.days(1)
    for path in ("_SUCCESS", "day=1/_SUCCESS", f"day=1/{DELTA}/_orc_acid_version"):
        place.put(path)
    place.put(f"day=1/{STAGING_PREFIX}9-x/bucket_00000", age_s=0.0)
    place.put(f"{STAGING_PREFIX}9-x/bucket_00000", age_s=0.0)
    place.put("_hiveacid/note.json")
    place.put(".hive-staging_hive_1/000000_0", age_s=DAY_S - 60)  # a query may still run
    (place.root / "day=1/_impala_insert_staging").mkdir()
    result = place.clean()
    assert [one["unknown"] for one in outcomes(result)] == [None, None, None]


def test_originals_that_readers_read_are_not_listed_whatever_their_name(place: Place) -> None:
    place.table()
    place.put("part-00000.c000.orc")
    place.put("sub/part-00000.c000.orc")
    assert unknown(place.clean(after_s=DAY_S)) == {}
    assert len(place.left()) == 2


def test_files_of_an_unfinished_write_are_not_listed(place: Place) -> None:
    place.table()
    txn_id = place.client.open_txn()
    place.client.allocate_write_id(txn_id, REF)
    place.put("delta_0000002_0000002_0000/bucket_00000", "")
    place.put("delta_0000002_0000002_0000/_tmp.bucket_00001.part")
    place.put("delta_0000001_0000002/bucket_00000", "")
    assert unknown(place.clean(after_s=DAY_S)) == {}
    assert len(place.left()) == 3


@pytest.mark.parametrize("reads_originals", [False, True])
def test_only_files_outside_the_directories_of_an_insert_only_table_are_unknown(
    place: Place, reads_originals: bool
) -> None:
    declared = {READS_ORIGINALS: "true"} if reads_originals else {}
    place.table(kind=TransactionalKind.INSERT_ONLY, parameters=declared)
    place.put(f"{DELTA}/any-name")
    place.put(f"{DELTA}/000000_0", "")
    place.put("old-file")
    place.put("_SUCCESS")
    found = unknown(place.clean(after_s=DAY_S))
    assert list(found) == ([] if reads_originals else ["old-file"])
    assert len(place.left()) == 4


def test_a_partition_outside_the_naming_scheme_is_not_listed(place: Place) -> None:
    table = place.days(1)
    names = [PartitionName(("day",), (day,)) for day in ("2", "3")]
    own = {names[0]: f"file:{place.root}/odd/two/", names[1]: f"file:{place.root}/odd/two/three"}
    place.client.add_partitions(table, names, locations=own)
    place.put(f"odd/two/{DELTA}/bucket_00000")
    place.put(f"odd/two/three/{DELTA}/bucket_00000")
    place.put("odd/two-old/000000_0")
    assert list(unknown(place.clean(after_s=DAY_S))) == ["odd/two-old"]


def test_partitions_and_the_directories_above_them_are_not_measured(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.table("year", "month")
    place.client.add_partitions(table, [PartitionName(("year", "month"), ("2012", "1"))])
    place.put(f"year=2012/month=1/{DELTA}/bucket_00000")
    monkeypatch.setattr(unknown_paths, "tree_size", lambda *_: pytest.fail("measured"))
    assert unknown(place.clean(after_s=DAY_S)) == {}


def test_a_partition_that_is_added_while_the_job_runs_is_not_listed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.days(1)
    place.put(f"day=2/{DELTA}/bucket_00000")
    place.put(f"late/three/{DELTA}/bucket_00000")
    names = [PartitionName(("day",), (day,)) for day in ("2", "3")]
    own = {names[1]: f"file:{place.root}/late/three"}
    after_listing(monkeypatch, lambda: place.client.add_partitions(table, names, locations=own))
    assert unknown(place.clean()) == {}


@pytest.mark.parametrize(
    ("error", "listed"),
    [
        (
            LocationPermissionError(location="/t", action="list", reason="denied"),
            ["hidden: another program may still use it (its content cannot be listed)"],
        ),
        (FileNotFoundError("gone"), []),
    ],
)
def test_a_directory_that_cannot_be_listed_does_not_fail_the_cleaning(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: Exception, listed: list[str]
) -> None:
    place.days(1)
    place.put(".hive-staging_hive_1/000000_0")
    stray = place.put("old")
    monkeypatch.setattr(unknown_paths, "tree_size", raises(error))
    result = place.clean_twice()
    assert list(unknown(result).values()) == listed
    assert not stray.exists()


def test_a_cleaning_without_permission_to_list_between_partitions_succeeds(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.days(1)
    place.put("old")
    denied = LocationPermissionError(location="/t", action="list", reason="denied")
    monkeypatch.setattr(unknown_paths, "list_levels", raises(denied))
    assert unknown(place.clean(after_s=DAY_S)) == {}
    assert any("default.t: cannot find all unknown files" in m for m in caplog.messages)


def test_the_result_and_the_log_stay_short_if_there_are_many_unknown_files(place: Place) -> None:
    place.days(1)
    for number in range(300):
        place.put(f"stray_{number:03}", "x" * (number + 1))
    result = place.clean()
    found = next(one["unknown"] for one in outcomes(result) if one["unknown"])
    assert (found["count"], found["size_bytes"]) == (300, sum(range(301)))
    assert [one["path"] for one in found["largest"]] == [f"stray_{n}" for n in range(299, 294, -1)]
    short: Any = short_form(result.to_json())
    assert len(str(short)) <= MOST_BYTES
    lines = cleaning_lines(result.details)
    assert len(lines) == 7
    assert lines[-1] == "300 unknown paths (44.1 KiB) found; a cleaning leaves them alone"
    assert "changed 60 d" in lines[1]


# ---- what is removed -----------------------------------------------------------------------------


def test_old_unknown_files_are_removed_only_on_request(place: Place) -> None:
    place.days(1)
    place.put("old")
    place.put("young", age_s=MONTH_S - DAY_S)
    before = place.left()
    assert sorted(unknown(place.clean())) == ["old", "young"]
    assert paths(place.clean(after_s=MONTH_S), "kept") == ["old", "young"]
    place.wait(DAY_S)
    assert sorted(unknown(place.clean())) == ["old", "young"]
    planned = place.clean(after_s=MONTH_S, plan_only=True)
    assert place.left() == before
    result = place.clean(after_s=MONTH_S)
    assert [file.name for file in place.left()] == ["bucket_00000", "young"]
    for one in (planned, result):
        assert (paths(one, "removed"), paths(one, "kept"), unknown(one)) == (["old"], ["young"], {})
        why = {r["path"]: r["why"] for o in outcomes(one) for r in (*o["removed"], *o["kept"])}
        assert why == {
            "old": "unknown, and not changed for 60 d: no partition contains it",
            "young": "changed less than 30 d ago",
        }
    assert (result.status, result.files, result.size_bytes) == (JobStatus.COMMITTED, 1, 4)


def test_an_old_file_that_was_moved_to_its_place_just_now_stays_for_a_day(place: Place) -> None:
    place.days(1)
    file = place.put("old")
    result = place.clean(after_s=DAY_S)
    why = {r["path"]: r["why"] for o in outcomes(result) for r in o["kept"]}
    assert why == {"old": "found less than 1 d ago; may be removed in 1 d"}
    place.wait(DAY_S - 60)
    assert paths(place.clean(after_s=DAY_S), "removed") == []
    assert file.exists()
    place.wait(60)
    assert paths(place.clean(after_s=DAY_S), "removed") == ["old"]


def test_a_note_of_a_clock_that_was_ahead_keeps_a_file_for_a_day_only(place: Place) -> None:
    place.days(1)
    place.put("old")
    place.clean(after_s=DAY_S)
    place.wait(-MONTH_S)
    assert paths(place.clean_twice(), "removed") == ["old"]


def test_a_file_for_which_the_store_gives_no_time_stays(place: Place) -> None:
    place.days(1)
    file = place.put("old")
    os.utime(file, (0, 0))  # as some stores do
    result = place.clean_twice()
    (found,) = (one["unknown"] for one in outcomes(result) if one["unknown"])
    assert [(one["path"], one["age_s"]) for one in found["largest"]] == [("old", None)]
    assert file.exists()


@pytest.mark.parametrize(
    "path",
    [
        "_SUCCESS",
        "_metadata",
        ".hive-staging_hive_1/000000_0",
        "_hiveacid/note.json",
        "day=2/000000_0",
        f"day=2/{DELTA}/bucket_00000",
        "backup/000000_0",
        f"{DELTA}/bucket_00000",
        "base_5",
        f"day=1/{DELTA}/notes.txt",
        f"day=1/{DELTA}/bucket_00001",
        "day=1/.hive-staging_hive_1/000000_0",
        "day=1/part-0.orc",
    ],
)
def test_no_cleaning_removes_a_file_that_may_belong_to_something_else(
    place: Place, path: str
) -> None:
    place.days(1)
    kept = place.put(path)
    result = place.clean_twice()
    assert paths(result, "removed") == []
    assert kept.exists()


def test_no_cleaning_removes_a_file_below_the_location_of_the_table(place: Place) -> None:
    table = place.table("year", "month")
    place.client.add_partitions(table, [PartitionName(("year", "month"), ("2012", "1"))])
    place.put(f"year=2012/month=1/{DELTA}/bucket_00000")
    kept = place.put("year=2012/export.csv")
    assert list(unknown(place.clean_twice())) == ["year=2012/export.csv"]
    assert kept.exists()


def test_no_cleaning_removes_an_empty_file_of_a_base(place: Place) -> None:
    """On an object store, a base without files disappears, and deleted rows come back."""
    place.table()
    kept = place.put("base_0000001/bucket_00000", "")
    assert list(unknown(place.clean_twice())) == ["base_0000001/bucket_00000"]
    assert kept.exists()


def test_files_between_the_partitions_of_an_insert_only_table_are_only_listed(
    place: Place,
) -> None:
    place.table("day", kind=TransactionalKind.INSERT_ONLY)
    kept = place.put("old")
    assert list(unknown(place.clean_twice())) == ["old"]
    assert kept.exists()


@pytest.mark.parametrize("above", ["", "/.."])
def test_nothing_is_unknown_if_a_partition_lies_at_or_above_the_location(
    place: Place, above: str
) -> None:
    table = place.days(1)
    name = PartitionName(("day",), ("2",))
    place.client.add_partitions(table, [name], locations={name: f"file:{place.root}{above}"})
    kept = place.put("000000_0")
    result = place.clean_twice()
    assert (paths(result, "removed"), unknown(result)) == ([], {})
    assert kept.exists()


def test_a_partition_that_is_moved_to_the_location_meanwhile_keeps_the_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.days(1)
    kept = place.put("000000_0")
    place.notice()
    name = PartitionName(("day",), ("2",))
    own = {name: f"file:{place.root}"}
    after_listing(monkeypatch, lambda: place.client.add_partitions(table, [name], locations=own))
    result = place.clean(after_s=DAY_S)
    assert (paths(result, "removed"), unknown(result)) == ([], {})
    assert kept.exists()


def test_unknown_files_stay_for_readers_that_were_open_when_their_removal_was_first_wanted(
    place: Place,
) -> None:
    table = place.days(1)
    file = place.put("old")
    first = place.client.open_txn()  # without locks, so it may read any table
    held = place.clean(after_s=DAY_S)
    assert file.exists()
    assert paths(held, "kept") == ["old"]
    assert [r["txn_id"] for o in outcomes(held) for r in o["waited_for"]] == [first]
    place.client.open_txn()
    place.client.commit_txn(first)
    place.wait(DAY_S)
    assert paths(place.clean(after_s=DAY_S), "removed") == ["old"]
    assert not file.exists()
    assert TableNotes.of(table).first_seen(PartitionName()) == {}


def before_removal(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act after the cleaner has planned the removal, right before it checks the table again."""
    act_before(monkeypatch, Cleaner, "_table_now", lambda _: act())


def test_a_file_that_is_changed_right_before_its_removal_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.days(1)
    file = place.put("old")
    place.notice()
    before_removal(monkeypatch, lambda: file.write_text("new rows"))
    assert paths(place.clean(after_s=DAY_S), "removed") == []
    assert file.read_text() == "new rows"


def test_a_table_that_is_created_again_meanwhile_keeps_its_unknown_files(
    place: Place, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.days(1)
    file = place.put("old")
    place.notice()

    def create_again() -> None:
        place.client.drop_table(REF)
        clock.advance(1.0)  # Hive 3.1 tells tables apart by the second of their creation
        place.table("day")

    before_removal(monkeypatch, create_again)
    with pytest.raises(TableChangedError):
        place.clean(after_s=DAY_S)
    assert file.exists()


def test_a_table_whose_cleaning_is_switched_off_keeps_its_unknown_files(place: Place) -> None:
    place.days(1)
    file = place.put("old")
    place.notice()
    place.client.set_table_parameters(REF, {NO_CLEANUP: "true"})
    result = place.clean(after_s=DAY_S)
    assert (paths(result, "removed"), unknown(result)) == ([], {})
    assert file.exists()


def test_a_table_whose_cleaning_is_switched_off_meanwhile_keeps_its_unknown_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.days(1)
    file = place.put("old")
    place.notice()
    before_removal(
        monkeypatch, lambda: place.client.set_table_parameters(REF, {NO_CLEANUP: "true"})
    )
    result = place.clean(after_s=DAY_S)
    assert (paths(result, "removed"), paths(result, "kept")) == ([], ["old"])
    assert file.exists()


def test_a_cleaning_of_one_partition_leaves_the_files_between_partitions_alone(
    place: Place,
) -> None:
    place.days(1)
    file = place.put("old")
    place.notice()
    spec = CleanSpec.of_table(str(REF), partition="day=1", unknown_age_s=DAY_S)
    result = clean_tables(place.client, spec, lambda _: None).result(job_of(spec))
    assert (paths(result, "removed"), unknown(result)) == ([], {})
    assert file.exists()


# ---- many tables ---------------------------------------------------------------------------------


def test_a_cleaning_of_many_tables_counts_unknown_paths_and_names_the_largest(
    place: Place,
) -> None:
    place.days(1)
    place.put("old")
    place.put(f"day=1/{DELTA}/notes.txt", "many words")
    place.put("backup/000000_0", "few")

    def run(after_s: float | None) -> tuple[JobResult, dict[str, Any]]:
        spec = CleanSpec(tables=("default.*",), unknown_age_s=after_s)
        result = clean_tables(place.client, spec, lambda _: None).result(job_of(spec))
        (one,) = outcomes(result)
        return result, one

    result, one = run(None)
    assert (one["unknown"], one["unknown_bytes"], one["removed"]) == (3, 17, 0)
    assert one["largest_unknown"] == f"day=1/{DELTA}/notes.txt"
    assert (result.status, result.details["unknown"]) == (JobStatus.NOTHING_TO_DO, 3)
    lines = cleaned_table_lines(result.details)
    assert lines[1].endswith(f"3, such as day=1/{DELTA}/notes.txt")
    assert lines[-1] == "3 unknown paths (17 B) found; a cleaning leaves them alone"
    result, one = run(DAY_S)
    assert (one["unknown"], one["removed"], one["kept"]) == (2, 0, 1)
    place.wait(DAY_S)
    result, one = run(DAY_S)
    assert (one["unknown"], one["removed"], result.files) == (2, 1, 1)
    assert not (place.root / "old").exists()

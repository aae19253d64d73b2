"""Automatic compaction pauses where jobs failed twice in a row, and says why; real files."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.records import CompactionFailures
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.maintenance import compaction_facts
from airflow_hiveacid.maintenance.pauses import LASTS, pauses, would_fail_again
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.writing import compaction as compact_module
from tests.support.steps import at, raises
from tests.unit.spark.maintenance.rig import Rig

AUTO, MINOR, MAJOR = CompactionChoice.AUTO, CompactionChoice.MINOR, CompactionChoice.MAJOR
NOTED = CompactionFailures(count=2, job_key="j", last_s=1767225600.0, why="w")  # 2026-01-01
FAILURES = Path(__file__).with_name("counting_failures.json")
BAD = "delta_0000002_0000002_0000/bucket_00000"


@pytest.fixture
def sound(rig: Rig) -> bytes:
    """What the file of a table that is due contained before it was damaged."""
    rig.insert(1)
    rig.compact(MAJOR)
    rig.insert(2)
    content = path_of(rig).read_bytes()
    damage(path_of(rig))
    return content


def path_of(rig: Rig) -> Path:
    return rig.root / BAD


def damage(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))  # of the same size, so that it is due


def fail(rig: Rig, job: str, choice: CompactionChoice = AUTO) -> None:
    with pytest.raises(errors.CorruptFileError):
        rig.compact(choice, job_key=job)


def set_clock(monkeypatch: pytest.MonkeyPatch, now_s: float) -> None:
    """Set the clock of planners and compactors."""
    for module in (compaction_facts, compact_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now_s))


@pytest.mark.usefixtures("sound")
def test_after_two_failed_jobs_automatic_compaction_leaves_the_partition_and_says_why(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_clock(monkeypatch, 1_700_000_000.0)
    fail(rig, "night 1")
    fail(rig, "night 2")
    entries = rig.client.show_compactions(rig.ref)
    caplog.clear()
    outcome = rig.compact(AUTO, job_key="night 3")
    assert (outcome.done, outcome.is_hindered, outcome.kind) == (False, True, "none")
    assert outcome.why.startswith(
        "automatic compaction is paused since 2023-11-14 22:13 UTC, because 2 jobs in a row failed"
    )
    assert BAD in outcome.why  # the reason
    assert outcome.why.endswith(
        "The pause ends on 2023-11-21 22:13 UTC. To try again now, compact with choice='major' or"
        " 'minor'"
    )
    assert caplog.messages == [f"{rig.ref}: {outcome.why}"]
    assert rig.client.show_compactions(rig.ref) == entries  # nothing was tried


@pytest.mark.usefixtures("sound")
def test_the_tries_of_one_job_count_as_one_failure(rig: Rig) -> None:
    for _ in range(4):
        fail(rig, "night 1")
    fail(rig, "night 2")
    assert not rig.compact(AUTO, job_key="night 3").done


def test_a_requested_compaction_is_not_paused_and_its_success_ends_the_pause(
    rig: Rig, sound: bytes
) -> None:
    fail(rig, "night 1")
    fail(rig, "night 2")
    fail(rig, "by hand", MAJOR)
    path_of(rig).write_bytes(sound)
    assert rig.compact(AUTO, job_key="night 3").is_hindered
    assert rig.compact(MAJOR, job_key="by hand again").done
    rig.insert(3)
    assert rig.compact(AUTO, job_key="night 4").done
    assert rig.values == [1, 2, 3]


def test_a_success_between_two_failures_starts_the_count_again(rig: Rig, sound: bytes) -> None:
    fail(rig, "night 1")
    path_of(rig).write_bytes(sound)
    assert rig.compact(AUTO, job_key="night 2").done
    rig.insert(3)
    later = Path(str(path_of(rig)).replace("0000002", "0000003"))
    damage(later)
    fail(rig, "night 3")
    fail(rig, "night 4")
    assert rig.compact(AUTO, job_key="night 5").is_hindered


@pytest.mark.usefixtures("sound")
def test_a_pause_ends_after_a_week_and_the_next_failure_begins_another(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    week_s = LASTS.total_seconds()
    set_clock(monkeypatch, 0.0)
    fail(rig, "night 1")
    set_clock(monkeypatch, 86_400.0)
    fail(rig, "night 2")
    set_clock(monkeypatch, 86_400.0 + week_s - 1)
    assert rig.compact(AUTO, job_key="night 8").is_hindered
    set_clock(monkeypatch, 86_400.0 + week_s)
    fail(rig, "night 9")
    set_clock(monkeypatch, 2 * 86_400.0 + week_s)
    why = rig.compact(AUTO, job_key="night 10").why
    assert "paused since 1970-01-09" in why
    assert "3 jobs in a row" in why


@pytest.mark.usefixtures("sound")
def test_a_killed_driver_does_not_count_as_a_failure(rig: Rig) -> None:
    """Its JVM ends first, so that its tasks fail before the signal reaches the driver."""
    for night in range(3):
        with pytest.raises(errors.CorruptFileError):
            rig.compact(AUTO, job_key=f"night {night}", is_stopped=True)
    fail(rig, "night 4")


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(),
        errors.MetastoreUnavailableError(uris=(), method="lock", reason="gone"),
        errors.TransactionAbortedError(txn_id=7, reason="it timed out"),
    ],
)
@pytest.mark.usefixtures("sound")
def test_what_has_nothing_to_do_with_the_files_does_not_count(
    rig: Rig, error: BaseException
) -> None:
    for night in range(3):
        with pytest.raises(type(error)):
            rig.compact(AUTO, at("snapshot", raises(error)), job_key=f"night {night}")
    fail(rig, "night 4")


@pytest.mark.usefixtures("sound")
def test_a_failure_in_a_dropped_table_leaves_no_directory(rig: Rig) -> None:
    def drop(step: str) -> None:
        if step == "snapshot":
            rig.server.tables.pop(rig.ref)
            shutil.rmtree(rig.root)
            raise errors.StorageError("cannot write: the directory is missing")

    with pytest.raises(errors.StorageError, match="cannot write"):
        rig.compact(AUTO, drop)
    assert not rig.root.exists()


def denied(*_: object) -> None:
    raise errors.LocationPermissionError(location="/t", action="write", reason="denied")


@pytest.mark.usefixtures("sound")
def test_a_failure_is_reported_even_if_it_cannot_be_noted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(TableNotes, "note_failures", denied)
    fail(rig, "night 1")
    assert "cannot note the failed compaction of" in caplog.text
    assert rig.there("_failures") == []


def test_a_success_is_reported_even_if_the_failures_cannot_be_forgotten(
    rig: Rig, sound: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(rig, "night 1")
    path_of(rig).write_bytes(sound)
    monkeypatch.setattr(TableNotes, "note_failures", denied)
    assert rig.compact(AUTO, job_key="night 2").done


@pytest.mark.parametrize(("kind", "counts"), json.loads(FAILURES.read_text()).items())
def test_only_failures_that_the_same_files_would_cause_again_count(
    kind: str, *, counts: bool
) -> None:
    assert would_fail_again(errors.rebuild(kind, "why")) is counts


@pytest.mark.parametrize("last", ["1e300", "Infinity", "NaN", "-1e300", '"x"', "1e11", "true"])
def test_a_note_with_a_time_that_is_none_pauses_nothing_and_raises_nothing(
    table: TableInfo, last: str
) -> None:
    TableNotes.of(table).note_failures("", NOTED)
    (path,) = Path(table.location.removeprefix("file:")).glob("_hiveacid/_failures_*")
    path.write_text(path.read_text().replace(f'"last_s": {NOTED.last_s}', f'"last_s": {last}'))
    assert pauses(table, [""], now_s=NOTED.last_s) == {}


@pytest.mark.parametrize(("ahead_s", "count"), [(30.0, 1), (6 * 86400.0, 1), (365 * 86400.0, 0)])
def test_a_failure_in_the_near_future_counts_as_now_and_in_the_far_future_as_none(
    table: TableInfo, ahead_s: float, count: int
) -> None:
    TableNotes.of(table).note_failures("", replace(NOTED, last_s=NOTED.last_s + ahead_s))
    reasons = pauses(table, [""], now_s=NOTED.last_s)
    assert len(reasons) == count
    assert all("paused since 2026-01-01" in why for why in reasons.values())


def test_a_note_that_cannot_be_read_pauses_nothing_and_hides_no_other_pause(
    table: TableInfo,
) -> None:
    notes = TableNotes.of(table)
    for name in ("p=1", "p=2"):
        notes.note_failures(name, NOTED)
    unreadable = Path(notes._uri(notes._failures("p=1")).removeprefix("file:"))
    unreadable.unlink()
    unreadable.mkdir()
    now_s = NOTED.last_s
    assert pauses(table, ["p=1"], now_s=now_s) == {}
    assert [*pauses(table, ["p=1", "p=2"], now_s=now_s)] == ["p=2"]

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from demo.airflow_api import AirflowApi, Run, Task
from demo.directories import DirectorySize, DirectoryWatch
from demo.runs import COMPACTION, MERGE, RunLog, why_failed

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Page:
    """Airflow's page with three DAGs: what it answers is set by the tests."""

    def __init__(self) -> None:
        self.found: list[tuple[Run, Task, Mapping[str, Any] | None]] = []

    def add(
        self, dag_id: str, task_id: str, state: str, result: Mapping[str, Any] | None = None
    ) -> None:
        number = len(self.found)
        run_id = f"run {number}" if dag_id != COMPACTION else "compaction 1"
        start, end = NOON + timedelta(minutes=number), NOON + timedelta(minutes=number + 1)
        day = date(2013, 1, 1) + timedelta(days=number)
        run = Run(dag_id=dag_id, run_id=run_id, state=state, day=day, start=start, end=end)
        task = Task(
            run_id=run_id,
            task_id=task_id,
            state=state,
            tries=1,
            seconds=60.0,
            start=start,
            end=end,
        )
        self.found.append((run, task, result))

    def runs(self, dag_id: str) -> tuple[Run, ...]:
        return tuple(run for run, _, _ in self.found if run.dag_id == dag_id)

    def tasks(self, dag_id: str) -> tuple[Task, ...]:
        return tuple(task for run, task, _ in self.found if run.dag_id == dag_id)

    def result(
        self, dag_id: str, run_id: str, task_id: str, _map_index: int
    ) -> Mapping[str, Any] | None:
        return next(
            result
            for run, task, result in self.found
            if (run.dag_id, run.run_id, task.task_id) == (dag_id, run_id, task_id)
        )


def log_of(page: Page) -> tuple[RunLog, list[str]]:
    said: list[str] = []
    return RunLog(cast("AirflowApi", page), say=said.append), said


def test_the_line_of_a_failed_task_says_that_it_has_no_result() -> None:
    page = Page()
    log, said = log_of(page)
    page.add(MERGE, "merge", "failed")
    log.look(MERGE)
    assert "failed" in said[0]
    assert "no result" in said[0]
    assert log.lines()[0].rows == (0, 0, 0)


def test_a_compaction_is_counted_after_its_cleaning_has_ended() -> None:
    page = Page()
    log, _ = log_of(page)
    page.add(COMPACTION, "compact", "success", {"status": "committed"})
    log.look(COMPACTION)
    assert log.compactions() == ()
    page.add(COMPACTION, "clean", "success", {"status": "committed"})
    log.look(COMPACTION)
    (compaction,) = log.compactions()
    assert (compaction.began, compaction.cleaned) == (NOON, NOON + timedelta(minutes=2))
    assert compaction.has_removed


def test_a_cleaning_with_nothing_to_do_has_removed_no_files() -> None:
    page = Page()
    log, _ = log_of(page)
    page.add(COMPACTION, "compact", "success", {"status": "committed"})
    page.add(COMPACTION, "clean", "success", {"status": "nothing_to_do"})
    log.look(COMPACTION)
    assert [compaction.has_removed for compaction in log.compactions()] == [False]


def test_a_compaction_with_nothing_to_do_is_not_counted() -> None:
    page = Page()
    log, _ = log_of(page)
    page.add(COMPACTION, "compact", "success", {"status": "nothing_to_do"})
    page.add(COMPACTION, "clean", "success", {"status": "nothing_to_do"})
    log.look(COMPACTION)
    assert log.compactions() == ()


def test_the_last_error_of_a_run_is_found_in_its_log(tmp_path: Path) -> None:
    assert why_failed(tmp_path) == "no task logged an error"
    folder = tmp_path / "task_id=merge"
    folder.mkdir()
    errors = [{"exc_type": "SourceNotFoundError", "exc_value": "no such file"}]
    lines = ["words of a program", "[1]", json.dumps({"event": "x", "error_detail": errors})]
    (folder / "attempt=1.log").write_text("\n".join([*lines, json.dumps({"event": "end"})]))
    assert why_failed(tmp_path) == "SourceNotFoundError: no such file"


def make(folder: Path, **files: int) -> None:
    folder.mkdir(parents=True)
    for name, size in files.items():
        (folder / name).write_bytes(b"x" * size)


def test_only_bases_and_deltas_and_their_visible_files_are_counted(tmp_path: Path) -> None:
    make(tmp_path / "month=1" / "delta_0000001_0000001_0000", bucket_00000=7, _hiveacid=3)
    make(tmp_path / "month=1" / "_tmp_hiveacid_1" / "delta_0000002_0000002_0000", bucket_00000=5)
    make(tmp_path / "base_0000001")
    assert DirectoryWatch(tmp_path).look().directories == (
        DirectorySize(path="base_0000001", files=0, size_bytes=0),
        DirectorySize(path="month=1/delta_0000001_0000001_0000", files=1, size_bytes=7),
    )


def test_earlier_and_later_pictures_of_the_directories_are_found_by_time(tmp_path: Path) -> None:
    times = iter([10.0, 20.0])
    watch = DirectoryWatch(tmp_path, lambda: next(times))
    make(tmp_path / "delta_0000001_0000001_0000", bucket_00000=1)
    first = watch.look()
    make(tmp_path / "delta_0000002_0000002_0000", bucket_00000=1)
    second = watch.look()
    assert [watch.before(moment) for moment in (9.0, 10.0, 19.0, 20.0)] == [
        None,
        first,
        first,
        second,
    ]
    assert [watch.after(moment) for moment in (10.0, 11.0, 20.0, 21.0)] == [
        first,
        second,
        second,
        None,
    ]


def test_an_unchanged_directory_extends_the_time_of_its_picture(tmp_path: Path) -> None:
    times = iter([10.0, 20.0])
    watch = DirectoryWatch(tmp_path, lambda: next(times))
    first = watch.look()
    again = watch.look()
    assert (first.from_s, first.until_s) == (10.0, 10.0)
    assert (again.from_s, again.until_s) == (10.0, 20.0)
    assert [watch.after(moment) for moment in (15.0, 20.0, 21.0)] == [again, again, None]

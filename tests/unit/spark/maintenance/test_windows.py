"""Compactions of many tables in quiet hours: what happens at the end of the window."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.arrow.compaction import compact_in_process
from airflow_hiveacid.format.errors import (
    JobFailedError,
    PartitionsFailedError,
    StorageError,
    TaskKilledError,
)
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import AtEnd
from airflow_hiveacid.maintenance import compaction_planner
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts, CompactionOutcome
from airflow_hiveacid.spark.maintenance import bucket_tasks
from airflow_hiveacid.spark.maintenance.compact_tables import compact_tables
from airflow_hiveacid.writing import compact_tables as module
from airflow_hiveacid.writing.compaction import Compactor
from tests.contract.fake_client import FakeClient
from tests.support.steps import act_before, raises
from tests.unit.spark.maintenance.rig import Rig, pretended_spark, there
from tests.unit.spark.maintenance.test_compact_tables import Warehouse, compacted

_END_S = 1_000_000.0


class Night:
    """A clock of its own; the window ends at `_END_S`."""

    def __init__(self) -> None:
        self.now_s = _END_S - 3600

    def time(self) -> float:
        return self.now_s

    def end(self) -> None:
        self.now_s = _END_S


@pytest.fixture(autouse=True)
def night(monkeypatch: pytest.MonkeyPatch) -> Night:
    made = Night()
    monkeypatch.setattr(compaction_planner, "time", made)
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    return made


@pytest.fixture
def warehouse(client: FakeClient, tmp_path: Path) -> Warehouse:
    return Warehouse(client, tmp_path)


def run(warehouse: Warehouse, at_end: AtEnd = AtEnd.FINISH, **more: Any) -> JobResult:  # noqa: ANN401
    """Compact one partition after another."""
    job = warehouse.job("default.*", until_s=_END_S, at_end=at_end, **more)
    job.spark.sparkContext.defaultParallelism = 1
    job.spark.sparkContext.cancelAllJobs = lambda: None
    return compact_tables(job)


def end_at(
    monkeypatch: pytest.MonkeyPatch, night: Night, step: str, *, name: str = "default.a"
) -> None:
    """Let the window end when the compaction of a table reaches a step."""
    compact = Compactor.compact

    def watched(self: Compactor) -> CompactionOutcome:
        if str(self.facts.table.ref) != name:
            return compact(self)
        terms = self.job.terms

        def reach(reached: str) -> None:
            if reached == step:
                night.end()
            terms.on_step(reached)

        job = SimpleNamespace(**{**vars(self.job), "terms": replace(terms, on_step=reach)})
        return compact(replace(self, job=job))  # type: ignore[arg-type]

    monkeypatch.setattr(Compactor, "compact", watched)


def is_left(result: JobResult) -> dict[str, bool]:
    found: Any = result.details["compactions"]
    return {one["table"]: "because the window has ended" in one["why"] for one in found}


STEPS = ["opened", "snapshot", "staged", "reads_locked", "published", "body_done", "committed"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.long_cases("hive3-*")
def test_running_partitions_finish_and_no_other_starts(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, night: Night, step: str
) -> None:
    first, second = warehouse.table("a", 9), warehouse.table("b", 3)
    end_at(monkeypatch, night, step)
    result = run(warehouse)
    assert (result.status, result.details["window_ended"]) == (JobStatus.COMMITTED, True)
    assert compacted(result) == {"default.a": True, "default.b": False}
    assert is_left(result) == {"default.a": False, "default.b": True}
    assert (len(there(first, "base_")), there(second, "base_")) == (1, [])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.long_cases("hive3-*")
def test_running_partitions_stop_before_they_publish_and_leave_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, night: Night, step: str
) -> None:
    table, client = warehouse.table("a", 9), warehouse.client
    warehouse.table("b", 3)
    before = there(table, "")
    with monkeypatch.context() as patch:
        end_at(patch, night, step)
        result = run(warehouse, AtEnd.STOP)
    new = set(there(table, "")) - set(before) - {"_hiveacid"}
    is_done = step in ("published", "body_done", "committed")
    assert result.status is (JobStatus.COMMITTED if is_done else JobStatus.NOTHING_TO_DO)
    assert compacted(result) == {"default.a": is_done, "default.b": False}
    assert result.details["window_ended"] is True
    assert new == ({"base_0000009"} if is_done else set())
    assert Rig(client, table).values == list(range(9))
    assert list(client.valid_txns().open) == []
    night.now_s = 0
    again = run(warehouse, AtEnd.STOP)
    assert compacted(again) == ({} if is_done else {"default.a": True}) | {"default.b": True}
    assert again.details["window_ended"] is False


def test_the_jobs_of_spark_are_cancelled_until_every_partition_has_stopped(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, night: Night
) -> None:
    """The second Spark job of the compaction starts after the first cancel."""
    table = warehouse.table("a", 3)
    cancelled = threading.Semaphore(0)

    def work(*_: object) -> None:
        night.end()
        for _ in range(2):
            assert cancelled.acquire(timeout=10)
        raise JobFailedError("Job 1 cancelled as part of cancellation of all jobs")

    monkeypatch.setattr(bucket_tasks, "_results", work)
    job = warehouse.job("default.*", until_s=_END_S, at_end=AtEnd.STOP)
    job.spark = pretended_spark()
    job.spark.sparkContext.cancelAllJobs = cancelled.release
    result = compact_tables(job)
    assert (compacted(result), result.status) == ({"default.a": False}, JobStatus.NOTHING_TO_DO)
    assert [name for name in there(table, "") if not name.startswith("delta_")] == ["_hiveacid"]
    assert not [thread for thread in threading.enumerate() if thread.name == "window"]


@pytest.mark.parametrize("at_end", AtEnd)
def test_before_the_end_a_failed_job_of_spark_is_a_failure(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, at_end: AtEnd
) -> None:
    monkeypatch.setattr(bucket_tasks, "_results", raises(JobFailedError("out of memory")))
    warehouse.table("a", 3)
    with pytest.raises(PartitionsFailedError, match="out of memory"):
        run(warehouse, at_end)


@pytest.mark.parametrize("error", [StorageError("the disk is full"), TaskKilledError()])
def test_the_end_of_a_window_hides_no_other_failure(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, night: Night, error: Exception
) -> None:
    def fail(*_: object) -> None:
        night.end()
        raise error

    monkeypatch.setattr(bucket_tasks, "_results", fail)
    warehouse.table("a", 3)
    with pytest.raises(
        PartitionsFailedError if isinstance(error, StorageError) else TaskKilledError
    ):
        run(warehouse, AtEnd.STOP)


def test_behind_the_end_a_job_does_not_even_plan(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, night: Night
) -> None:
    warehouse.table("a", 3)
    night.end()
    with monkeypatch.context() as patch:
        patch.setattr(module, "plan_tables", None)
        result = run(warehouse)
    assert (result.status, result.details["window_ended"]) == (JobStatus.NOTHING_TO_DO, True)
    assert result.details["compactions"] == []
    planned = run(warehouse, plan_only=True)
    assert (planned.status, compacted(planned)) == (JobStatus.PLANNED, {"default.a": False})


@pytest.mark.parametrize("most_bytes", [1, 1 << 30])
def test_if_the_window_ends_during_the_plan_of_the_worker_no_compaction_starts(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, night: Night, most_bytes: int
) -> None:
    """Not even with Spark, which would only find that the window has ended."""
    warehouse.table("a", 3)
    act_before(monkeypatch, CompactionFacts, "plan", lambda *_: night.end())
    job = warehouse.job("default.*", until_s=_END_S)
    result = compact_in_process(job, most_bytes)
    assert (is_left(result), result.details["window_ended"]) == ({"default.a": True}, True)

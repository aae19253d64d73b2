"""The metrics that a task sends to Airflow's backend."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_hiveacid.airflow_names import stats
from airflow_hiveacid.format.errors import WriteConflictError
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.reporting.outlets import count_job
from tests.support.airflow_support import FakeSpark, context_of, run_task

pytestmark = pytest.mark.usefixtures("connections")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls of Airflow's functions, instead of a backend."""
    calls: list[tuple[Any, ...]] = []

    def incr(name: str, count: int = 1, *, tags: dict[str, str]) -> None:
        calls.append((name, count, tags))

    def timing(name: str, _: object, *, tags: dict[str, str]) -> None:
        calls.append((name, tags))

    monkeypatch.setattr(stats, "incr", incr)
    monkeypatch.setattr(stats, "timing", timing)
    return calls


@pytest.fixture
def task(spark: FakeSpark) -> HiveAcidDeleteOperator:  # noqa: ARG001 - what it submits with
    return HiveAcidDeleteOperator(task_id="task", table="demo.t", where="id = 1")


def test_a_committed_job_is_counted_with_its_rows_and_bytes(
    task: HiveAcidDeleteOperator, sent: list[tuple[Any, ...]]
) -> None:
    run_task(task, context_of("task"))
    tags = {"kind": "delete", "status": "committed"}
    assert sent == [
        ("hiveacid.jobs", 1, tags),
        ("hiveacid.job_duration", tags),
        ("hiveacid.rows", 1, {"kind": "delete", "change": "inserted"}),
        ("hiveacid.rows", 2, {"kind": "delete", "change": "updated"}),
        ("hiveacid.bytes", 500, {"kind": "delete"}),
    ]


def test_rows_that_an_earlier_try_wrote_are_not_counted_again(
    task: HiveAcidDeleteOperator, spark: FakeSpark, sent: list[tuple[Any, ...]]
) -> None:
    spark.tell(status="already_done")
    run_task(task, context_of("task"))
    assert {name for name, *_ in sent} == {"hiveacid.jobs", "hiveacid.job_duration"}


def test_a_failed_job_is_counted_with_its_error_type(
    task: HiveAcidDeleteOperator, spark: FakeSpark, sent: list[tuple[Any, ...]]
) -> None:
    spark.tell(error={"type": "WriteConflictError", "message": "another write"}, status="failed")
    with pytest.raises(WriteConflictError):
        run_task(task, context_of("task"))
    assert sent == [("hiveacid.failed_jobs", 1, {"error": "WriteConflictError"})]


def test_partitions_that_a_job_left_although_they_are_due_are_counted(
    sent: list[tuple[Any, ...]],
) -> None:
    left = {"table": "d.t", "done": False, "kind": "major", "why": "left for a later job"}
    below = {"table": "d.u", "done": False, "kind": "none", "why": "below the thresholds"}
    for status in (JobStatus.COMMITTED, JobStatus.NOTHING_TO_DO, JobStatus.PLANNED):
        details: dict[str, Any] = {"compactions": [left, left, below]}
        result = JobResult(
            kind="compact_tables", job_key="k", status=status, table="*", details=details
        )
        count_job(result, 1.0)
    counted = ("hiveacid.partitions_left", 2, {"kind": "compact_tables"})
    assert [one for one in sent if one[0] == counted[0]] == [counted] * 2

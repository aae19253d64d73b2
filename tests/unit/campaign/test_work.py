"""The jobs that the campaign's drivers get."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from tests.proofs.campaign.plans import Action
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.work import Changes, Upkeep

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hiveacid.jobs.specs.job import Job


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(version="4.0.1", file=tmp_path / "events.jsonl", say=lambda _: None)


def jobs_of(upkeep: Upkeep) -> list[Job]:
    return [task.job for _ in range(200) if (task := upkeep.next()) is not None]


def test_a_compactor_serves_each_request_that_it_has_made(record: Record) -> None:
    requested: list[str] = []
    upkeep = Upkeep(
        1, "db", record, cleans=False, request=lambda t, p: requested.append(f"{t} {p}")
    )
    jobs = [job for job in jobs_of(upkeep) if isinstance(job, CompactSpec)]
    choices = Counter((job.is_of_table, job.choice) for job in jobs)
    queued = [n for (_, choice), n in choices.items() if choice is CompactionChoice.QUEUED]
    assert len(requested) == sum(queued)
    assert choices[False, CompactionChoice.QUEUED]
    assert choices[False, CompactionChoice.AUTO]
    assert {job.choice for job in jobs if job.is_of_table} == set(CompactionChoice)
    assert set(requested) == {"db.bucketed None", *(f"db.parted p={n}" for n in range(4))}


def test_without_a_queue_to_serve_nothing_is_requested(record: Record) -> None:
    jobs = jobs_of(Upkeep(1, "db", record, cleans=False))
    assert all(getattr(job, "choice", None) is not CompactionChoice.QUEUED for job in jobs)


def test_a_cleaner_cleans_one_table_or_all(record: Record) -> None:
    found = {job.target for job in jobs_of(Upkeep(1, "db", record, cleans=True))}
    assert found == {"db.parted", "db.bucketed", "db.*"}


def test_a_rebalance_of_an_empty_partition_is_confirmed_without_a_write_id(record: Record) -> None:
    changes = Changes(1, "db", record)
    for _ in range(200):
        task = changes.next()
        assert task is not None
        number = task.number or 0
        plan = changes.plans[number]
        is_empty = plan.action is Action.REBALANCE and plan.partition == 0
        changes.done(
            task,
            JobResult(
                kind=plan.action.value,
                job_key=task.key,
                status=JobStatus.NOTHING_TO_DO if is_empty else JobStatus.COMMITTED,
                table=task.job.target,
                write_ids={} if is_empty else {task.job.target: number},
            ),
        )
    assert changes.idle
    assert changes.unfinished == []
    assert not changes.idle & set(changes.commits)
    assert record.troubles == []


def test_a_cleaner_cancels_compactions_of_both_tables_but_not_always(record: Record) -> None:
    cancelled: list[str] = []
    jobs = jobs_of(Upkeep(1, "db", record, cleans=True, cancel=cancelled.append))
    assert 0 < len(cancelled) < len(jobs)
    assert set(cancelled) == {"db.parted", "db.bucketed"}

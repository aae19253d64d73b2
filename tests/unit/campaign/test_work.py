"""The jobs that the campaign's drivers get."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from airflow_hiveacid.jobs.specs.job import Job
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec, CompactTablesSpec
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.work import Upkeep


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
    jobs = [job for job in jobs_of(upkeep) if isinstance(job, CompactSpec | CompactTablesSpec)]
    choices = Counter((type(job), job.choice) for job in jobs)
    queued = [n for (_, choice), n in choices.items() if choice is CompactionChoice.QUEUED]
    assert len(requested) == sum(queued)
    assert choices[CompactTablesSpec, CompactionChoice.QUEUED]
    assert choices[CompactTablesSpec, CompactionChoice.AUTO]
    assert {job.choice for job in jobs if isinstance(job, CompactSpec)} == set(CompactionChoice)
    assert set(requested) == {"db.bucketed None", *(f"db.parted p={n}" for n in range(4))}

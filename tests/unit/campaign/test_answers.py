"""The failures of jobs that the campaign expects, and those that are troubles."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs import maintenance
from airflow_hiveacid.jobs.job import Job, JobError, JobResult, JobStatus
from airflow_hiveacid.spark.engine.failures import job_failure
from tests.proofs.campaign.answers import Doing, note_answer
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.work import Task

COMPACT = maintenance.CompactSpec.of_table("db.t", choice=maintenance.CompactionChoice.MAJOR)
COMPACT_TABLES = maintenance.CompactSpec(tables=("db.*",), choice=maintenance.CompactionChoice.AUTO)
CLEAN = maintenance.CleanSpec.of_table("db.t")
REBALANCE = maintenance.RebalanceSpec(target="db.t", partition="p=1")
CANCELLED = errors.CompactionCancelledError(
    table="db.t", partition="", entry_id=7, state="failed", why="cancelled by root"
)
NO_PARTITION = errors.PartitionNotFoundError(table="db.t", partition="p=1")


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(version="4.0.1", file=tmp_path / "events.jsonl", say=lambda _: None)


def fail(record: Record, job: Job, error: errors.HiveAcidError, *, began_s: float = 10.0) -> int:
    """Record a failed job; return the number of troubles."""
    doing = Doing(task=Task(key="campaign/1", job=job), attempt="1", began_s=began_s, offset=0)
    result = JobResult(
        kind="compact",
        job_key="campaign/1",
        status=JobStatus.FAILED,
        table="db.t",
        error=JobError.of(error),
    )
    assert not note_answer(record, "compactor", doing, result, is_zombie=False)
    return len(record.troubles)


@pytest.mark.parametrize("job", [COMPACT, COMPACT_TABLES])
def test_a_compaction_may_be_cancelled_only_if_the_campaign_has_cancelled_it(
    record: Record, job: Job
) -> None:
    assert fail(record, job, CANCELLED) == 1
    record.cancels.append(9.0)
    assert fail(record, job, CANCELLED) == 2
    record.cancels.append(11.0)
    assert fail(record, job, CANCELLED) == 2
    assert fail(record, CLEAN, CANCELLED) == 3


def test_only_a_compaction_or_rebalance_may_miss_its_partition(record: Record) -> None:
    assert fail(record, COMPACT, NO_PARTITION) == 0
    assert fail(record, REBALANCE, NO_PARTITION) == 0
    assert fail(record, CLEAN, NO_PARTITION) == 1


@pytest.mark.parametrize(
    ("error", "troubles"),
    [
        (errors.MetastoreUnavailableError(uris=("u",), method="lock", reason="gone"), 0),
        (errors.CorruptFileError(path="f", reason="cut off"), 1),
        (job_failure(RuntimeError("an executor is lost")), 1),
    ],
)
def test_a_partition_must_not_fail_for_good(
    record: Record, error: errors.HiveAcidError, troubles: int
) -> None:
    failed = errors.PartitionsFailedError(table="db.t", failed={"p=1": str(error)}, of=2, done={})
    assert fail(record, COMPACT, failed) == troubles
    record.full_disks.append((5.0, 15.0))
    assert fail(record, COMPACT, failed) == troubles

"""Compactions in one process: limits, kills, retries in the other engine, conflicts."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.arrow import compaction
from airflow_hiveacid.arrow.compaction import ProcessCompactions, compact_in_process
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import CompactionNotDoneError, SparkNeededError
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.spark.maintenance.compact_tables import SparkCompactions
from airflow_hiveacid.writing import compact_tables
from airflow_hiveacid.writing.job import WritingJob
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.arrow.lake import KilledError, Lake, die, made
from tests.unit.spark.maintenance.rig import pretended_spark, without_spark
from tests.unit.spark.maintenance.test_compact_tables import Warehouse

MAJOR = CompactSpec.of_table("default.s", choice=CompactionChoice.MAJOR)


@pytest.fixture
def lake(server: FakeMetastore, clock: ManualClock, tmp_path: Path) -> Lake:
    """A table with rows 1 and 3 in three deltas and a delete delta."""
    lake = made(server, clock, tmp_path)
    for number in (1, 2, 3):
        lake.insert((number, "a", None))
    lake.delete("id = 2")
    return lake


ROWS = [(1, "a", None), (3, "a", None)]


def directories(lake: Lake) -> list[str]:
    return sorted(path.name for path in lake.root.iterdir() if not path.name.startswith("_"))


def in_spark(job: WritingJob) -> JobResult:
    plan = compact_tables.planned_tables(job)
    return compact_tables.compact_tables(job, SparkCompactions(pretended_spark()), plan)


def test_a_partition_is_compacted_in_this_process_with_the_result_of_a_driver(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    result = compact_in_process(lake.job(MAJOR, key="k"))
    assert (result.status, lake.rows) == (JobStatus.COMMITTED, ROWS)
    details: Any = result.details
    (outcome,) = details["compactions"]
    assert (outcome["kind"], outcome["rows"], outcome["done"]) == ("major", 2, True)
    assert outcome["outputs"] == [name for name in directories(lake) if "base" in name]
    again = in_spark(lake.job(MAJOR, key="k", attempt=2))
    assert again.status is JobStatus.NOTHING_TO_DO


def test_a_compaction_of_more_bytes_needs_spark_and_changes_nothing(lake: Lake) -> None:
    before = directories(lake)
    with pytest.raises(SparkNeededError, match=r"reads \d+ bytes, more than 10\. Use engine="):
        compact_in_process(lake.job(MAJOR), 10)
    assert (directories(lake), lake.server.locks) == (before, {})


@pytest.mark.parametrize(
    ("tables", "is_of_table", "argument"),
    [("default.p", True, "partition"), ("default.*", False, "max_bytes")],
)
def test_an_error_names_the_argument_that_limits_the_task_unless_one_partition_is_too_large(
    client: FakeClient, tmp_path: Path, tables: str, is_of_table: bool, argument: str
) -> None:
    warehouse = Warehouse(client, tmp_path)
    warehouse.partitioned("p", ["1", "2"])
    job = warehouse.job(tables, is_of_table=is_of_table)
    largest = max(outcome.bytes_in for _, outcome in compact_tables.planned_tables(job).due)
    with pytest.raises(SparkNeededError, match=f", or compact less in one task: set {argument}$"):
        compact_in_process(job, largest)
    with pytest.raises(SparkNeededError, match=r"Use engine='auto' or 'spark'$"):
        compact_in_process(job, largest - 1)


@pytest.mark.parametrize("step", ["opened", "snapshot", "staged", "reads_locked", "published"])
@pytest.mark.parametrize(("engine", "waits"), [("worker", 0), ("spark", 0), ("spark", 100)])
def test_a_killed_compaction_is_done_by_a_retry_in_either_engine(
    lake: Lake, step: str, engine: str, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    die(lake, step, lambda: compact_in_process(lake.job(MAJOR, key="k")))
    assert lake.rows == ROWS
    lake.clock.advance(waits)
    retry = in_spark if engine == "spark" else compact_in_process
    result = retry(lake.job(MAJOR, key="k", attempt=2))
    assert result.status in {JobStatus.COMMITTED, JobStatus.NOTHING_TO_DO}
    assert lake.rows == ROWS
    bases = [name for name in directories(lake) if name.startswith("base_")]
    assert len(bases) == 1


def test_a_compaction_gives_way_to_one_of_another_job(lake: Lake) -> None:
    other = lake.other()
    refused: list[str] = []

    def compete() -> None:
        with pytest.raises(CompactionNotDoneError) as caught:
            compact_in_process(other.job(MAJOR))
        refused.append(str(caught.value))

    lake.at["staged"] = compete
    assert compact_in_process(lake.job(MAJOR)).status is JobStatus.COMMITTED
    assert len(refused) == 1
    assert lake.rows == ROWS


def test_a_write_during_a_compaction_stays(lake: Lake) -> None:
    other = lake.other()
    lake.at["staged"] = lambda: other.insert((9, "late", None))
    compact_in_process(lake.job(MAJOR))
    assert lake.rows == [*ROWS, (9, "late", None)]


@pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
def test_a_request_in_the_queue_is_served_in_this_process(lake: Lake) -> None:
    lake.client.request_compaction(lake.table.ref, None, CompactionType.MAJOR)
    queued = CompactSpec.of_table("default.s", choice=CompactionChoice.QUEUED)
    assert compact_in_process(lake.job(queued)).status is JobStatus.COMMITTED
    ours, request = lake.client.show_compactions(lake.table.ref)
    assert ours.state is CompactionState.READY_FOR_CLEANING
    assert "which compacts it now" in str(request.error_message)


def test_an_error_waits_for_the_tasks_that_still_write(monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), list[str]()

    def task(work: str) -> tuple[()]:
        if work == "bad":
            began.wait(5.0)
            raise KilledError
        began.set()
        time.sleep(0.05)
        ended.append(work)
        return ()

    monkeypatch.setattr(compaction, "compact_bucket", task)
    works: Any = ["bad", "slow"]
    with ThreadPoolExecutor(2) as threads:
        with pytest.raises(KilledError):
            ProcessCompactions(threads).buckets(works)
        assert ended == ["slow"]

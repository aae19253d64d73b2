"""The server's own Initiator asks for compactions where no worker of Hive's serves the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import airflow_hiveacid
from airflow_hiveacid.format.errors import PartitionsFailedError, StorageError
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
    CompactionType,
    fitting_job_id,
)
from tests.support.chosen_versions import chosen
from tests.support.spark_lab import Lab, make_lab

_PATIENCE_S = 90.0
ROWS = [(0,), (1,), (2,)]


@pytest.fixture(scope="module")
def initiating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    config = LocalMetastoreConfig(
        version=chosen("4.0.1"),
        data_dir=tmp_path_factory.mktemp("initiating"),
        initiator_on=True,
        ends_with_parent=True,
        extra_settings={
            "hive.compactor.check.interval": "1s",
            "hive.compactor.delta.num.threshold": "1",
        },
    )
    with LocalMetastore(config) as server:
        yield server


@pytest.fixture
def lab(spark: SparkSession, initiating: LocalMetastore) -> Iterator[Lab]:
    yield from make_lab(spark, initiating)


def waiting(lab: Lab, name: str) -> list[CompactionEntry]:
    entries = lab.client.show_compactions(lab.info(name).ref)
    return [entry for entry in entries if entry.waits_for_anybody]


def wait_for_the_initiator(lab: Lab, name: str) -> CompactionEntry:
    give_up_s = time.monotonic() + _PATIENCE_S
    while not (found := waiting(lab, name)):
        assert time.monotonic() < give_up_s, lab.client.show_compactions(lab.info(name).ref)
        time.sleep(0.2)
    return found[0]


def insert_rows(lab: Lab, name: str) -> None:
    for row in ROWS:
        lab.insert(name, [row], ["id"])


@pytest.mark.parametrize("choice", [CompactionChoice.AUTO, CompactionChoice.MINOR])
@pytest.mark.long_cases("*.MINOR")
def test_our_compaction_serves_a_request_of_hives_initiator(
    lab: Lab, choice: CompactionChoice
) -> None:
    lab.table("t", {"id": "bigint"})
    insert_rows(lab, "t")
    asked = wait_for_the_initiator(lab, "t")
    result = lab.compact("t", choice)
    assert result.status is JobStatus.COMMITTED
    (one,) = result.details["compactions"]  # type: ignore[misc]
    assert one["serves"] == asked.asked_by  # type: ignore[index]
    states = {e.entry_id: e.state for e in lab.client.show_compactions(lab.info("t").ref)}
    assert states[asked.entry_id] is CompactionState.REFUSED
    assert CompactionState.READY_FOR_CLEANING in states.values()
    assert waiting(lab, "t") == []
    assert lab.rows("t") == ROWS


def served(lab: Lab, **more: object) -> list[tuple[str, str, str]]:
    """Serve the queue with one job; the tables and partitions that it compacted, and how."""
    spec = CompactSpec(tables=(f"{lab.db}.*",), choice=CompactionChoice.QUEUED, **more)  # type: ignore[arg-type]
    found: Any = lab.run(spec).details["compactions"]
    return [(one["table"].split(".")[1], one["partition"], one["kind"]) for one in found]


def test_a_worker_of_the_queue_serves_hives_initiator_and_requests_by_hand(lab: Lab) -> None:
    lab.table("asked", {"id": "bigint"}, partition={"day": "int"})
    lab.table("other", {"id": "bigint"})
    lab.insert("other", [(0,)], ["id"])
    ref, rebalanced = lab.info("asked").ref, lab.info("other").ref
    lab.client.request_compaction(rebalanced, None, CompactionType.REBALANCE)
    for row in ROWS:
        lab.insert("asked", [(*row, 1), (*row, 2)], ["id", "day"])
        if row == ROWS[0]:  # before the initiator, which requests nothing while a request waits
            second = PartitionName(("day",), ("2",))
            lab.client.request_compaction(ref, second, CompactionType.MAJOR, pool="etl")
    give_up_s = time.monotonic() + _PATIENCE_S
    while len(asked := waiting(lab, "asked")) < 2:
        assert time.monotonic() < give_up_s, lab.client.show_compactions(ref)
        time.sleep(0.2)
    kinds = {str(entry.partition): entry.compaction_type.value for entry in asked}
    assert served(lab, pools=("etl",)) == [("asked", "day=2", "major")]
    assert served(lab) == [("asked", "day=1", kinds["day=1"])]
    assert served(lab) == []
    (left,) = lab.client.show_compactions(rebalanced)
    assert (left.state, left.worker_id) == (CompactionState.INITIATED, None)
    assert len(lab.rows("asked")) == 2 * len(ROWS)


def test_show_compactions_shows_our_worker_its_application_and_how_it_ended(lab: Lab) -> None:
    lab.table("t", {"id": "bigint"})
    insert_rows(lab, "t")
    ref, application = lab.info("t").ref, lab.spark.sparkContext.applicationId
    lab.client.request_compaction(ref, None, CompactionType.MAJOR)
    spec = CompactSpec(tables=(f"{lab.db}.t",), choice=CompactionChoice.QUEUED)
    seen: list[CompactionEntry] = []

    def fail(step: str) -> None:
        if step == "staged":
            seen.extend(lab.client.clone().show_compactions(ref))
            raise StorageError("the disk is full")

    with pytest.raises(PartitionsFailedError, match="the disk is full"):
        lab.run(spec, job_key="dag/run/compact/-1", on_step=fail)
    at_work = max(seen, key=lambda e: e.entry_id or 0)
    assert at_work.state is CompactionState.WORKING
    assert at_work.worker_id == "hiveacid-dag/run/compact/-1"
    assert at_work.worker_version == airflow_hiveacid.__version__
    assert at_work.job_id == fitting_job_id(application)
    assert at_work.started_s is not None
    entries = {e.entry_id: e for e in lab.client.show_compactions(ref)}
    failed = entries[at_work.entry_id]
    assert (failed.state, failed.job_id) == (CompactionState.REFUSED, fitting_job_id(application))
    assert failed.worker_id == at_work.worker_id
    assert failed.reason.endswith("because this one failed: StorageError: the disk is full")
    assert lab.run(spec).status is JobStatus.COMMITTED
    newest = max(lab.client.show_compactions(ref), key=lambda e: e.entry_id or 0)
    assert newest.state is CompactionState.READY_FOR_CLEANING
    assert newest.job_id == fitting_job_id(application)
    assert newest.initiator_id


def test_hives_initiator_stops_after_failed_entries_but_not_after_refused_entries(lab: Lab) -> None:
    ends: dict[str, Callable[[ClaimedCompaction], None]] = {
        "failed": lab.client.mark_failed,
        "refused": lab.client.mark_refused,
    }
    for name, end in ends.items():
        lab.table(name, {"id": "bigint"})
        for _ in range(2):
            lab.client.request_compaction(
                lab.info(name).ref, None, CompactionType.MAJOR, pool=lab.db
            )
            claim = lab.client.find_next_compaction("w", worker_version="1", pool=lab.db)
            assert claim is not None
            end(claim)
    insert_rows(lab, "failed")
    insert_rows(lab, "refused")
    wait_for_the_initiator(lab, "refused")
    lab.table("later", {"id": "bigint"})
    insert_rows(lab, "later")
    wait_for_the_initiator(lab, "later")  # by a round that has passed the first one over
    assert waiting(lab, "failed") == []

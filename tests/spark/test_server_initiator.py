"""The server's own Initiator asks for compactions where no worker of Hive's serves the queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice
from airflow_hiveacid.local.metastore.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from tests.support.spark_lab import make_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from airflow_hiveacid.metastore.compaction_queue import ClaimedCompaction, CompactionEntry
    from tests.support.spark_lab import Lab

_PATIENCE_S = 90.0
ROWS = [(0,), (1,), (2,)]


@pytest.fixture(scope="module")
def initiating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    config = LocalMetastoreConfig(
        version="4.0.1",
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
def lab_initiating(spark: SparkSession, initiating: LocalMetastore) -> Iterator[Lab]:
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
def test_our_compaction_serves_a_request_of_hives_initiator(
    lab_initiating: Lab, choice: CompactionChoice
) -> None:
    lab = lab_initiating
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


def test_hives_initiator_stops_after_failed_entries_but_not_after_refused_entries(
    lab_initiating: Lab,
) -> None:
    lab = lab_initiating
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

"""Compactions that other clients requested in the metastore's queue, served by one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import StorageError
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType, our_pool
from airflow_hiveacid.writing.compaction import Compactor
from tests.contract.fake_client import FakeClient
from tests.support.steps import at, raises
from tests.unit.spark.maintenance.rig import Rig, put, there
from tests.unit.spark.maintenance.test_compact_tables import Warehouse, compacted

pytestmark = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
QUEUED = CompactionChoice.QUEUED
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
INITIATED, REFUSED, READY = (
    CompactionState.INITIATED,
    CompactionState.REFUSED,
    CompactionState.READY_FOR_CLEANING,
)


@pytest.fixture
def warehouse(client: FakeClient, tmp_path: Path) -> Warehouse:
    return Warehouse(client, tmp_path)


def serve(warehouse: Warehouse, *tables: str, **more: Any) -> JobResult:  # noqa: ANN401
    return warehouse.compact(*(tables or ("default.*",)), choice=QUEUED, **more)


def day(text: str) -> PartitionName:
    return PartitionName(("day",), (text,))


def states(client: FakeClient, table: TableInfo) -> list[CompactionState]:
    return Rig(client, table).states


def order(result: JobResult) -> list[tuple[str, str, str]]:
    found: Any = result.details["compactions"]
    return [(one["table"], one["partition"], one["kind"]) for one in found]


def test_only_requested_partitions_are_compacted_each_as_requested(warehouse: Warehouse) -> None:
    client = warehouse.client
    parts = warehouse.partitioned("parts", ["1", "2", "3"])
    whole, other = warehouse.table("whole", 12), warehouse.table("other", 12)
    client.request_compaction(parts.ref, day("2"), MINOR)
    client.request_compaction(whole.ref, None, MAJOR)
    result = serve(warehouse)
    assert result.status is JobStatus.COMMITTED
    assert sorted(order(result)) == [
        ("default.parts", "day=2", "minor"),
        ("default.whole", "", "major"),
    ]
    assert (result.details["tables"], result.details["partitions"]) == (2, 2)
    root = Path(parts.location.removeprefix("file:"))
    assert len(list((root / "day=2").glob("delta_0000004_0000006"))) == 1
    assert len(list(root.glob("day=[13]/delta_*"))) == 6
    assert (there(whole, "base_"), there(other, "base_")) == (["base_0000012"], [])
    assert [states(client, table) for table in (parts, whole, other)] == [
        [REFUSED, READY],
        [REFUSED, READY],
        [],
    ]
    assert Rig(client, whole).values == list(range(12))


@pytest.mark.parametrize("names", [("few", "many"), ("many", "few")])
def test_the_oldest_requests_come_first(warehouse: Warehouse, names: tuple[str, str]) -> None:
    """Neither the score, which is higher for `many`, nor the order of the names counts."""
    tables = {"many": warehouse.table("many", 9), "few": warehouse.table("few", 2)}
    first, second = names
    for name in names:
        warehouse.client.request_compaction(tables[name].ref, None, MAJOR)
    result = serve(warehouse, max_bytes=1)
    assert compacted(result) == {f"default.{first}": True, f"default.{second}": False}
    assert states(warehouse.client, tables[second]) == [INITIATED]
    assert compacted(serve(warehouse, max_bytes=1)) == {f"default.{second}": True}


def test_requests_of_other_tables_and_pools_keep_waiting(warehouse: Warehouse) -> None:
    client = warehouse.client
    tables = [warehouse.table(name, 3) for name in ("a", "b", "c")]
    for table, pool in zip(tables, ("etl", None, "etl"), strict=True):
        client.request_compaction(table.ref, None, MAJOR, pool=pool)
    result = serve(warehouse, "default.[ab]", pools=("etl",))
    assert compacted(result) == {"default.a": True}
    assert (result.details["tables"], result.details["partitions"]) == (1, 1)
    assert [states(client, table)[0] for table in tables] == [REFUSED, INITIATED, INITIATED]
    assert compacted(serve(warehouse)) == {"default.b": True, "default.c": True}


def test_partitions_of_one_table_may_wait_in_different_pools(warehouse: Warehouse) -> None:
    table = warehouse.partitioned("a", ["1", "2"])
    for name, pool in (("1", None), ("2", "etl")):
        warehouse.client.request_compaction(table.ref, day(name), MAJOR, pool=pool)
    assert order(serve(warehouse, pools=("etl",))) == [("default.a", "day=2", "major")]


def test_requests_for_a_rebalance_are_left_to_hive_with_the_reason(warehouse: Warehouse) -> None:
    client, table = warehouse.client, warehouse.table("a", 3)
    client.request_compaction(table.ref, None, CompactionType.REBALANCE)
    for pools, count in ((None, 1), (("etl",), 0)):
        result = serve(warehouse, pools=pools)
        assert result.status is JobStatus.NOTHING_TO_DO
        skipped: Any = result.details["skipped"]
        assert len(skipped) == count
        assert all("only Hive's workers" in one["why"] for one in skipped)
    assert states(client, table) == [INITIATED]


def test_with_an_empty_queue_no_table_is_read(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.table("a", 12)
    monkeypatch.setattr(type(warehouse.client), "get_table", None)
    assert serve(warehouse).status is JobStatus.NOTHING_TO_DO
    assert "matches" not in caplog.text


def test_a_request_with_nothing_to_compact_is_refused_with_the_reason(
    warehouse: Warehouse,
) -> None:
    client, table = warehouse.client, warehouse.table("a", 0)
    client.request_compaction(table.ref, None, MAJOR)
    assert serve(warehouse, plan_only=True).status is JobStatus.PLANNED
    assert states(client, table) == [INITIATED]
    assert serve(warehouse).status is JobStatus.NOTHING_TO_DO
    (entry,) = client.show_compactions(table.ref)
    assert (entry.state, entry.error_message) == (REFUSED, "there is no delta")


def test_a_request_for_a_missing_partition_is_refused(warehouse: Warehouse) -> None:
    client, table = warehouse.client, warehouse.partitioned("a", ["1"])
    for name in (day("9"), None):
        client.request_compaction(table.ref, name, MAJOR)
    assert serve(warehouse, plan_only=True).details["compactions"] == []
    assert states(client, table) == [INITIATED, INITIATED]
    assert serve(warehouse).status is JobStatus.NOTHING_TO_DO
    assert states(client, table) == [REFUSED, REFUSED]
    assert "no such partition" in str(client.show_compactions(table.ref)[0].error_message)


def test_a_request_above_an_open_write_keeps_waiting_and_fails_no_job(
    warehouse: Warehouse,
) -> None:
    client, table = warehouse.client, warehouse.table("a", 0)
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.INSERT)
    Rig(client, table).insert(7)
    client.request_compaction(table.ref, None, MAJOR)
    result = serve(warehouse)
    assert result.status is JobStatus.NOTHING_TO_DO
    assert f"write ID {write_id} is open" in str(result.details["compactions"])
    assert states(client, table) == [INITIATED]
    put(table, f"delta_{write_id:07d}_{write_id:07d}_0000", [(write_id, 6)])
    client.commit_txn(txn_id)
    assert compacted(serve(warehouse)) == {"default.a": True}
    assert Rig(client, table).values == [6, 7]


def test_a_failed_compaction_leaves_its_request_waiting(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, table = warehouse.client, warehouse.table("a", 3)
    client.request_compaction(table.ref, None, MAJOR, pool="etl")

    with monkeypatch.context() as patch:
        patch.setattr(Compactor, "_write", raises(StorageError("the disk is full")))
        with pytest.raises(Exception, match="the disk is full"):
            serve(warehouse)
    assert states(client, table) == [REFUSED, REFUSED, INITIATED]
    assert compacted(serve(warehouse, pools=("etl",))) == {"default.a": True}


def test_the_entry_of_a_dead_worker_of_ours_is_ended(warehouse: Warehouse) -> None:
    client, table = warehouse.client, warehouse.table("a", 3)
    pool = our_pool(uuid4())
    client.request_compaction(table.ref, None, MAJOR, pool=pool)
    for claims in (False, True):
        if claims:
            client.request_compaction(table.ref, None, MAJOR, pool=pool)
            client.find_next_compaction("hiveacid-k", worker_version="1", pool=pool)
        result = serve(warehouse, pools=("etl",))
        assert result.status is JobStatus.NOTHING_TO_DO
        assert result.details["compactions"] == []
    assert states(client, table) == [REFUSED, REFUSED]


def test_a_job_of_one_table_serves_its_requests_only(rig: Rig) -> None:
    rig.insert(*range(12))
    outcome = rig.compact(QUEUED)
    assert (outcome.done, outcome.is_hindered) == (False, False)
    rig.request(MINOR)
    outcome = rig.compact(QUEUED)
    assert (outcome.done, outcome.kind) == (True, "minor")
    assert "serves compaction 1 (minor" in outcome.why


def test_a_request_that_no_longer_waits_is_not_served(rig: Rig) -> None:
    rig.insert(*range(3))
    rig.request(MAJOR)

    outcome = rig.compact(QUEUED, at("opened", rig.server.queue.clear))
    assert (outcome.done, outcome.is_hindered) == (False, False)
    assert "no longer waits" in outcome.why
    assert rig.there("base_") == []

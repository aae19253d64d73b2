"""When a rebalance writes, what it locks, and how it checks its own count; without Spark."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import PartitionNotFoundError, StorageError
from airflow_hiveacid.format.ids import AttemptId, BucketId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus, kind_of
from airflow_hiveacid.jobs.maintenance import RebalanceSpec
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.plan.rebalancing import RebalancedPartition
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.statements import rebalance as module
from airflow_hiveacid.spark.statements.rebalance import Rebalancing, _with_files, rebalance
from airflow_hiveacid.spark.writing import context
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.writing.publish import StagedFile
from tests.contract.fake_client import FakeClient
from tests.unit.spark.maintenance.rig import Rig
from tests.unit.spark.statements.test_restore import overwrite

KEY = "dag/run/spread/-1"
DUE = RebalancedPartition(is_due=True, why="", files=1, new_files=3, size_bytes=1, partition="p=1")


def job_of(client: FakeClient, table: TableInfo, **spec: Any) -> JobContext:  # noqa: ANN401
    no_spark: Any = None
    made = JobSpec(
        job_key=KEY,
        metastore=MetastoreEndpoint(uris=("thrift://hms:9083",)),
        job=RebalanceSpec(target=str(table.ref), **spec),
    )
    return JobContext.of(no_spark, made, client)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the statements that were run, which are only noted."""
    kinds: list[str] = []

    def run(_: JobContext, changes: Any) -> JobResult:  # noqa: ANN401
        kinds.extend(kind_of(change.spec) for change in changes)
        return JobResult(kind="rebalance", job_key=KEY, status=JobStatus.ALREADY_DONE, table="t")

    monkeypatch.setattr(module.work, "run_changes", run)
    monkeypatch.setattr(context, "job_group", lambda *_: nullcontext())
    return kinds


@pytest.mark.promise("C15")
def test_a_rebalance_writes_only_if_a_partition_is_due(
    client: FakeClient, table: TableInfo, runs: list[str]
) -> None:
    def status(**spec: Any) -> JobStatus:  # noqa: ANN401
        return rebalance(job_of(client, table, **spec)).status

    Rig(client, table).insert(1)
    assert (status(plan_only=True), runs) == (JobStatus.PLANNED, [])
    assert (status(), runs) == (JobStatus.ALREADY_DONE, ["rebalance"])
    runs.clear()
    overwrite(client, table)
    assert (status(), runs) == (JobStatus.NOTHING_TO_DO, [])
    assert (status(plan_only=True, order_by=("id",)), runs) == (JobStatus.PLANNED, [])
    assert (status(order_by=("id",)), runs) == (JobStatus.ALREADY_DONE, ["rebalance"])


def test_the_ledger_is_listed_only_if_no_partition_is_due(
    client: FakeClient, table: TableInfo, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []

    def entries(_: Ledger, job_key: str) -> tuple[LedgerEntry, ...]:
        listed.append(job_key)
        return ()

    monkeypatch.setattr(Ledger, "entries", entries)
    Rig(client, table).insert(1)
    rebalance(job_of(client, table))  # the write lists it, not the decision
    assert (listed, runs) == ([], ["rebalance"])
    overwrite(client, table)
    listed.clear()
    rebalance(job_of(client, table))
    assert (listed, runs) == ([KEY], ["rebalance"])


def test_a_retry_returns_the_result_of_the_try_that_has_rebalanced_the_table(
    client: FakeClient, table: TableInfo, runs: list[str]
) -> None:
    overwrite(client, table)
    Ledger.of(table).write(
        LedgerEntry(
            job_key=KEY,
            generation=0,
            attempt=AttemptId(1, "0" * 12),
            statement={},
            table_id=table.table_id,
            txn_id=TxnId(1),
            write_id=WriteId(1),
            directories=(f"{table.location}/base_0000001",),
            result="{}",
            recorded_s=1.0,
            retention_s=100.0,
        )
    )
    assert rebalance(job_of(client, table)).status is JobStatus.ALREADY_DONE
    assert runs == ["rebalance"]


def test_only_the_requested_partition_is_locked_and_no_partition_is_emptied(
    client: FakeClient,
) -> None:
    table = client.create_table(
        NewTable(
            ref=TableRef("default", "parts"),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=(Column(name="p", type="int"),),
        )
    )
    one, two = PartitionName.parse("p=1"), PartitionName.parse("p=2")
    client.add_partitions(table, [one, two])

    def touched(partition: str | None) -> Touched:
        spec = RebalanceSpec(target=str(table.ref), partition=partition)
        change = Rebalancing(job=job_of(client, table), table=table, spec=spec).change()
        assert change.operations == {DataOperation.OVERWRITE}
        assert change.empties is not None
        assert change.empties((one, two)) == ()  # a partition that is not due keeps its rows
        return change.partitions()

    assert touched("p=1") == Touched(names=(one,))
    assert touched(None) == Touched()
    with pytest.raises(PartitionNotFoundError):
        touched("p=3")


def test_a_rebalance_that_lost_a_row_fails_before_it_commits(table: TableInfo) -> None:
    files = [
        StagedFile(
            partition=PartitionName.parse(name),
            directory="base_0000002",
            bucket=BucketId(bucket),
            attempt="a",
            rows=5,
            updated=0,
            size_bytes=1,
        )
        for bucket, name in enumerate(("p=1", "p=1", "p=2"))
    ]
    done = _with_files(table, DUE, files, {"p=1": 10, "p=2": 5})
    assert (done.new_files, done.rows) == (2, 10)
    with pytest.raises(StorageError, match="p=1 has 11 rows, but 10 rows were written"):
        _with_files(table, DUE, files, {"p=1": 11, "p=2": 5})
    with pytest.raises(StorageError, match="p=1 has 0 rows, but 10 rows were written"):
        _with_files(table, DUE, files, {"p=1": 0, "p=2": 5})
    kept = dataclasses.replace(DUE, is_due=False)
    assert _with_files(table, kept, files, {}) is kept


def test_a_partition_whose_rows_were_all_deleted_is_not_rewritten(table: TableInfo) -> None:
    done = _with_files(table, DUE, (), {"p=1": 0})
    assert (done.is_due, done.new_files, done.rows) == (False, 0, 0)

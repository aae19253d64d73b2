"""When a rebalance writes, what it locks, and how it checks its own count; without Spark."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import PartitionNotFoundError, StorageError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.job import JobResult, JobStatus, kind_of
from airflow_hiveacid.jobs.maintenance import RebalanceSpec
from airflow_hiveacid.plan.rebalancing import RebalancedPartition
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.statements import rebalance as module
from airflow_hiveacid.spark.statements.rebalance import Rebalancing, _with_files, rebalance
from airflow_hiveacid.spark.writing import context
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.writing.publish import StagedFile
from tests.contract.fake_client import FakeClient
from tests.support.tables import id_table
from tests.support.terms import job_spec
from tests.unit.spark.maintenance.rig import Rig, ledger_entry
from tests.unit.spark.statements.test_restore import overwrite

KEY = "dag/run/spread/-1"
DUE = RebalancedPartition(is_due=True, why="", files=1, new_files=3, size_bytes=1, partition="p=1")


def job_of(client: FakeClient, table: TableInfo, **spec: Any) -> JobContext:  # noqa: ANN401
    no_spark: Any = None
    made = job_spec(RebalanceSpec(target=str(table.ref), **spec), KEY)
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
    Ledger.of(table).write(ledger_entry(table, "base_0000001", job_key=KEY))
    assert rebalance(job_of(client, table)).status is JobStatus.ALREADY_DONE
    assert runs == ["rebalance"]


def test_only_the_requested_partition_is_locked_and_no_partition_is_emptied(
    client: FakeClient,
) -> None:
    table = id_table(client, "parts", by="p int")
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

"""Compactions of many tables in one job, with real files and a stand-in for the metastore."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation, MetastoreGeneration
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import (
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs import maintenance
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.maintenance import compaction_facts, compaction_planner, many_tables
from airflow_hiveacid.maintenance.compaction_facts import (
    CompactionFacts,
    CompactionOutcome,
    read_facts,
    thresholds_of,
)
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType, our_pool
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.plan import compaction_policy
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.spark.engine.failures import carried
from airflow_hiveacid.spark.maintenance import bucket_tasks, compact_tables as spark_module
from airflow_hiveacid.spark.maintenance.compact_tables import compact_tables
from airflow_hiveacid.writing import compact_tables as module, compaction as compact_module
from airflow_hiveacid.writing.compaction import Compactor
from tests.contract.fake_client import FakeClient
from tests.support.steps import act_before, raises
from tests.support.tables import id_table
from tests.support.terms import job_spec
from tests.unit.spark.maintenance.rig import Rig, plan, pretended_spark, put, there


class Warehouse:
    """Tables below one directory, each with some deltas of one row."""

    def __init__(self, client: FakeClient, root: Path) -> None:
        self.client = client
        self._root = root

    def table(
        self, name: str, deltas: int, parameters: Mapping[str, str] = {}, *, is_acid: bool = True
    ) -> TableInfo:
        (self._root / name).mkdir()
        kind = TransactionalKind.FULL_ACID if is_acid else TransactionalKind.NONE
        table = id_table(self.client, name, self._root / name, kind=kind, parameters=parameters)
        Rig(self.client, table).insert(*range(deltas))
        return table

    def partitioned(self, name: str, days: Sequence[str]) -> TableInfo:
        """A table with three deltas in each partition."""
        (self._root / name).mkdir()
        table = id_table(self.client, name, self._root / name, by="day string")
        for day in days:
            partition = PartitionName(("day",), (day,))
            self.client.add_partitions(table, [partition])
            for _ in range(3):
                txn_id = self.client.open_txn()
                write_id = self.client.allocate_write_id(txn_id, table.ref)
                self.client.add_dynamic_partitions(
                    txn_id, write_id, table.ref, (partition,), DataOperation.INSERT
                )
                directory = f"{partition}/delta_{write_id:07d}_{write_id:07d}_0000"
                put(table, directory, [(write_id, write_id)])
                self.client.commit_txn(txn_id)
        return table

    def streamed(self, name: str, aborted: int) -> TableInfo:
        """A table with one delta of many writes; only its first and its last are committed."""
        table, rows = self.table(name, 0), []
        for number in range(aborted + 2):
            txn_id = self.client.open_txn()
            write_id = self.client.allocate_write_id(txn_id, table.ref)
            rows.append((write_id, number))
            if number in (0, aborted + 1):
                self.client.add_dynamic_partitions(
                    txn_id, write_id, table.ref, (), DataOperation.INSERT
                )
                self.client.commit_txn(txn_id)
            else:
                self.client.abort_txn(txn_id)
        put(table, f"delta_{rows[0][0]:07d}_{rows[-1][0]:07d}", rows)
        return table

    def compact(self, *tables: str, **more: Any) -> JobResult:  # noqa: ANN401 - fields of the spec
        return compact_tables(self.job(*tables, **more))

    def failed(self, *tables: str, **more: Any) -> errors.PartitionsFailedError:  # noqa: ANN401
        """Return the error of a job in which partitions fail."""
        with pytest.raises(errors.PartitionsFailedError) as caught:
            self.compact(*tables, **more)
        return caught.value

    def drop(self, table: TableInfo) -> None:
        self.client.drop_table(table.ref)
        shutil.rmtree(table.location.removeprefix("file:"), ignore_errors=True)

    def compact_at_night(self, night: int) -> JobResult:
        """Compact all tables in a job of its own."""
        job = self.job("default.*")
        job.terms = replace(job.terms, job_key=f"dag/night {night}/compact/-1")
        return compact_tables(job)

    def job(self, *tables: str, **more: Any) -> Any:  # noqa: ANN401 - as above, and a stand-in
        spec = maintenance.CompactSpec(tables=tables, delta_ratio=1.0, **{"delta_count": 2, **more})
        job = job_spec(
            spec, "dag/run/compact/-1", attempt=str(AttemptId(1, "0" * 12)), lock_timeout_s=5.0
        )
        return SimpleNamespace(
            spark=pretended_spark(),
            client=self.client,
            spec=job,
            terms=JobTerms.of(job),
            job_of=lambda _: spec,
            policy_of=lambda _: ConflictPolicy.HIVE,
        )


ON_4 = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)


@pytest.fixture
def warehouse(client: FakeClient, tmp_path: Path) -> Warehouse:
    return Warehouse(client, tmp_path)


def outcomes(result: JobResult) -> list[Any]:
    found: Any = result.details["compactions"]
    return list(found)


def compacted(result: JobResult) -> dict[str, bool]:
    return {one["table"]: one["done"] for one in outcomes(result)}


def test_only_matching_tables_that_are_due_are_compacted(warehouse: Warehouse) -> None:
    due, also, other = (warehouse.table(name, 3) for name in ("a1", "a2", "b1"))
    small = warehouse.table("a3", 1)
    result = warehouse.compact("default.a*")
    assert result.status is JobStatus.COMMITTED
    assert compacted(result) == {"default.a1": True, "default.a2": True}
    assert (result.details["tables"], result.details["partitions"]) == (3, 3)
    for table, count in ((due, 1), (also, 1), (other, 0), (small, 0)):
        assert len(there(table, "base_")) == count
    assert Rig(warehouse.client, due).values == [0, 1, 2]


def test_a_second_run_finds_nothing_to_do(warehouse: Warehouse) -> None:
    warehouse.table("a", 3)
    assert warehouse.compact("default.*").status is JobStatus.COMMITTED
    again = warehouse.compact("default.*")
    assert (again.status, again.details["compactions"]) == (JobStatus.NOTHING_TO_DO, [])


def test_a_plan_reports_what_is_due_and_changes_nothing(warehouse: Warehouse) -> None:
    table = warehouse.table("a", 3)
    before = there(table, "")
    result = warehouse.compact("*", plan_only=True)
    assert result.status is JobStatus.PLANNED
    assert compacted(result) == {"default.a": False}
    assert there(table, "") == before
    assert warehouse.client.show_compactions() == ()


def test_a_failed_table_leaves_the_others_compacted_and_fails_the_job(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = warehouse.table("good", 3), warehouse.table("bad", 3)
    _before_the_compaction(monkeypatch, bad, raises(errors.StorageError("the disk is full")))
    failure = warehouse.failed("default.*")
    assert failure.retryable
    assert failure.failed == {"default.bad": "the disk is full"}
    assert list(failure.done) == ["default.good"]
    assert (len(there(good, "base_")), there(bad, "base_")) == (1, [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            carried(errors.CorruptFileError(path="/t/bad", reason="cut off")),
            "/t/bad is damaged: cut off",
        ),
        ("[STAGE_FAILED] executor 1 is lost", "executor 1 is lost. The driver's log has"),
    ],
)
def test_a_failed_spark_task_leaves_the_other_tables_compacted(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.setattr(many_tables, "MOST_AT_ONCE", 1)
    bad, good = warehouse.table("bad", 5), warehouse.table("good", 3)
    begun = []

    def fail(_: object, __: object, works: Any) -> None:  # noqa: ANN401
        begun.append(works[0].staging.location)
        if begun[-1] == bad.location:
            raise PySparkException(text)

    act_before(monkeypatch, bucket_tasks, "task_results", fail)
    failure = warehouse.failed("default.*")
    assert list(failure.failed) == ["default.bad"]
    assert says in failure.failed["default.bad"]
    assert "HIVEACID-ERROR" not in failure.failed["default.bad"]
    assert begun == [bad.location, good.location]
    assert len(there(good, "base_")) == 1


def test_a_partition_that_failed_on_two_nights_is_paused_and_the_others_are_compacted(
    warehouse: Warehouse,
) -> None:
    table = warehouse.partitioned("t", ["1", "2"])
    for file in Path(table.location.removeprefix("file:")).glob("day=1/*/bucket_00000"):
        file.write_bytes(b"damaged")
    for night in (1, 2):
        with pytest.raises(errors.PartitionsFailedError, match="is damaged"):
            warehouse.compact_at_night(night)
    Rig(warehouse.client, warehouse.table("other", 1)).insert(2)
    result = warehouse.compact_at_night(3)
    found: Any = result.details["compactions"]
    done = {(one["table"], one["partition"]): one["done"] for one in found}
    assert done == {("default.t", "day=1"): False, ("default.other", ""): True}
    (paused,) = [one for one in found if not one["done"]]
    assert "paused since" in paused["why"]
    assert paused["is_hindered"]


def test_a_requested_compaction_that_is_blocked_fails_and_the_others_are_done(
    warehouse: Warehouse,
) -> None:
    blocked, free = warehouse.table("blocked", 0), warehouse.table("free", 3)
    client = warehouse.client
    client.allocate_write_id(client.open_txn(), blocked.ref)
    Rig(client, blocked).insert(*range(3))
    major = maintenance.CompactionChoice.MAJOR
    planned = warehouse.compact("default.*", choice=major, plan_only=True)
    assert compacted(planned) == {"default.blocked": False, "default.free": False}
    failure = warehouse.failed("default.*", choice=major)
    assert "write ID 1 is open" in failure.failed["default.blocked"]
    assert list(failure.failed) == ["default.blocked"]
    assert len(there(free, "base_")) == 1
    assert warehouse.compact("default.*").status is JobStatus.NOTHING_TO_DO


def _before_partitions_are_read(
    monkeypatch: pytest.MonkeyPatch, table: TableInfo, drop: Callable[[], None]
) -> None:
    def meet(_: FakeClient, one: TableInfo, __: None) -> None:
        if one.ref == table.ref:
            drop()

    act_before(monkeypatch, compaction_planner, "partitions_of", meet)


def _before_the_compaction(
    monkeypatch: pytest.MonkeyPatch, table: TableInfo, act: Callable[[], None], partition: str = ""
) -> None:
    def meet(compactor: Compactor) -> None:
        facts = compactor.facts
        if (facts.table.ref, str(facts.partition.name)) == (table.ref, partition):
            act()

    act_before(monkeypatch, Compactor, "compact", meet)


@pytest.mark.parametrize("when", [_before_partitions_are_read, _before_the_compaction])
def test_a_table_that_is_dropped_meanwhile_is_skipped(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, when: Callable[..., None]
) -> None:
    good, gone = warehouse.table("good", 3), warehouse.table("gone", 3)

    when(monkeypatch, gone, lambda: warehouse.drop(gone))
    result = warehouse.compact("default.*")
    assert result.status is JobStatus.COMMITTED
    assert result.details["skipped"] == [
        {"table": "default.gone", "why": "it was dropped or renamed while the job ran"}
    ]
    assert len(there(good, "base_")) == 1


def test_a_table_that_is_dropped_and_created_again_meanwhile_is_skipped(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = warehouse.table("gone", 3)

    def drop() -> None:
        warehouse.drop(gone)
        warehouse.table("gone", 3)

    _before_the_compaction(monkeypatch, gone, drop)
    result = warehouse.compact("default.*")
    assert Rig(warehouse.client, gone).values == [0, 1, 2]
    if warehouse.client.generation is MetastoreGeneration.V3:
        return  # 3.1 tells tables apart by their second of creation only
    assert result.status is JobStatus.NOTHING_TO_DO
    skipped: Any = result.details["skipped"]
    assert [one["table"] for one in skipped] == ["default.gone"]
    assert there(gone, "base_") == []


def test_a_partition_that_is_dropped_meanwhile_is_skipped(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.partitioned("p", ["1", "2"])

    def drop() -> None:
        warehouse.client.drop_partitions(table, [PartitionName(("day",), ("1",))])
        shutil.rmtree(f"{table.location.removeprefix('file:')}/day=1")

    _before_the_compaction(monkeypatch, table, drop, "day=1")
    result = warehouse.compact("default.*")
    skipped: Any = result.details["skipped"]
    assert [one["table"] for one in skipped] == ["default.p day=1"]
    assert len(there(table, "day=")) == 1
    done: Any = result.details["compactions"]
    assert [(one["partition"], one["done"]) for one in done] == [("day=2", True)]


def test_a_failed_table_is_not_skipped_if_the_metastore_cannot_tell_whether_it_exists(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", 3)

    refuse = raises(errors.MetastoreCallError(method="get_table", reason="busy"))

    def fail(*_: object) -> CompactionOutcome:
        monkeypatch.setattr(warehouse.client, "get_table", refuse)
        raise errors.StorageError("the disk is full")

    monkeypatch.setattr(Compactor, "compact", fail)
    with pytest.raises(errors.PartitionsFailedError, match="the disk is full"):
        warehouse.compact("default.*")


def test_a_failed_partition_that_still_exists_fails_the_job(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.partitioned("p", ["1"])

    monkeypatch.setattr(Compactor, "compact", raises(errors.StorageError("the disk is full")))
    failure = warehouse.failed("default.*")
    assert failure.failed == {"default.p day=1": "the disk is full"}


def test_the_compactors_of_all_tables_get_the_settings_of_the_job(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("a", 3)
    warehouse.partitioned("p", ["1", "2"])
    job = warehouse.job("default.*")
    job.terms = JobTerms.of(replace(job.spec, heartbeat_s=7.0))
    job.policy_of = lambda _: ConflictPolicy.STRICT
    begun: list[tuple[JobTerms, ConflictPolicy]] = []
    compacting: Any = compact_module.compacting
    compactors: list[Compactor] = []

    def noted(client: object, terms: JobTerms, **others: Any) -> Any:  # noqa: ANN401
        begun.append((terms, others["policy"]))
        return compacting(client, terms, **others)

    monkeypatch.setattr(compact_module, "compacting", noted)
    act_before(monkeypatch, Compactor, "compact", compactors.append)
    compact_tables(job)
    assert len(begun) == 3
    for terms, policy in begun:
        assert policy is ConflictPolicy.STRICT
        assert terms.job_key == "dag/run/compact/-1"
        assert (terms.lock_timeout_s, terms.heartbeat_s) == (5.0, 7.0)
    notes = {id(compactor.shared) for compactor in compactors}
    assert {compactor.facts.table.ref for compactor in compactors} == {
        table.ref,
        TableRef("default", "p"),
    }
    assert len(notes) == 2, "one for each table"


@ON_4
@pytest.mark.parametrize("is_off", [False, True])
def test_a_plan_leaves_the_entry_of_a_dead_worker_and_a_compaction_ends_it(
    warehouse: Warehouse, *, is_off: bool
) -> None:
    """Even if automatic compaction is switched off."""
    table = warehouse.table("a", 1, {NO_AUTO_COMPACTION: "true"} if is_off else {})
    rig, pool = Rig(warehouse.client, table), our_pool(uuid4())
    rig.request(pool=pool)
    rig.claim("hiveacid-k", pool)
    for plan_only, state in ((True, CompactionState.WORKING), (False, CompactionState.REFUSED)):
        result = warehouse.compact("default.*", plan_only=plan_only)
        assert result.details["tables"] == (0 if is_off else 1)
        assert rig.states == [state]


@ON_4
def test_the_snapshot_of_a_table_is_taken_after_its_requests_are_read(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("a", 1)

    def insert(client: FakeClient, ref: TableRef) -> None:
        Rig(client, table).insert(7)
        client.request_compaction(ref, None, CompactionType.MAJOR)

    act_before(monkeypatch, compaction_facts, "end_dead_entries", insert)
    job = warehouse.job("default.*")
    partitions = warehouse.client.list_partitions(table)
    (facts,) = read_facts(warehouse.client, table, job.spec.job, lambda _: partitions)
    assert facts.request is not None
    assert facts.known.write_ids(table.ref).high_watermark == 2


@ON_4
def test_a_request_of_another_client_is_served_below_the_thresholds(warehouse: Warehouse) -> None:
    client = warehouse.client
    table = warehouse.table("a", 1)
    client.request_compaction(table.ref, None, CompactionType.MAJOR)
    planned = warehouse.compact("default.*", delta_count=9, plan_only=True)
    assert compacted(planned) == {"default.a": False}
    assert compacted(warehouse.compact("default.*", delta_count=9)) == {"default.a": True}


def test_a_table_without_readable_partitions_counts_as_one_failure_of_one(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", 3)
    busy = raises(errors.StorageError("the metastore is busy"))
    monkeypatch.setattr(compaction_planner, "partitions_of", busy)
    with pytest.raises(errors.PartitionsFailedError, match="1 of 1 partitions failed"):
        warehouse.compact("default.*")


@pytest.mark.parametrize("error", [errors.StorageError("no disk"), OverflowError("timestamp")])
@pytest.mark.parametrize("where", ["notes", "partitions", "plan"])
@pytest.mark.parametrize("tables_at_once", [1, 2])
@pytest.mark.long_cases("hive3-*")
def test_any_error_of_one_table_is_named_and_stops_no_other(
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    where: str,
    tables_at_once: int,
) -> None:
    monkeypatch.setattr(many_tables, "_TABLES_IN_GROUP", tables_at_once)
    warehouse.table("bad", 3)
    good = warehouse.table("good", 3)
    if where == "plan":
        plan = CompactionFacts.plan

        def planned(self: Any, client: Any) -> Any:  # noqa: ANN401
            if str(self.table.ref) == "default.bad":
                raise error
            return plan(self, client)

        monkeypatch.setattr(CompactionFacts, "plan", planned)
    else:
        name = "why_switched_off" if where == "notes" else "partitions_of"
        known = getattr(compaction_planner, name)

        def found(*arguments: Any) -> Any:  # noqa: ANN401
            if any(getattr(one, "ref", "") == TableRef("default", "bad") for one in arguments):
                raise error
            return known(*arguments)

        monkeypatch.setattr(compaction_planner, name, found)
    failure = warehouse.failed("default.*")
    assert list(failure.failed) == ["default.bad"]
    assert str(error) in failure.failed["default.bad"]
    assert len(there(good, "base_")) == 1


@pytest.mark.parametrize("error", [errors.StorageError("no disk"), OverflowError("timestamp")])
def test_any_error_before_the_compactions_of_a_table_stops_no_other(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bad, good = warehouse.table("bad", 3), warehouse.table("good", 3)

    def check(_: TableRef, location: str) -> None:
        if location == bad.location:
            raise error

    monkeypatch.setattr(module, "check_publishable", check)
    failure = warehouse.failed("default.*")
    assert list(failure.failed) == ["default.bad"]
    assert str(error) in failure.failed["default.bad"]
    assert len(there(good, "base_")) == 1


def test_a_table_that_cannot_be_listed_does_not_stop_the_others(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    good = warehouse.table("good", 3)
    warehouse.table("gone", 0)
    (tmp_path / "gone").rmdir()
    failure = warehouse.failed("default.*")
    assert list(failure.failed) == ["default.gone"]
    assert len(there(good, "base_")) == 1


def test_an_unwritable_table_is_not_compacted(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, locked = warehouse.table("good", 3), warehouse.table("locked", 3)

    def check(location: str) -> None:
        if location == locked.location:
            raise errors.StorageError("read-only")

    monkeypatch.setattr(module, "check_writable", check)
    with pytest.raises(errors.PartitionsFailedError, match="read-only"):
        warehouse.compact("default.*")
    assert (len(there(good, "base_")), there(locked, "base_")) == (1, [])


@pytest.mark.parametrize(
    "error",
    [
        errors.FencedError(job_key="k", txn_id=1, newer_txn_id=2),
        errors.CompactionCancelledError(table="a", partition="", entry_id=1, state="gone", why=""),
    ],
)
def test_a_newer_copy_of_the_job_or_a_cancelled_compaction_ends_the_job(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, error: errors.HiveAcidError
) -> None:
    warehouse.table("a", 3)
    warehouse.table("b", 3)
    monkeypatch.setattr(Compactor, "compact", raises(error))
    with pytest.raises(type(error)):
        warehouse.compact("default.*")


def test_tables_that_cannot_be_compacted_are_skipped_with_the_reason(
    warehouse: Warehouse,
) -> None:
    warehouse.table("flat", 0, is_acid=False)
    kept = warehouse.table("kept", 3, {NO_AUTO_COMPACTION: "true"})
    result = warehouse.compact("default.*")
    (skipped,) = result.details["skipped"]  # type: ignore[misc]
    assert skipped["table"] == "default.kept"  # type: ignore[index,call-overload]
    assert NO_AUTO_COMPACTION in skipped["why"]  # type: ignore[index,call-overload,operator]
    assert there(kept, "base_") == []
    assert (
        warehouse.compact("default.*", choice=maintenance.CompactionChoice.MAJOR).details["skipped"]
        == []
    )
    assert len(there(kept, "base_")) == 1


def test_each_table_is_compacted_by_its_own_threshold(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    for name, own in (("low", "3"), ("high", "4"), ("wrong", "three")):
        warehouse.table(name, 3, {compaction_policy.COUNT_PARAMETER: own})
    warehouse.table("plain", 3)
    result = warehouse.compact("default.*", delta_count=None)
    assert compacted(result) == {"default.low": True}
    assert compaction_policy.COUNT_PARAMETER in str(result.details["compactions"])
    (complaint,) = [one for one in caplog.messages if "default.wrong: table parameter" in one]
    assert "'three' is not a whole number" in complaint


def test_a_table_named_without_a_wildcard_must_exist_and_be_transactional(
    warehouse: Warehouse,
) -> None:
    warehouse.table("flat", 0, is_acid=False)
    table = warehouse.table("a", 3)
    with pytest.raises(errors.TableNotFoundError):
        warehouse.compact("default.a", "default.b")
    with pytest.raises(errors.NotTransactionalError):
        warehouse.compact("default.a", "default.flat")
    assert there(table, "base_") == []


def test_a_table_named_without_a_wildcard_must_have_writable_files(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", 3)
    check = raises(errors.UnsupportedTableError(table="a", detail="has files that we cannot write"))
    monkeypatch.setattr(compaction_planner, "check_files_writable", check)
    with pytest.raises(errors.UnsupportedTableError, match="cannot write"):
        warehouse.compact("default.a")
    assert warehouse.compact("default.*").status is JobStatus.NOTHING_TO_DO


def test_files_of_the_only_table_must_be_writable_only_if_they_are_written(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("a", 3)
    warehouse.table("new", 0)
    check = raises(errors.UnsupportedTableError(table="a", detail="has files that we cannot write"))
    for where in (compaction_planner, module):
        monkeypatch.setattr(where, "check_files_writable", check)
    alone = partial(warehouse.compact, "default.a", is_of_table=True)
    assert alone(plan_only=True).status is JobStatus.PLANNED
    new = warehouse.compact("default.new", is_of_table=True)
    assert new.status is JobStatus.NOTHING_TO_DO
    with pytest.raises(errors.UnsupportedTableError, match="cannot write"):
        alone()
    assert there(table, "base_") == []


def test_a_table_for_which_a_package_is_missing_is_never_skipped_but_fails_once_it_is_due(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may lack the package that its drivers have."""
    good, avro = warehouse.table("good", 3), warehouse.table("avro", 1)

    def check(table: TableInfo) -> None:
        if table.ref == avro.ref:
            raise errors.ConfigurationError("Avro tables need the Python package fastavro")

    for where in (compaction_planner, module):
        monkeypatch.setattr(where, "check_files_writable", check)
    assert warehouse.compact("default.*").details["skipped"] == []
    assert len(there(good, "base_")) == 1
    Rig(warehouse.client, avro).insert(2)
    failure = warehouse.failed("default.*")
    assert list(failure.failed) == ["default.avro"]
    assert [type(cause) for cause in failure.causes] == [errors.ConfigurationError]


def test_a_missing_partition_is_an_error_even_if_automatic_compaction_is_switched_off(
    warehouse: Warehouse,
) -> None:
    table = warehouse.partitioned("a", ["1"])
    off = {**table.parameters, NO_AUTO_COMPACTION: "true"}
    warehouse.client.server.tables[table.ref] = replace(table, parameters=off)
    alone = partial(warehouse.compact, "default.a", is_of_table=True)
    for plan_only in (True, False):
        assert [one["done"] for one in outcomes(alone(partition="day=1", plan_only=plan_only))] == [
            False
        ]
        with pytest.raises(errors.PartitionNotFoundError, match="no partition day=2"):
            alone(partition="day=2", plan_only=plan_only)


def test_only_the_work_on_one_table_is_interrupted_in_the_tasks_own_thread(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", 3)
    threads: list[bool] = []

    def observe(*_: object) -> None:
        threads.append(threading.current_thread() is threading.main_thread())

    act_before(monkeypatch, compaction_planner, "read_facts", observe)
    warehouse.compact("default.a", is_of_table=True, plan_only=True)
    warehouse.compact("default.a", plan_only=True)
    assert threads == [True, False]


def test_a_limit_of_bytes_selects_the_highest_scores_and_at_least_one_table(
    warehouse: Warehouse,
) -> None:
    many, few = warehouse.table("many", 9), warehouse.table("few", 2)
    result = warehouse.compact("default.*", max_bytes=1)
    assert compacted(result) == {"default.few": False, "default.many": True}
    assert "more than max_bytes=1. Raise max_bytes" in str(result.details["compactions"])
    assert (len(there(many, "base_")), there(few, "base_")) == (1, [])
    rest = warehouse.compact("default.*", max_bytes=1)
    assert compacted(rest) == {"default.few": True}
    assert warehouse.compact("default.*").status is JobStatus.NOTHING_TO_DO


def grow_old(table: TableInfo, days: float) -> None:
    at_s = time.time() - days * 86400
    for path in Path(table.location.removeprefix("file:")).rglob("*"):
        os.utime(path, (at_s, at_s))


def test_a_partition_left_for_a_week_comes_before_partitions_with_a_higher_score(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    few, old = warehouse.table("few", 2), warehouse.table("old", 2)
    for night in range(3):
        warehouse.table(f"hot{night}", 9)
        done = [
            name
            for name, is_done in compacted(warehouse.compact("*", max_bytes=1)).items()
            if is_done
        ]
        assert done == [f"default.hot{night}"]
        (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert "default.few" in warning
        assert "more than max_bytes=1" in warning
        caplog.clear()
    warehouse.table("hot", 9)
    grow_old(few, 7.5)
    grow_old(old, 8)
    result = warehouse.compact("*", max_bytes=1)
    assert [name for name, is_done in compacted(result).items() if is_done] == ["default.old"]
    overdue, large = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "default.few" in overdue
    assert "oldest delta 7.5 d old" in overdue or "oldest delta 7" in overdue
    assert "default.hot" in large
    assert compacted(warehouse.compact("*", max_bytes=1))["default.few"]
    assert compacted(warehouse.compact("*", max_bytes=1)) == {"default.hot": True}


def test_a_limit_of_bytes_chooses_across_groups_of_tables_and_fills_up_with_smaller_inputs(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_tables, "_TABLES_IN_GROUP", 2)
    tables = {n: warehouse.table(f"t{n}", n) for n in (2, 5, 3, 9, 4)}
    planned = warehouse.compact("default.*", plan_only=True)
    sizes: Any = {c["table"]: c["bytes_in"] for c in planned.details["compactions"]}  # type: ignore[union-attr,index,call-overload]
    limit = sizes["default.t9"] + sizes["default.t4"] + sizes["default.t2"] - 1
    result = warehouse.compact("default.*", max_bytes=limit)
    assert (result.details["tables"], result.details["partitions"]) == (5, 5)
    done = {n for n, table in tables.items() if there(table, "base_")}
    assert done == {9, 5}
    assert "is used up" in str(result.details["compactions"])
    assert "Raise max_bytes" not in str(result.details["compactions"])


def test_a_pattern_that_matches_no_table_is_logged(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.table("a", 3)
    result = warehouse.compact("sales.*")
    assert result.status is JobStatus.NOTHING_TO_DO
    assert "no transactional table matches sales.*" in caplog.text


@pytest.mark.parametrize("delta_count", [None, 5, maintenance.Off.OFF])
@pytest.mark.parametrize("delta_ratio", [None, 0.5])
def test_a_job_plans_by_both_of_the_thresholds_that_its_task_gives(
    table: TableInfo, delta_count: int | maintenance.Off | None, delta_ratio: float | None
) -> None:
    parameters = {compaction_policy.COUNT_PARAMETER: "7", compaction_policy.RATIO_PARAMETER: "0.7"}
    owned = replace(table, parameters={**table.parameters, **parameters})
    given = compaction_policy.GivenThresholds(delta_count=delta_count, delta_ratio=delta_ratio)
    many = maintenance.CompactSpec(tables=("*",), delta_count=delta_count, delta_ratio=delta_ratio)
    policy = thresholds_of(owned, many)
    assert policy == given.policy_for(owned)
    assert policy.delta_ratio == (delta_ratio or 0.7)


def test_each_partition_of_each_table_has_its_own_group_of_spark_jobs(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction that loses its transaction cancels the jobs of its group."""
    groups: list[str] = []

    @contextmanager
    def group(_: object, name: str) -> Iterator[Callable[[], None]]:
        groups.append(name)
        yield lambda: None

    monkeypatch.setattr(spark_module, "job_group", group)
    for name in ("a", "b"):
        warehouse.table(name, 3)
    warehouse.partitioned("c", ["1", "2"])
    warehouse.partitioned("d", ["1"])
    warehouse.compact("default.*")
    assert len(set(groups)) == len(groups) == 5


@pytest.mark.parametrize("server", [MetastoreGeneration.V3], indirect=True)
def test_no_job_can_serve_the_queue_of_hive_3(warehouse: Warehouse) -> None:
    queued = maintenance.CompactionChoice.QUEUED
    warehouse.table("a", 3)
    with pytest.raises(errors.MetastoreVersionError, match="Use choice 'auto'"):
        warehouse.compact("default.*", choice=queued)
    with pytest.raises(errors.MetastoreVersionError, match="needs a Hive 4 metastore"):
        plan(warehouse.client, maintenance.CompactSpec.of_table("default.a", choice=queued))


# ---- further thresholds --------------------------------------------------------------------------


@pytest.mark.promise("C12")
@pytest.mark.long_cases("hive4")
def test_a_thousand_aborted_writes_in_one_delta_start_one_major_compaction(
    warehouse: Warehouse,
) -> None:
    quiet, due = warehouse.streamed("a", 999), warehouse.streamed("b", 1000)
    result = warehouse.compact("default.*")
    (outcome,) = outcomes(result)
    assert (outcome["table"], outcome["done"]) == ("default.b", True)
    assert (outcome["kind"], outcome["rows"]) == ("major", 2)
    assert outcome["why"] == "1000 aborted transactions (threshold 1000)"
    assert (there(quiet, "base_"), len(there(due, "base_"))) == ([], 1)
    assert Rig(warehouse.client, quiet).values == [0, 1000]
    assert Rig(warehouse.client, due).values == [0, 1001]
    # The metastore still lists the aborted writes.
    again = warehouse.compact("default.*")
    assert (again.status, outcomes(again)) == (JobStatus.NOTHING_TO_DO, [])


def test_a_job_without_a_threshold_for_deleted_rows_reads_no_footer(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("a", 3)
    Rig(warehouse.client, table).begin_delete(0, 2)()
    job: dict[str, Any] = {"delta_count": 50, "plan_only": True}
    for also_when, is_due in (({"deleted_rows": 3}, False), ({"deleted_rows": 2}, True)):
        result = warehouse.compact("default.*", **job, also_when=also_when)
        assert bool(outcomes(result)) is is_due
    (outcome,) = outcomes(result)
    assert (outcome["kind"], outcome["why"]) == ("major", "2 deleted rows (threshold 2)")
    monkeypatch.setattr(compaction_facts, "delete_events", pytest.fail)
    assert outcomes(warehouse.compact("default.*", **job)) == []


def test_a_quiet_table_is_compacted_after_the_age_that_a_task_gives(warehouse: Warehouse) -> None:
    table = warehouse.table("a", 1)
    week: dict[str, Any] = {"also_when": {"oldest_delta_s": 604800}}
    assert outcomes(warehouse.compact("default.*", **week)) == []
    for file in Path(table.location.removeprefix("file:")).glob("delta_*/*"):
        os.utime(file, (0, time.time() - 604801))
    assert compacted(warehouse.compact("default.*", **week)) == {"default.a": True}
    assert Rig(warehouse.client, table).values == [0]
    assert outcomes(warehouse.compact("default.*", **week)) == []


# ---- one table -----------------------------------------------------------------------------------


def test_a_job_of_one_table_lists_each_of_its_partitions(warehouse: Warehouse) -> None:
    warehouse.partitioned("p", ["1", "2", "3"])
    first = warehouse.compact("default.p", is_of_table=True, partition="day=2")
    assert (first.kind, first.partitions) == ("compact", ("day=2",))
    assert first.txn_id == outcomes(first)[0]["txn_id"]
    result = warehouse.compact("default.p", is_of_table=True)
    assert [(one["partition"], one["done"]) for one in outcomes(result)] == [
        ("day=1", True),
        ("day=2", False),
        ("day=3", True),
    ]
    assert outcomes(result)[1]["why"] == "there is no delta"
    assert (result.partitions, result.txn_id) == (("day=1", "day=3"), None)
    assert set(result.details) == {"compactions", "conflict_policy"}


def test_the_error_of_the_only_partition_of_a_job_is_raised_unchanged(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", 3)
    warehouse.partitioned("p", ["1", "2"])
    monkeypatch.setattr(Compactor, "compact", raises(errors.StorageError("the disk is full")))
    for name, partition in (("default.a", None), ("default.p", "day=1")):
        with pytest.raises(errors.StorageError, match="the disk is full"):
            warehouse.compact(name, is_of_table=True, partition=partition)
    failure = warehouse.failed("default.p", is_of_table=True)
    assert failure.failed == dict.fromkeys(("day=1", "day=2"), "the disk is full")


def test_a_table_that_is_dropped_meanwhile_fails_the_job_of_this_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = warehouse.table("gone", 3)

    _before_the_compaction(monkeypatch, gone, lambda: warehouse.drop(gone))
    with pytest.raises(errors.HiveAcidError):
        warehouse.compact("default.gone", is_of_table=True)


def test_tables_that_are_named_without_wildcards_are_not_searched_for(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [warehouse.table(name, 3) for name in ("a", "b")]
    monkeypatch.setattr(warehouse.client, "list_databases", pytest.fail)
    monkeypatch.setattr(warehouse.client, "list_tables", pytest.fail)
    assert compacted(warehouse.compact("default.a", "default.B")) == {
        str(table.ref): True for table in tables
    }

"""The sensors of health, compactions and locks: a fake metastore, real directories.

Each condition is seen in its waiting and in its reached state.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.module_loading import import_string
from pyarrow import orc

from airflow_hiveacid.airflow_names import TaskDeferred
from airflow_hiveacid.format.conflicts import LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CompactionFailedError,
    MetastoreVersionError,
    NotTransactionalError,
    PartitionNotFoundError,
    TableNotFoundError,
)
from airflow_hiveacid.format.ids import AttemptId, StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.table import (
    Column,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.short_form import MOST_BYTES
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionState,
    CompactionType,
    our_pool,
    our_worker_id,
)
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import TxnType
from airflow_hiveacid.metastore.transactions.fencing import FencingToken
from airflow_hiveacid.plan.compaction_policy import ReachedLimit
from airflow_hiveacid.plan.thresholds import Exceeded, Threshold
from airflow_hiveacid.sensors import (
    HiveAcidCompactionSensor,
    HiveAcidHealthSensor,
    HiveAcidLockFreeSensor,
    HiveAcidNewVersionSensor,
)
from airflow_hiveacid.sensors.watch_sensor import HiveAcidWatchSensor
from airflow_hiveacid.watch import Observation
from airflow_hiveacid.watch.conditions import Condition
from airflow_hiveacid.watch.trigger import ConditionTrigger
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import Connections, Warehouse, context_of, run_task
from tests.support.event_loop import in_event_loop
from tests.support.results_page import fields_in_the_page

pytestmark = pytest.mark.usefixtures("connections")

_CONNECT = "airflow_hiveacid.metastore.client.connect"
REF = TableRef("demo", "t")
MONTH_1, MONTH_2 = PartitionName.parse("month=1"), PartitionName.parse("month=2")
SENSORS: dict[type[HiveAcidWatchSensor], dict[str, Any]] = {
    HiveAcidHealthSensor: {"delta_count": 1},
    HiveAcidCompactionSensor: {},
    HiveAcidLockFreeSensor: {},
}


class Server:
    """A fake metastore with the database `demo`, whose tables lie in a folder."""

    def __init__(self, folder: Path, generation: MetastoreGeneration) -> None:
        self.server = FakeMetastore(generation, ManualClock(), txn_timeout_s=10_000.0)
        self.client = FakeClient(self.server, user="etl")
        self.client.create_database("demo")
        self.warehouse = Warehouse(client=self.client, uri="", db="demo")  # type: ignore[arg-type]
        self._folder = folder

    def table(self, *, partitioned: bool = False) -> TableInfo:
        table = self.warehouse.table("t", partitioned=partitioned, location=str(self._folder / "t"))
        Path(self._folder / "t").mkdir()
        if partitioned:
            for found in self.client.add_partitions(table, [MONTH_1, MONTH_2]):
                Path(found.location).mkdir(parents=True)
        return table

    def delete(self, table: TableInfo, rows: int) -> None:
        """Commit a delete delta with so many events."""
        txn_id = self.client.open_txn()
        write_id = self.client.allocate_write_id(txn_id, table.ref)
        name = DeltaName(low=write_id, high=write_id, statement_id=StatementId(0), is_delete=True)
        directory = Path(table.location) / str(name)
        directory.mkdir()
        orc.write_table(pa.table({"id": range(rows)}), str(directory / "bucket_00000"))
        self.client.commit_txn(txn_id)

    def abort(self, table: TableInfo) -> None:
        self.client.abort_txn(self.warehouse.open_delta(table, 1))

    def lock(
        self,
        lock_type: LockType,
        partition: PartitionName | None = None,
        *,
        agent_info: str = "hive_1",
    ) -> TxnId:
        txn_id = self.client.open_txn()
        component = LockComponent(
            table=REF, lock_type=lock_type, operation=None, partition=partition
        )
        request = LockRequest(txn_id=txn_id, components=(component,), agent_info=agent_info)
        self.client.lock(request)
        return txn_id

    def claim(self, partition: PartitionName | None = None) -> ClaimedCompaction:
        self.client.request_compaction(REF, partition, CompactionType.MAJOR)
        claim = self.client.find_next_compaction("worker@host-1", worker_version="4.0.1")
        assert claim is not None
        return claim

    def fail(self, partition: PartitionName | None = None) -> None:
        message = "java.io.IOException: no space left\n\tat a.b.C\nCaused by: disk full"
        self.client.mark_failed(replace(self.claim(partition), error_message=message))


def patched(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(_CONNECT, lambda _: server.client)
    return server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return patched(Server(tmp_path, MetastoreGeneration.V4), monkeypatch)


@pytest.fixture
def server_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return patched(Server(tmp_path, MetastoreGeneration.V3), monkeypatch)


def poked(sensor: HiveAcidWatchSensor) -> Any:  # noqa: ANN401 - the result, None while it waits
    sensor.render_template_fields(context_of())  # type: ignore[arg-type]
    found = sensor.poke(context_of())  # type: ignore[arg-type]
    assert found.is_done is (found.xcom_value is not None)
    assert len(json.dumps(found.xcom_value)) <= MOST_BYTES
    return found.xcom_value


def health(**limits: Any) -> Any:  # noqa: ANN401 - passed on
    return poked(HiveAcidHealthSensor(task_id="s", table="demo.t", **limits))


def compactions(partition: str | None = None, **more: Any) -> Any:  # noqa: ANN401 - passed on
    return poked(HiveAcidCompactionSensor(task_id="s", table="demo.t", partition=partition, **more))


def is_free(lock: str, partition: str | None = None) -> bool:
    sensor = HiveAcidLockFreeSensor(task_id="s", table="demo.t", partition=partition, lock=lock)
    return poked(sensor) is not None


# ---- health --------------------------------------------------------------------------------------


def reached(measure: str, measured: float, limit: float, partition: str = "") -> dict[str, Any]:
    entry = {"partition": partition, "measure": measure, "measured": measured, "limit": limit}
    return {"table": "demo.t", "reached": [entry], "reached_omitted": 0}


def test_the_health_sensor_is_done_at_the_limit_of_delta_count_or_delta_ratio(
    server: Server,
) -> None:
    table = server.table()
    server.warehouse.base(table, 1000)
    server.warehouse.delta(table, 99)
    assert health(delta_count=2) is None
    assert health(delta_ratio="0.1") is None
    server.warehouse.delta(table, 1)
    assert health(delta_count="{{ 2 }}") == reached("delta_count", 2, 2)
    assert health(delta_ratio=0.1) == reached("delta_ratio", 0.1, 0.1)


def test_directories_that_a_base_replaced_are_counted_as_obsolete(server: Server) -> None:
    table = server.table()
    for _ in range(2):
        server.warehouse.delta(table, 1)
    assert health(obsolete_directories=2) is None
    server.warehouse.base(table, 1)
    assert health(obsolete_directories=2) == reached("obsolete_directories", 2, 2)


@pytest.mark.promise("A3")
def test_aborted_directories_and_transactions_are_counted(server: Server) -> None:
    table = server.table()
    server.warehouse.delta(table, 1)
    server.abort(table)
    assert health(aborted_directories=2, aborted_transactions=2) is None
    server.abort(table)
    assert health(aborted_directories=2) == reached("aborted_directories", 2, 2)
    assert health(aborted_transactions=2) == reached("aborted_transactions", 2, 2)


@pytest.mark.promise("A3")
def test_small_files_are_those_below_the_given_size(server: Server) -> None:
    table = server.table()
    for size in (9, 10, 11):
        server.warehouse.delta(table, size)
    assert health(small_files=3, small_file_bytes=11) is None
    assert health(small_files=2, small_file_bytes="11") == reached("small_files", 2, 2)
    assert health(small_files=3) == reached("small_files", 3, 3)


@pytest.mark.promise("A3")
def test_deleted_rows_are_counted_from_the_footers_of_delete_deltas(server: Server) -> None:
    table = server.table()
    server.warehouse.delta(table, 1)  # is no ORC file: only delete deltas are opened
    server.delete(table, 40)
    server.delete(table, 59)
    assert health(deleted_rows=100) is None
    server.delete(table, 1)
    assert health(deleted_rows=100) == reached("deleted_rows", 100, 100)


@pytest.mark.promise("A3")
def test_the_age_of_the_oldest_transaction_with_a_lock_on_the_table_is_measured(
    server: Server,
) -> None:
    server.table()
    query = "etl_20261123020304_0f0e0d0c-0b0a-0908-0706-050403020100"  # as Hive calls one
    other = LockComponent(
        table=TableRef("demo", "u"), lock_type=LockType.SHARED_READ, operation=None
    )
    request = LockRequest(txn_id=server.client.open_txn(), components=(other,), agent_info=query)
    server.client.lock(request)
    assert health(oldest_transaction_s=3600) is None
    server.server.txns[server.lock(LockType.SHARED_READ)].started_s = time.time() - 3600
    assert health(oldest_transaction_s=10**6) is None
    (found,) = health(oldest_transaction_s=3600)["reached"]
    assert (found["partition"], found["measure"]) == ("", "oldest_transaction_s")
    assert 3600 <= found["measured"] < 10**6


def test_one_reached_limit_ends_the_wait_and_the_most_exceeded_limit_comes_first(
    server: Server,
) -> None:
    table = server.table(partitioned=True)
    for partition in ("month=1", "month=2", "month=2", "month=2"):
        server.warehouse.delta(table, 1, partition)
    found = health(delta_count=2, small_files=1, aborted_transactions=1)
    assert [(one["partition"], one["measure"], one["measured"]) for one in found["reached"]] == [
        ("month=2", "small_files", 3),
        ("month=2", "delta_count", 3),
        ("month=1", "small_files", 1),
    ]
    only = HiveAcidHealthSensor(
        task_id="s", table="demo.t", partition="month=1", delta_count=2, deleted_rows=1
    )
    assert poked(only) is None
    assert only.observe().summary == (
        "demo.t: no limit is reached; highest values: delta_count=1, deleted_rows=0"
    )


def test_many_reached_limits_fit_into_an_xcom() -> None:
    exceeded = Exceeded(threshold=Threshold.DELTA_COUNT, measured=2, limit=1)
    due = [ReachedLimit(partition=f"month={n}", exceeded=exceeded).record() for n in range(32_767)]
    sensor = HiveAcidHealthSensor(task_id="s", table="demo.t", delta_count=1)
    found = sensor.execute_complete(context_of(), {"due": due})  # type: ignore[arg-type]
    assert len(json.dumps(found)) <= MOST_BYTES
    assert len(found["reached"]) + found["reached_omitted"] == len(due)


# ---- compactions ---------------------------------------------------------------------------------


def ended(*entries: tuple[str, int | None, str]) -> dict[str, Any]:
    found = [
        {"partition": partition, "entry_id": entry_id, "kind": "major", "state": state}
        for partition, entry_id, state in entries
    ]
    return {"table": "demo.t", "compactions": found, "compactions_omitted": 0}


def test_the_compaction_sensor_waits_for_a_queued_or_working_compaction(server: Server) -> None:
    server.table()
    assert compactions() == ended()
    server.client.request_compaction(REF, None, CompactionType.MAJOR)
    assert compactions() is None
    claim = server.client.find_next_compaction("worker@host-1", worker_version="4.0.1")
    assert claim is not None
    assert compactions() is None
    server.client.mark_compacted(claim)
    assert compactions() == ended(("", 1, "ready for cleaning"))


def test_the_compaction_sensor_names_a_dead_worker_and_the_command_that_ends_its_entry(
    server: Server,
) -> None:
    server.table()
    claim = server.claim()
    txn_id = server.client.open_txn(TxnType.COMPACTION)
    server.client.update_compactor_state(replace(claim, highest_write_id=WriteId(1)), txn_id)
    sensor = HiveAcidCompactionSensor(task_id="s", table="demo.t")
    assert sensor.observe().summary == "demo.t: 1 compaction to end: table working"
    server.client.abort_txn(txn_id)
    told = sensor.observe().summary
    assert f"has no result, because its transaction {txn_id} was aborted" in told
    assert told.endswith("`clean demo.t`, `compact demo.t` or `cancel demo.t` ends the entry")


def test_the_compaction_sensor_waits_only_for_compactions_of_its_partition(server: Server) -> None:
    server.table(partitioned=True)
    server.client.mark_compacted(server.claim(MONTH_1))
    server.client.request_compaction(REF, MONTH_2, CompactionType.MAJOR)
    assert compactions() is None
    assert compactions("month={{ 1 }}") == ended(("month=1", 1, "ready for cleaning"))


def test_a_failed_compaction_fails_the_task_with_the_message_of_its_entry(server: Server) -> None:
    server.table(partitioned=True)
    server.fail(MONTH_1)
    server.client.mark_compacted(server.claim(MONTH_2))
    message = (
        r"table demo\.t, partition month=1: the newest compaction 1 \(major\) in the queue is"
        r" failed: java\.io\.IOException: no space left \.\.\. Caused by: disk full\."
    )
    with pytest.raises(CompactionFailedError, match=message):
        compactions()
    assert compactions("month=2") == ended(("month=2", 2, "ready for cleaning"))
    assert compactions("month=1", fail_on_failed="{{ False }}") == ended(("month=1", 1, "failed"))
    server.client.mark_compacted(server.claim(MONTH_1))
    assert compactions("month=1") == ended(("month=1", 3, "ready for cleaning"))


def test_a_failed_compaction_is_reported_after_the_other_compactions_end(server: Server) -> None:
    server.table(partitioned=True)
    server.fail(MONTH_1)
    claim = server.claim(MONTH_2)
    assert compactions() is None
    server.client.mark_failed(replace(claim, error_message="no space left"))
    with pytest.raises(CompactionFailedError, match="partition month=2: the newest compaction 2"):
        compactions()


def test_a_refused_compaction_fails_the_task_only_if_this_provider_refused_it(
    server: Server,
) -> None:
    server.table()
    server.client.mark_refused(replace(server.claim(), error_message="nothing to compact"))
    assert compactions() == ended(("", 1, "refused"))
    ours = replace(
        server.server.queue[1], worker_id=our_worker_id("key"), pool=our_pool(uuid.uuid4())
    )
    server.server.queue[1] = ours
    with pytest.raises(CompactionFailedError, match="refused: nothing to compact"):
        compactions()


def test_the_compaction_sensor_ignores_the_cleanup_of_aborted_transactions(server: Server) -> None:
    server.table()
    server.client.request_compaction(REF, None, CompactionType.ABORT_TXN_CLEANUP)
    assert compactions() == ended()


def test_queue_entries_without_an_id_are_ordered_by_their_end_time(server_3: Server) -> None:
    server_3.table()
    server_3.client.request_compaction(REF, None, CompactionType.MAJOR)
    entry = replace(server_3.server.queue[1], entry_id=None)
    failed = replace(entry, state=CompactionState.FAILED, ended_s=20.0)
    older = replace(entry, state=CompactionState.SUCCEEDED, ended_s=10.0)
    server_3.server.queue = {1: older, 2: failed}
    with pytest.raises(CompactionFailedError, match="the newest compaction \\(major\\)"):
        compactions()
    server_3.server.queue = {1: failed, 2: replace(entry, state=CompactionState.READY_FOR_CLEANING)}
    assert compactions() == ended(("", None, "ready for cleaning"))


@pytest.mark.parametrize("generation", ["server", "server_3"])
def test_the_sensor_waits_for_a_compaction_in_an_unknown_state_until_a_newer_one_ends(
    request: pytest.FixtureRequest, generation: str
) -> None:
    server: Server = request.getfixturevalue(generation)
    server.table()
    server.client.request_compaction(REF, None, CompactionType.MAJOR)
    number = 1 if generation == "server" else None
    old = replace(
        server.server.queue[1], entry_id=number, state=CompactionState.SUCCEEDED, ended_s=10.0
    )
    odd = replace(
        old, entry_id=number and 2, state=CompactionState.received("resting"), ended_s=None
    )
    server.server.queue = {1: old, 2: odd}
    assert compactions() is None
    sensor = HiveAcidCompactionSensor(task_id="s", table="demo.t")
    assert sensor.observe().summary == "demo.t: 1 compaction to end: table resting"
    newest = replace(old, entry_id=number and 3, ended_s=30.0)
    server.server.queue = {2: replace(odd, ended_s=20.0), 3: newest}
    assert compactions() == ended(("", newest.entry_id, "succeeded"))


def test_the_compaction_sensor_raises_for_a_missing_table_or_partition_or_a_flat_table(
    server: Server,
) -> None:
    with pytest.raises(TableNotFoundError):
        compactions()
    server.table(partitioned=True)
    with pytest.raises(PartitionNotFoundError):
        compactions("month=7")
    with pytest.raises(PartitionNotFoundError):
        compactions("day=1")
    flat = replace(server.server.tables[REF], kind=TransactionalKind.NONE)
    server.server.tables[REF] = flat
    with pytest.raises(NotTransactionalError):
        compactions()


@pytest.mark.parametrize("sensor", [HiveAcidCompactionSensor, HiveAcidLockFreeSensor])
def test_a_partition_of_an_unpartitioned_table_is_not_found(
    server: Server, sensor: type[HiveAcidWatchSensor]
) -> None:
    server.table()
    block(server)
    with pytest.raises(PartitionNotFoundError, match=r"demo\.t: has no partition month=1"):
        poked(sensor(task_id="s", table="demo.t", partition="month=1"))


# ---- locks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "free_for"),
    [
        (LockType.SHARED_READ, {"shared_read", "shared_write", "excl_write"}),
        (LockType.SHARED_WRITE, {"shared_read", "shared_write"}),
        (LockType.EXCL_WRITE, {"shared_read"}),
        (LockType.EXCLUSIVE, set()),
    ],
)
def test_a_lock_is_free_if_no_held_lock_conflicts(
    server: Server, held: LockType, free_for: set[str]
) -> None:
    server.table()
    kinds = {kind.value for kind in LockType}
    assert {kind for kind in kinds if is_free(kind)} == kinds
    txn_id = server.lock(held)
    assert {kind for kind in kinds if is_free(kind)} == free_for
    server.client.commit_txn(txn_id)
    assert is_free("exclusive")


def test_the_name_of_a_locks_owner_is_escaped_in_the_sensors_log(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.table()
    monkeypatch.setattr(server.client, "user", "ann\x1b[2J\u202e")
    server.lock(LockType.EXCLUSIVE)
    sensor = HiveAcidLockFreeSensor(task_id="s", table="demo.t", lock="shared_read")
    lines: list[str] = []
    monkeypatch.setattr(sensor.log, "info", lambda text, *values: lines.append(text % values))
    sensor.poke({})
    assert "user ann\\x1b[2J\\u202e" in lines[0]


def test_on_hive_3_shared_writes_conflict_and_exclusive_write_locks_are_refused(
    server_3: Server,
) -> None:
    server_3.table(partitioned=True)
    with pytest.raises(MetastoreVersionError, match="EXCL_WRITE"):
        is_free("excl_write")
    letters = [PartitionName.parse(name) for name in ("month=A", "month=b")]
    server_3.client.add_partitions(server_3.client.get_table(REF), letters)
    server_3.lock(LockType.SHARED_WRITE, PartitionName.parse("month=a"))
    assert not is_free("shared_write", "month=A")  # 3.1 lists partitions in lower case
    assert is_free("shared_write", "month=b")
    assert is_free("shared_read", "month=A")


def test_a_partition_lock_is_not_blocked_by_locks_on_other_partitions(server: Server) -> None:
    server.table(partitioned=True)
    server.lock(LockType.EXCLUSIVE, MONTH_1)
    assert not is_free("exclusive")
    assert not is_free("shared_read", "month=1")
    assert is_free("exclusive", "month=2")
    server.lock(LockType.SHARED_READ)  # waits for the first
    assert not is_free("exclusive", "month=2")


def test_the_lock_sensor_accepts_a_missing_partition_but_not_wrong_partition_columns(
    server: Server,
) -> None:
    server.table(partitioned=True)
    server.lock(LockType.EXCLUSIVE, MONTH_1)
    assert is_free("exclusive", "month=7")  # the next task may create it
    for partition in ("mnth=1", "month=1/day=1"):
        with pytest.raises(PartitionNotFoundError, match=f"has no partition {partition}"):
            is_free("exclusive", partition)


@pytest.mark.parametrize("generation", ["server", "server_3"])
def test_a_lock_blocks_every_spelling_of_its_partition(
    request: pytest.FixtureRequest, generation: str
) -> None:
    server: Server = request.getfixturevalue(generation)
    server.table(partitioned=True)
    txn_id = server.lock(LockType.EXCLUSIVE, MONTH_1)
    assert not is_free(
        "{{ 'shared_read' }}", "month={{ '01' }}"
    )  # Hive locks month=1, since the column is an int
    assert is_free("shared_read", "month=10")
    server.client.commit_txn(txn_id)
    server.lock(LockType.EXCLUSIVE, PartitionName.parse("month=02"))
    assert not is_free("shared_read", "month=2")
    no_numbers = [PartitionName.parse(name) for name in ("month=x", "month=y", "month=1 ")]
    server.client.add_partitions(server.client.get_table(REF), no_numbers)
    server.lock(LockType.EXCLUSIVE, PartitionName.parse("month=x"))
    assert not is_free("shared_read", "month=x")
    assert is_free("shared_read", "month=y")  # both are NULL to Hive, but are two partitions
    assert is_free("shared_read", "month=1 ")


@pytest.mark.parametrize("generation", ["server", "server_3"])
@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("2026-01-05 00%3A00%3A00", ["2026-01-05", "2026-01-05 00:00", "2026-01-05T00:00:00.0"]),
        ("2026-01-05 10%3A00%3A00", ["2026-01-05T10:00:00", "2026-01-05 10:00:00.000"]),
    ],
)
def test_a_lock_blocks_every_spelling_of_its_time(
    request: pytest.FixtureRequest, generation: str, held: str, asked: list[str]
) -> None:
    server: Server = request.getfixturevalue(generation)
    columns = (Column(name="id", type="bigint"),)
    day = (Column(name="day", type="timestamp"),)
    server.client.create_table(NewTable(ref=REF, columns=columns, partition_columns=day))
    server.lock(LockType.EXCLUSIVE, PartitionName.parse(f"day={held}"))
    assert not [value for value in asked if is_free("shared_read", f"day={value}")]
    assert is_free("shared_read", "day=2026-01-05T10:00:01")


@pytest.mark.parametrize("value", ["1 ", " 1", "1\n", "x"])
def test_a_value_that_is_none_of_its_column_names_no_partition_whose_lock_is_free(
    server: Server, value: str
) -> None:
    """A trailing blank of a template must not make the sensor overlook the lock on `month=1`."""
    server.table(partitioned=True)
    server.lock(LockType.EXCLUSIVE, MONTH_1)
    shown = "'month=1 '" if value == "1 " else "month="
    with pytest.raises(PartitionNotFoundError, match=f"has no partition {shown}"):
        is_free("shared_read", f"month={value}")


def test_a_blank_before_the_first_partition_column_is_ignored(server: Server) -> None:
    server.table(partitioned=True)
    server.lock(LockType.EXCLUSIVE, MONTH_1)
    assert not is_free("shared_read", " month=1")


def test_a_lock_on_a_partition_with_other_partition_columns_does_not_block(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.table(partitioned=True)
    server.lock(LockType.EXCLUSIVE, MONTH_1)
    (lock,) = server.client.show_locks()
    for partition in ("day=1", "month=1/day=1", "month"):
        other = replace(lock, partition=partition)
        monkeypatch.setattr(server.client, "show_locks", lambda other=other: (other,))
        assert is_free("exclusive", "month=1")


def test_a_lock_on_the_database_blocks_a_lock_on_the_table(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.table()
    server.lock(LockType.EXCLUSIVE)
    (lock,) = server.client.show_locks()
    monkeypatch.setattr(server.client, "show_locks", lambda: (replace(lock, table=None),))
    assert not is_free("shared_read")


def test_the_log_names_the_transaction_user_job_and_age_of_a_blocking_lock_but_no_host(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.table()
    token = FencingToken(
        job_key="etl/daily/merge", attempt=AttemptId.new(1), first_txn_id=server.client.open_txn()
    )
    server.lock(LockType.EXCLUSIVE, agent_info=token.agent_info)
    began = server.server.now_s()
    monkeypatch.setattr("time.time", lambda: began + 200)
    sensor = HiveAcidLockFreeSensor(task_id="s", table="demo.t", lock="shared_write")
    assert sensor.observe().summary == (
        "demo.t: a request for a shared_write lock would wait for: exclusive on demo.t by"
        " transaction 2 (user etl, job etl/daily/merge, acquired 3 min 20 s ago)"
    )


# ---- what they have in common --------------------------------------------------------------------


def block(server: Server) -> TxnId:
    """Let every sensor wait; the health sensor waits for its first delta."""
    server.client.request_compaction(REF, None, CompactionType.MAJOR)
    return server.lock(LockType.SHARED_READ)


def unblock(server: Server, table: TableInfo, txn_id: TxnId) -> None:
    server.client.commit_txn(txn_id)
    claim = server.client.find_next_compaction("worker@host-1", worker_version="4.0.1")
    assert claim is not None
    server.client.mark_compacted(claim)
    server.warehouse.delta(table, 1)


@pytest.mark.parametrize("sensor", SENSORS)
@in_event_loop
async def test_a_deferred_sensor_returns_the_same_result_as_a_poking_sensor(
    server: Server, sensor: type[HiveAcidWatchSensor]
) -> None:
    table = server.table()
    txn_id = block(server)
    waiting = sensor(
        task_id="s", table="demo.t", deferrable=True, poke_interval=0.01, **SENSORS[sensor]
    )
    with pytest.raises(TaskDeferred) as deferred:
        run_task(waiting)
    path, arguments = deferred.value.trigger.serialize()
    assert not {name for name in arguments if "password" in name or "secret" in name}
    trigger = import_string(path)(**json.loads(json.dumps(arguments)))
    assert trigger.serialize() == (path, arguments)

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            found: dict[str, Any] = event.payload
            return found
        raise AssertionError

    event = asyncio.ensure_future(first())
    await asyncio.sleep(0)
    unblock(server, table, txn_id)
    answer = waiting.execute_complete(context_of(), await asyncio.wait_for(event, 120))  # type: ignore[arg-type]
    assert answer is not None
    assert answer == poked(sensor(task_id="s", table="demo.t", **SENSORS[sensor]))


@pytest.mark.parametrize(
    ("sensor", "arguments"),
    [
        (HiveAcidHealthSensor, {"delta_count": 2, "small_files": 2}),
        (HiveAcidCompactionSensor, {"fail_on_failed": False}),
        (HiveAcidLockFreeSensor, {"lock": "shared_write"}),
    ],
)
def test_a_trigger_polls_the_partition_of_its_sensor(
    server: Server, sensor: type[HiveAcidWatchSensor], arguments: dict[str, Any]
) -> None:
    table = server.table(partitioned=True)
    server.fail(MONTH_1)
    server.client.request_compaction(REF, MONTH_2, CompactionType.MAJOR)
    server.lock(LockType.SHARED_READ, MONTH_1)
    server.lock(LockType.EXCLUSIVE, MONTH_2)
    for partition in ("month=1", "month=2", "month=2"):
        server.warehouse.delta(table, 1, partition)
    task = sensor(task_id="s", table="demo.t", partition="month=1", **arguments)
    observation = Condition.from_json(task.trigger().condition).observe(server.client)
    assert observation == task.observe()
    assert bool(observation.findings) is (sensor is not HiveAcidHealthSensor)


def test_a_compaction_that_fails_while_the_trigger_waits_fails_the_task(server: Server) -> None:
    server.table()
    claim = server.claim()
    sensor = HiveAcidCompactionSensor(
        task_id="s", table="demo.t", deferrable=True, poke_interval=0.01
    )
    with pytest.raises(TaskDeferred) as deferred:
        run_task(sensor)
    server.client.mark_failed(replace(claim, error_message="no space left"))

    async def events() -> list[dict[str, Any]]:
        return [event.payload async for event in deferred.value.trigger.run()]

    (event,) = asyncio.run(asyncio.wait_for(events(), 120))
    with pytest.raises(CompactionFailedError, match="no space left"):
        sensor.execute_complete(context_of(), event)  # type: ignore[arg-type]


def payload_of(trigger: ConditionTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        event = await anext(trigger.run())
        found: dict[str, Any] = event.payload
        return found

    return asyncio.run(asyncio.wait_for(first(), 120))


def test_a_shortened_event_counts_the_omitted_compactions(server: Server) -> None:
    server.table()
    server.client.request_compaction(REF, None, CompactionType.MAJOR)
    entry = replace(server.server.queue[1], state=CompactionState.SUCCEEDED)
    server.server.queue = {
        n: replace(entry, entry_id=n, partition=PartitionName.parse(f"month={n}"))
        for n in range(1, 1001)
    }
    sensor = HiveAcidCompactionSensor(task_id="s", table="demo.t")
    event = payload_of(sensor.trigger())
    assert len(json.dumps(event)) <= MOST_BYTES
    answer = sensor.execute_complete(context_of(), event)  # type: ignore[arg-type]
    assert len(answer["compactions"]) > 50
    assert len(answer["compactions"]) + answer["compactions_omitted"] == 1000


def test_a_shortened_event_counts_the_omitted_limits(
    server: Server,  # noqa: ARG001 - sets the connection
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exceeded = Exceeded(threshold=Threshold.DELTA_COUNT, measured=2, limit=1)
    limits = (ReachedLimit(partition=f"month={n}", exceeded=exceeded) for n in range(1000))
    observation = Observation(summary="", findings=tuple(limit.record() for limit in limits))
    monkeypatch.setattr("airflow_hiveacid.watch.health.reached_limits", lambda *_: observation)
    sensor = HiveAcidHealthSensor(task_id="s", table="demo.t", delta_count=1)
    event = payload_of(sensor.trigger())
    assert len(json.dumps(event)) <= MOST_BYTES
    answer = sensor.execute_complete(context_of(), event)  # type: ignore[arg-type]
    assert answer == poked(sensor)
    assert len(answer["reached"]) + answer["reached_omitted"] == 1000


@pytest.mark.parametrize("sensor", SENSORS)
def test_a_sensor_and_its_trigger_poll_the_metastore_of_their_connection(
    server: Server,
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
    sensor: type[HiveAcidWatchSensor],
) -> None:
    table = server.table()
    unblock(server, table, block(server))
    connections.add("other", "hive_acid_metastore", extra={"uris": "thrift://other:9083"})
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(_CONNECT, lambda endpoint: (asked.append(endpoint.uris), server.client)[1])
    task = sensor(task_id="s", table="demo.t", hive_acid_conn_id="other", **SENSORS[sensor])
    assert poked(task) is not None
    payload_of(task.trigger())
    assert asked == [("thrift://other:9083",)] * 2


@pytest.mark.parametrize("sensor", SENSORS)
def test_a_missing_table_fails_the_task_at_once(
    server: Server,  # noqa: ARG001 - has no table
    sensor: type[HiveAcidWatchSensor],
) -> None:
    with pytest.raises(TableNotFoundError):
        run_task(sensor(task_id="s", table="demo.t", **SENSORS[sensor]))


def test_the_results_page_documents_every_field_of_the_sensors(server: Server) -> None:
    server.warehouse.delta(server.table(), 1)
    server.client.mark_compacted(server.claim())
    lock = poked(HiveAcidLockFreeSensor(task_id="s", table="demo.t"))
    data = poked(HiveAcidNewVersionSensor(task_id="s", table="demo.t", since=0))
    queue = compactions()
    entry = queue["compactions"][0]
    limit = reached("delta_count", 1, 1)
    assert fields_in_the_page("Ended compactions") == queue.keys() | entry.keys()
    assert fields_in_the_page("Reached limits") == limit.keys() | limit["reached"][0].keys()
    assert fields_in_the_page("Free lock") == lock.keys()
    assert fields_in_the_page("New data") == data.keys()

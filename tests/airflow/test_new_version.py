"""The sensor of new data, and its trigger: they fire for data, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string

from airflow_hiveacid.airflow_names import TaskDeferred
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.sensors import HiveAcidNewVersionSensor
from airflow_hiveacid.watch import new_data
from airflow_hiveacid.watch.trigger import ConditionTrigger
from tests.contract.fake_client import FakeClient
from tests.support.airflow_support import Warehouse, context_of
from tests.support.cluster_tasks import fired


def seen(table: TableInfo, since: int | str, **more: Any) -> Any:  # noqa: ANN401 - passed on
    sensor = HiveAcidNewVersionSensor(task_id="s", table=str(table.ref), since=since, **more)
    sensor.render_template_fields(context_of())  # type: ignore[arg-type]
    found = sensor.poke(context_of())  # type: ignore[arg-type]
    assert found.is_done is (found.xcom_value is not None)
    return found.xcom_value


def sensor_of(table: TableInfo, since: int) -> HiveAcidNewVersionSensor:
    return HiveAcidNewVersionSensor(task_id="s", table=str(table.ref), since=since)


def compact(table: TableInfo, low: int, high: int) -> None:
    """What a minor compaction and the cleaning after it leave."""
    root = Path(table.location.removeprefix("file:"))
    for old in root.glob("delta_*"):
        (old / "bucket_00000").unlink()
        old.rmdir()
    merged = root / str(DeltaName(low=low, high=high))  # type: ignore[arg-type]
    merged.mkdir()
    (merged / "bucket_00000").write_bytes(b"x")


@pytest.mark.promise("V5")
def test_the_sensor_fires_for_new_data_and_not_for_a_compaction(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    assert seen(table, 0) is None
    warehouse.delta(table, 1)
    warehouse.delta(table, 1)
    assert seen(table, "{{ 1 }}") == {
        "since": 1,
        "version": 2,
        "partitions": [""],
        "partitions_omitted": 0,
    }
    assert seen(table, 2) is None
    compact(table, 1, 2)
    assert seen(table, 2) is None
    assert seen(table, 1) == {"since": 1, "version": 2, "partitions": [""], "partitions_omitted": 0}


def test_the_sensor_does_not_fire_for_an_empty_or_open_write(warehouse: Warehouse) -> None:
    table = warehouse.table("t", partitioned=True)
    warehouse.delta(table, 1, "month=1")
    client = warehouse.client
    empty = client.open_txn()
    client.allocate_write_id(empty, table.ref)
    client.commit_txn(empty)
    assert seen(table, 1) is None
    still = warehouse.open_delta(table, 1, "month=2")
    warehouse.delta(table, 1, "month=1")
    assert seen(table, 1) is None, "what comes after an open write may have it before it"
    client.commit_txn(still)
    assert seen(table, 1) == {
        "since": 1,
        "version": 4,
        "partitions": ["month=1", "month=2"],
        "partitions_omitted": 0,
    }
    assert seen(table, 1, partition="month=2")["partitions"] == ["month=2"]


def test_a_deferred_sensor_returns_the_version_that_its_trigger_found(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    sensor = HiveAcidNewVersionSensor(
        task_id="s", table=str(table.ref), since=1, deferrable=True, poke_interval=0.01
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context_of())  # type: ignore[arg-type]
    path, arguments = deferred.value.trigger.serialize()
    trigger = import_string(path)(**arguments)
    assert type(trigger) is ConditionTrigger
    assert trigger.serialize() == (path, arguments)
    warehouse.delta(table, 1)
    assert sensor.execute_complete(context_of(), fired(trigger)) == {  # type: ignore[arg-type]
        "since": 1,
        "version": 2,
        "partitions": [""],
        "partitions_omitted": 0,
    }


def test_the_log_names_the_newest_version_if_since_is_a_later_version(warehouse: Warehouse) -> None:
    """As of a table that was dropped and made again."""
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    sensor = HiveAcidNewVersionSensor(task_id="s", table=str(table.ref), since=7)
    assert sensor.observe().summary.endswith(
        "no new data since version 7; the newest version that no open write can change is 1"
    )


def test_a_negative_since_or_a_missing_table_fails_at_once(warehouse: Warehouse) -> None:
    with pytest.raises(errors.ConfigurationError, match="since"):
        HiveAcidNewVersionSensor(task_id="s", table="db.t", since=-1)
    sensor = HiveAcidNewVersionSensor(task_id="s", table=f"{warehouse.db}.nope", since=0)
    with pytest.raises(errors.TableNotFoundError):
        sensor.poke(context_of())  # type: ignore[arg-type]


def compact_as_hive_4_does(warehouse: Warehouse, table: TableInfo, low: int, high: int) -> None:
    """Named after its transaction; a cleaner goes over it unless a reader may need what was."""
    client, root = warehouse.client, Path(table.location.removeprefix("file:"))
    old = list(root.glob("delta_*"))
    txn_id = client.open_txn()
    merged = root / f"{DeltaName(low=low, high=high)}_v{txn_id:07d}"  # type: ignore[arg-type]
    merged.mkdir()
    (merged / "bucket_00000").write_bytes(b"x")
    client.commit_txn(txn_id)
    if any(t.state is TxnState.OPEN and t.txn_id < txn_id for t in client.open_txns_info()):
        return
    for directory in old:
        (directory / "bucket_00000").unlink()
        directory.rmdir()


@pytest.mark.promise("V5")
def test_a_cleaner_does_not_remove_deltas_while_the_sensor_lists_them(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("t")
    for _ in range(2):
        warehouse.delta(table, 1)
    list_table = new_data.list_table

    def late(location: str) -> Listing:
        compact_as_hive_4_does(warehouse, table, 1, 2)
        return list_table(location)

    monkeypatch.setattr(new_data, "list_table", late)
    assert seen(table, 1) == {"since": 1, "version": 2, "partitions": [""], "partitions_omitted": 0}
    monkeypatch.undo()
    assert all(t.state is not TxnState.OPEN for t in warehouse.client.open_txns_info())


def test_the_sensor_opens_a_transaction_only_after_a_new_write_ended(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, client = warehouse.table("t"), warehouse.client
    warehouse.delta(table, 1)
    empty = client.open_txn()
    client.allocate_write_id(empty, table.ref)
    client.commit_txn(empty)
    sensor = sensor_of(table, 1)
    opened = []
    begin = new_data.begin
    monkeypatch.setattr(new_data, "begin", lambda *a, **k: (opened.append(1), begin(*a, **k))[1])
    assert not seen(table, 2)
    assert opened == []
    # What was looked at and was nothing is not looked at again.
    for _ in range(3):
        assert not sensor.observe().findings
    assert opened == [1]
    warehouse.delta(table, 1)
    assert [finding["version"] for finding in sensor.observe().findings] == [3]
    # Another table of the name begins anew.
    client.drop_table(table.ref)
    table = warehouse.table("t")
    for _ in range(2):
        warehouse.delta(table, 1)
    assert [finding["version"] for finding in sensor.observe().findings] == [2]


def test_the_sensor_waits_while_an_exclusive_lock_blocks_readers(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, client = warehouse.table("t"), warehouse.client
    warehouse.delta(table, 1)
    txn_id = client.open_txn()
    component = LockComponent(table=table.ref, lock_type=LockType.EXCLUSIVE, operation=None)
    client.lock(LockRequest(txn_id=txn_id, components=(component,), agent_info="hive"))
    monkeypatch.setattr(new_data, "_LOCK_TIMEOUT_S", 0.0)
    assert seen(table, 0) is None
    client.abort_txn(txn_id)
    assert seen(table, 0) is not None


def test_the_sensor_watches_a_materialized_view(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)

    def refuse(_: FakeClient, ref: TableRef) -> TableInfo:
        raise errors.UnsupportedTableError(table=ref, detail="is a materialized view")

    monkeypatch.setattr(FakeClient, "get_table", refuse)
    assert seen(table, 0)["version"] == 1

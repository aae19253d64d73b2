"""The sensor of new data, and its trigger: they fire for data, and for nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.module_loading import import_string

from airflow_hiveacid.format.errors import ConfigurationError, TableNotFoundError
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.sensors.new_version import HiveAcidNewVersionSensor
from airflow_hiveacid.triggers.new_version import NewVersionTrigger
from airflow_support import context_of

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import TableInfo
    from airflow_support import Warehouse


def seen(table: TableInfo, since: int | str, **more: Any) -> Any:  # noqa: ANN401 - passed on
    sensor = HiveAcidNewVersionSensor(task_id="s", table=str(table.ref), since=since, **more)
    sensor.render_template_fields(context_of())  # type: ignore[arg-type]
    found = sensor.poke(context_of())  # type: ignore[arg-type]
    assert found.is_done is (found.xcom_value is not None)
    return found.xcom_value


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
    assert seen(table, "{{ 1 }}") == {"since": 1, "version": 2, "partitions": [""]}
    assert seen(table, 2) is None
    compact(table, 1, 2)
    assert seen(table, 2) is None
    assert seen(table, 1) == {"since": 1, "version": 2, "partitions": [""]}


def test_a_write_that_changed_nothing_is_no_news_and_an_open_one_neither(
    warehouse: Warehouse,
) -> None:
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
    assert seen(table, 1) == {"since": 1, "version": 4, "partitions": ["month=1", "month=2"]}
    assert seen(table, 1, partition="month=2")["partitions"] == ["month=2"]


def test_it_waits_in_the_triggerer_and_answers_what_the_trigger_found(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    sensor = HiveAcidNewVersionSensor(
        task_id="s", table=str(table.ref), since=1, deferrable=True, poke_interval=0.01
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context_of())  # type: ignore[arg-type]
    path, arguments = deferred.value.trigger.serialize()
    trigger = import_string(path)(**arguments)
    assert type(trigger) is NewVersionTrigger
    assert trigger.serialize() == (path, arguments)
    warehouse.delta(table, 1)

    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            found: dict[str, Any] = event.payload
            return found
        raise AssertionError

    event = asyncio.run(asyncio.wait_for(first(), 60))
    assert sensor.execute_complete(context_of(), event) == {  # type: ignore[arg-type]
        "since": 1,
        "version": 2,
        "partitions": [""],
    }


def test_what_is_wrong_fails_at_once(warehouse: Warehouse) -> None:
    with pytest.raises(ConfigurationError, match="since"):
        HiveAcidNewVersionSensor(task_id="s", table="db.t", since=-1)
    sensor = HiveAcidNewVersionSensor(task_id="s", table=f"{warehouse.db}.nope", since=0)
    with pytest.raises(TableNotFoundError):
        sensor.poke(context_of())  # type: ignore[arg-type]

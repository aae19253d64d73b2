"""The watcher of an asset: real metastore, Airflow's own manager of shared polls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string
from airflow.triggers.shared_stream import SharedStreamManager

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.maintenance import Off
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.watch.compaction_due import CompactionDueTrigger
from airflow_hiveacid.watch.conditions import CompactionNeeded
from tests.support.airflow_support import AssetStore, Connections, Warehouse
from tests.support.event_loop import in_event_loop

_POLL_S = 0.1


def _trigger(
    table: TableInfo | str,
    store: AssetStore | None = None,
    thresholds: dict[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401
) -> CompactionDueTrigger:
    condition = CompactionNeeded(
        table=table if isinstance(table, str) else str(table.ref),
        thresholds=GivenThresholds(
            **{"delta_count": 2, "delta_ratio": Off.OFF, **(thresholds or {})}
        ),
    )
    arguments: dict[str, Any] = {
        "condition": condition.to_json(),
        "hive_acid_conn_id": "hive_acid_default",
        "poll_interval_s": _POLL_S,
        "refire_after_s": 3600.0,
        **settings,
    }
    trigger = CompactionDueTrigger(**arguments)
    trigger.asset_state_store = store  # type: ignore[assignment]  # what the triggerer injects
    return trigger


@asynccontextmanager
async def _watching(*triggers: CompactionDueTrigger) -> AsyncIterator[list[asyncio.Queue[Any]]]:
    """Run triggers as the triggerer does; the payloads of each one's events."""
    manager = SharedStreamManager()
    queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in triggers]

    async def follow(number: int, trigger: CompactionDueTrigger) -> None:
        key = trigger.shared_stream_key()
        stream = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        async for event in trigger.filter_shared_stream(stream):
            manager.bind_pending_event(trigger_id=number, key=key)
            queues[number].put_nowait(event.payload)

    running = [asyncio.create_task(follow(*pair)) for pair in enumerate(triggers)]
    try:
        yield queues
    finally:
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await manager.stop_all()


async def _next(queue: asyncio.Queue[Any]) -> dict[str, Any]:
    found: dict[str, Any] = await asyncio.wait_for(queue.get(), timeout=60)
    return found


async def _measured(caplog: pytest.LogCaptureFixture, times: int) -> None:
    """Wait until a table was measured this often from now on; each time is a line of the log."""
    caplog.clear()
    await _logged(caplog, "delta directories", times)


async def _logged(caplog: pytest.LogCaptureFixture, words: str, times: int = 1) -> None:
    async with asyncio.timeout(60):
        while True:
            if sum(words in record.getMessage() for record in caplog.records) >= times:
                return
            await asyncio.sleep(_POLL_S)


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=CompactionDueTrigger.__module__)


def test_a_trigger_can_be_recreated_from_its_serialised_arguments() -> None:
    also_when = {"aborted_transactions": Off.OFF, "small_files": 200}
    thresholds = {"delta_count": 2, "delta_ratio": 0.2, "also_when": also_when}
    path, arguments = _trigger("db.t", thresholds=thresholds).serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)
    condition = CompactionNeeded.from_json(again.condition)
    assert condition.table == "db.t"
    assert condition.thresholds == GivenThresholds(**thresholds)


@in_event_loop
async def test_a_due_table_gets_one_event_until_it_is_compacted_and_due_again(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    store = AssetStore()
    async with _watching(_trigger(table, store)) as (events,):
        await _measured(caplog, 1)
        assert events.empty()
        warehouse.delta(table, 1)
        event = await _next(events)
        assert event.pop("write_id") in (1, 2)  # of the poll, a moment before the measurement
        assert event == {
            "table": str(table.ref),
            "why": "2 delta directories (threshold 2)",
            "due": 1,
            "partitions": [{"partition": "", "delta_count": 2, "delta_ratio": None}],
            "partitions_omitted": 0,
        }
        warehouse.delta(table, 1)
        await _measured(caplog, 3)
    # A new triggerer knows only what is stored.
    async with _watching(_trigger(table, store)) as (events,):
        await _measured(caplog, 3)
        assert events.empty()
        warehouse.base(table, 1)  # as a compaction, it replaces the deltas
        # A look that had begun before the base was written is logged first.
        await _logged(caplog, " 0 delta directories")
        warehouse.delta(table, 1)
        warehouse.delta(table, 1)
        assert (await _next(events))["partitions"][0]["delta_count"] == 2


@in_event_loop
async def test_a_table_that_is_still_due_gets_a_second_event_after_the_refire_interval(
    warehouse: Warehouse,
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    warehouse.delta(table, 1)
    async with _watching(_trigger(table, AssetStore(), refire_after_s=0.0)) as (events,):
        assert await _next(events) == await _next(events)


@in_event_loop
async def test_the_next_write_after_a_failed_compaction_sends_an_event(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    warehouse.delta(table, 1)
    async with _watching(_trigger(table, AssetStore())) as (events,):
        await _next(events)
        warehouse.client.request_compaction(table.ref, None, CompactionType.MAJOR)
        claim = warehouse.client.find_next_compaction("worker", worker_version="4.0.1")
        assert claim is not None
        assert claim.table == table.ref
        warehouse.client.mark_failed(replace(claim, error_message="no space left"))
        await _measured(caplog, 3)
        assert events.empty()
        warehouse.delta(table, 1)
        assert (await _next(events))["partitions"][0]["delta_count"] == 3


@in_event_loop
async def test_tables_of_a_database_share_a_poll_and_each_event_names_its_due_partitions(
    warehouse: Warehouse,
) -> None:
    cold, hot = warehouse.table("cold"), warehouse.table("hot", partitioned=True)
    warehouse.delta(cold, 1)
    for month, deltas in ((1, 1), (2, 2), (3, 3)):
        for _ in range(deltas):
            warehouse.delta(hot, 1, f"month={month}")
    first, second = _trigger(cold), _trigger(hot)
    assert first.shared_stream_key() == second.shared_stream_key()
    assert first.shared_stream_key() != _trigger("other.t").shared_stream_key()
    async with _watching(first, second) as (of_cold, of_hot):
        event = await _next(of_hot)
        assert event["due"] == 2
        assert [one["partition"] for one in event["partitions"]] == ["month=3", "month=2"]
        assert of_cold.empty()
        warehouse.delta(cold, 1)
        assert (await _next(of_cold))["table"] == str(cold.ref)


@in_event_loop
async def test_polling_continues_after_a_failed_poll(
    warehouse: Warehouse, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    connections.remove("hive_acid_default")
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    warehouse.delta(table, 1)
    async with _watching(_trigger(table)) as (events,):
        await _logged(caplog, "polling goes on")
        extra = {"uris": warehouse.uri}
        connections.add("hive_acid_default", "hive_acid_metastore", extra=extra)
        assert (await _next(events))["due"] == 1


@in_event_loop
async def test_a_table_that_is_created_after_the_trigger_started_is_watched(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    async with _watching(_trigger(f"{warehouse.db}.late")) as (events,):
        await _logged(caplog, "does not exist")
        table = warehouse.table("late")
        warehouse.delta(table, 1)
        warehouse.delta(table, 1)
        assert (await _next(events))["due"] == 1

"""Which polls of a table send an event: a fake metastore, real directories, no time that passes."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.maintenance import Off
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.plan.compaction_policy import COUNT_PARAMETER, GivenThresholds
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.plan.thresholds import DueDirectory, Exceeded, TableHealth, Threshold
from airflow_hiveacid.watch.compaction_due import CompactionDueTrigger, Poll
from airflow_hiveacid.watch.compactions import queue_state
from airflow_hiveacid.watch.conditions import CompactionNeeded
from airflow_hiveacid.watch.health import CompactionNeed
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import METASTORE_URI, AssetStore, Connections, Warehouse
from tests.support.event_loop import in_event_loop

_ENDPOINT = MetastoreEndpoint(uris=("thrift://fake:9083",))
_REF = TableRef("demo", "t")


class _Watched:
    """A table of a fake metastore, and its trigger with a threshold of two deltas."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        server = FakeMetastore(MetastoreGeneration.V4, ManualClock(), txn_timeout_s=300.0)
        self.client = FakeClient(server)
        self.client.create_database("demo")
        connect = "airflow_hiveacid.metastore.client.connect"
        monkeypatch.setattr(connect, lambda _: self.client)
        self._warehouse = Warehouse(client=self.client, uri="", db="demo")  # type: ignore[arg-type]
        self._folder, self._tables = folder, 0
        self.table = self._create()

    def _create(self) -> TableInfo:
        self._tables += 1
        return self._warehouse.table("t", location=str(self._folder / str(self._tables)))

    def create(self) -> None:
        self.table = self._create()

    def create_again(self) -> None:
        self.client.drop_table(_REF)
        self.create()

    def write(self, times: int = 1) -> None:
        for _ in range(times):
            self._warehouse.delta(self.table, 1)

    def fail_compaction(self) -> None:
        self.client.request_compaction(_REF, None, CompactionType.MAJOR)
        claim = self.client.find_next_compaction("worker", worker_version="4.0.1")
        assert claim is not None
        self.client.mark_failed(replace(claim, error_message="no space left"))

    def begin_write(self) -> TxnId:
        return self._warehouse.open_delta(self.table, 1)

    def begin_compaction(self) -> None:
        self.client.request_compaction(_REF, None, CompactionType.MAJOR)

    def end_compaction(self) -> None:
        """Replace all deltas by a base; the queue says so."""
        claim = self.client.find_next_compaction("worker", worker_version="4.0.1")
        assert claim is not None
        self._warehouse.base(self.table, 1)
        self.client.mark_compacted(claim)

    def compact_outside_the_queue(self) -> None:
        self._warehouse.base(self.table, 1)

    def poll(self, began_s: float | None = None) -> Poll:
        return Poll(
            began_s=time.monotonic() if began_s is None else began_s,
            endpoint=_ENDPOINT,
            writes=snapshot_now(self.client, [_REF]).tables,
        )


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Watched:
    return _Watched(tmp_path, monkeypatch)


def _trigger_of(table: str, delta_count: int | None = 2, **settings: Any) -> CompactionDueTrigger:  # noqa: ANN401
    thresholds = GivenThresholds(delta_count=delta_count, delta_ratio=Off.OFF)
    condition = CompactionNeeded(table=table, thresholds=thresholds)
    arguments = {"hive_acid_conn_id": "hms", "poll_interval_s": 60.0, "refire_after_s": 3600.0}
    return CompactionDueTrigger(condition=condition.to_json(), **(arguments | settings))


def _trigger(store: AssetStore | None = None) -> CompactionDueTrigger:
    trigger = _trigger_of(str(_REF))
    trigger.asset_state_store = store  # type: ignore[assignment]  # what the triggerer injects
    return trigger


def _fired(trigger: CompactionDueTrigger, *polls: Callable[[], Poll]) -> list[int]:
    """The numbers of the polls that sent an event, from 1."""
    number = 0

    async def stream() -> AsyncIterator[Poll]:
        nonlocal number
        for poll in polls:
            number += 1
            yield poll()

    async def follow() -> list[int]:
        return [number async for _ in trigger.filter_shared_stream(stream())]

    return asyncio.run(follow())


def _after(watched: _Watched, *actions: Callable[[], Any]) -> Callable[[], Poll]:
    """A poll right after some actions."""

    def poll() -> Poll:
        for action in actions:
            action()
        return watched.poll()

    return poll


def test_a_table_gets_only_one_event_while_it_is_due(watched: _Watched) -> None:
    watched.write(2)
    again = _after(watched, watched.write)
    assert _fired(_trigger(), watched.poll, watched.poll, again) == [1]


def test_a_poll_imports_thrift_and_arrow_outside_the_event_loop(
    watched: _Watched, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections.add("hms", "hive_acid_metastore", extra={"uris": METASTORE_URI})
    importers: defaultdict[str, set[str]] = defaultdict(set)
    real = builtins.__import__

    def noting(name: str, *more: Any) -> Any:  # noqa: ANN401 - Python's
        importers[name].add(threading.current_thread().name.partition("_")[0])
        return real(name, *more)

    async def first_event() -> None:
        await anext(_trigger().run())

    watched.write(2)
    monkeypatch.setattr(builtins, "__import__", noting)
    asyncio.run(first_event())
    for module in ("watch.health", "metastore.client"):
        assert importers[f"airflow_hiveacid.{module}"] == {"hiveacid-poll"}


def test_a_table_that_is_due_again_when_its_compaction_ends_gets_a_second_event(
    watched: _Watched,
) -> None:
    watched.write(2)
    begun = _after(watched, watched.begin_compaction, watched.write)
    ended = _after(watched, watched.end_compaction, lambda: watched.write(2))
    again = _after(watched, watched.write)
    assert _fired(_trigger(), watched.poll, begun, ended, again) == [1, 3]


def test_a_recreated_table_gets_a_new_event(watched: _Watched) -> None:
    store = AssetStore()
    watched.write(3)
    new = _after(watched, watched.create_again, lambda: watched.write(2))
    assert _fired(_trigger(store), watched.poll, new, watched.poll) == [1, 2]
    assert _fired(_trigger(store), watched.poll) == []
    assert _fired(_trigger(store), new) == [1]


def test_events_are_sent_with_one_warning_if_the_compaction_queue_cannot_be_read(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def deny(*_: object) -> None:
        raise MetastoreCallError(method="show_compact", reason="permission denied")

    monkeypatch.setattr(watched.client, "show_compactions", deny)
    watched.write(2)
    again = _after(watched, watched.create_again, lambda: watched.write(2))
    assert _fired(_trigger(), watched.poll, watched.poll, again, watched.poll) == [1, 3]
    told = [r.getMessage() for r in caplog.records if "permission denied" in r.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("demo.t: cannot read the compaction queue")


def test_the_compaction_queue_is_not_read_again_before_the_next_write(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    queue = watched.client.show_compactions
    monkeypatch.setattr(
        watched.client, "show_compactions", lambda ref: (asked.append(ref), queue(ref))[1]
    )
    watched.write(2)
    failed = _after(watched, watched.fail_compaction)
    trigger = _trigger()
    assert _fired(trigger, watched.poll, watched.poll, failed, watched.poll) == [1]
    assert len(asked) == 1
    assert _fired(trigger, _after(watched, watched.write)) == [1]


def test_a_temporary_failure_to_read_the_queue_causes_no_second_event(watched: _Watched) -> None:
    watched.fail_compaction()
    broken = MetastoreCallError(method="show_compact", reason="the database is busy")
    watched.client.server.break_next("show_compactions", broken, is_done=False)
    watched.write(2)
    again = _after(watched, watched.write)
    assert _fired(_trigger(), watched.poll, again, again) == [1]


def test_an_older_compaction_that_ends_after_a_newer_one_sends_an_event(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.write(2)
    watched.begin_compaction()
    (older,) = watched.client.show_compactions(_REF)
    other = replace(older, entry_id=2, state=CompactionState.SUCCEEDED)

    def show(state: CompactionState) -> Callable[[], None]:
        entries = (replace(older, state=state), other)
        return lambda: monkeypatch.setattr(watched.client, "show_compactions", lambda _: entries)

    both = _after(watched, show(CompactionState.WORKING))
    still = _after(watched, watched.write)
    ended = _after(watched, show(CompactionState.FAILED))
    store = AssetStore()
    assert _fired(_trigger(store), both, still) == [1]
    assert _fired(_trigger(store), still, ended, watched.poll, still) == [2]


def test_the_commit_of_a_long_transaction_counts_as_a_write(watched: _Watched) -> None:
    watched.write(2)
    txn_id = watched.begin_write()
    watched.write(2)  # not counted, because a lower write is open
    failed = _after(watched, watched.fail_compaction)
    committed = _after(watched, lambda: watched.client.commit_txn(txn_id))
    assert _fired(_trigger(), watched.poll, failed, committed, watched.poll) == [1, 3]


@in_event_loop
async def test_the_event_has_the_newest_write_id_even_if_its_transaction_is_open(
    watched: _Watched,
) -> None:
    watched.write(2)
    watched.begin_write()

    async def stream() -> AsyncIterator[Poll]:
        yield watched.poll()

    event = await anext(_trigger().filter_shared_stream(stream()))
    assert event.payload["write_id"] == 3


def test_no_event_is_lost_if_the_asset_store_fails_once(watched: _Watched) -> None:
    class Store(AssetStore):
        failures = 1

        async def adelete(self, key: str) -> None:
            if self.failures:
                self.failures -= 1
                raise ConnectionError
            await super().adelete(key)

    watched.write(2)
    # No entry of the queue shows the compaction, as on Hive 3.1.
    compacted = _after(watched, watched.compact_outside_the_queue)
    again = _after(watched, lambda: watched.write(2))
    store = Store()
    assert _fired(_trigger(store), watched.poll, compacted, watched.poll) == [1]
    assert _fired(_trigger(store), again, watched.poll) == [1]


def test_the_asset_store_is_read_once_and_written_only_when_the_stored_event_changes(
    watched: _Watched,
) -> None:
    calls: list[str] = []

    class Store(AssetStore):
        async def aget(self, key: str) -> Any:  # noqa: ANN401
            calls.append("get")
            return await super().aget(key)

        async def aset(self, key: str, value: object) -> None:
            calls.append("set")
            await super().aset(key, value)

        async def adelete(self, key: str) -> None:
            calls.append("delete")
            await super().adelete(key)

    write = _after(watched, watched.write)
    compacted = _after(watched, watched.compact_outside_the_queue)
    assert _fired(_trigger(Store()), write, write, write, compacted, write) == [2]
    assert calls == ["get", "set", "delete"]


def test_a_recreated_table_is_measured_even_if_it_has_the_write_ids_of_the_dropped_one(
    watched: _Watched,
) -> None:
    watched.write(2)
    watched.compact_outside_the_queue()
    missing = _after(watched, lambda: watched.client.drop_table(_REF))
    again = _after(watched, watched.create, lambda: watched.write(3))
    assert _fired(_trigger(), watched.poll, missing, again) == [3]


def test_a_table_that_was_not_due_is_measured_again_after_the_refire_interval(
    watched: _Watched,
) -> None:
    def poll_after(s: float) -> Callable[[], Poll]:
        return lambda: watched.poll(time.monotonic() + s)

    watched.write(2)
    watched.compact_outside_the_queue()
    again = _after(watched, watched.create_again, lambda: watched.write(3))  # the same write IDs
    polls = (watched.poll, again, poll_after(3590.0), poll_after(3600.0))
    assert _fired(_trigger(), *polls) == [4]


def test_a_poll_that_began_before_the_last_measurement_ended_is_ignored(watched: _Watched) -> None:
    watched.write()
    began_s = time.monotonic()

    def stale() -> Poll:
        watched.write()
        return watched.poll(began_s)

    assert _fired(_trigger(), watched.poll, stale, watched.poll) == [3]


def test_switching_automatic_compaction_on_again_sends_an_event_without_a_write(
    watched: _Watched,
) -> None:
    def switch(value: str | None) -> None:
        watched.client.set_table_parameters(_REF, {NO_AUTO_COMPACTION: value})

    watched.write(2)
    off = _after(watched, lambda: switch("true"))
    on = _after(watched, lambda: switch(None))
    assert _fired(_trigger(), off, watched.poll, on) == [3]


@pytest.mark.parametrize(("own", "given", "poll"), [("3", None, 2), ("3", 2, 1), ("x", 3, 2)])
def test_without_a_threshold_the_watcher_uses_the_tables_own(
    watched: _Watched, own: str, given: int | None, poll: int
) -> None:
    watched.client.set_table_parameters(_REF, {COUNT_PARAMETER: own})
    watched.write(2)
    trigger = _trigger_of("demo.t", delta_count=given)
    assert _fired(trigger, watched.poll, _after(watched, watched.write)) == [poll]


@pytest.mark.parametrize("note", [{"write_id": 2, "at_s": 1.0, "from_a_later_release": 0}, "?"])
def test_an_unreadable_stored_event_is_treated_as_no_event(watched: _Watched, note: object) -> None:
    store = AssetStore(firing=note)
    watched.write(2)
    assert _fired(_trigger(store), watched.poll, watched.poll) == [1]
    assert _fired(_trigger(store), watched.poll) == []


def test_the_queue_state_is_that_of_the_newest_ended_compaction(watched: _Watched) -> None:
    assert queue_state(watched.client, _REF) == (0, False)
    watched.fail_compaction()
    first, _ = queue_state(watched.client, _REF)
    watched.fail_compaction()
    second, is_compacting = queue_state(watched.client, _REF)
    assert 0 < first < second
    assert not is_compacting
    watched.begin_compaction()
    assert queue_state(watched.client, _REF) == (second, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": CompactionState.DID_NOT_INITIATE},
        {"compaction_type": CompactionType.ABORT_TXN_CLEANUP},
    ],
)
def test_a_refused_compaction_or_a_cleanup_of_aborted_transactions_sends_no_event(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    watched.write(2)
    watched.fail_compaction()
    (entry,) = watched.client.show_compactions(_REF)
    other = replace(entry, **changes)
    monkeypatch.setattr(watched.client, "show_compactions", lambda *_: [other])
    assert queue_state(watched.client, _REF) == (0, False)
    again = _after(watched, watched.write)
    assert _fired(_trigger(), watched.poll, again) == [1]


def test_a_compaction_in_an_unknown_state_is_treated_as_not_ended(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.write(2)
    watched.begin_compaction()
    (entry,) = watched.client.show_compactions(_REF)

    def show(state: CompactionState) -> Callable[[], None]:
        entries = [replace(entry, state=state)]
        return lambda: monkeypatch.setattr(watched.client, "show_compactions", lambda *_: entries)

    odd = _after(watched, show(CompactionState.received("resting")), watched.write)
    ended = _after(watched, show(CompactionState.SUCCEEDED), watched.write)
    assert _fired(_trigger(), watched.poll, odd, ended) == [1, 3]


def test_the_event_is_stored_before_it_is_sent(watched: _Watched) -> None:
    watched.write(2)
    store = AssetStore()

    async def until_killed() -> dict[str, Any]:
        async def stream() -> AsyncIterator[Poll]:
            yield watched.poll()

        await anext(_trigger(store).filter_shared_stream(stream()))
        return dict(store)  # the triggerer is killed while it handles the event

    assert asyncio.run(until_killed())["firing"]["write_id"] == 2
    assert _fired(_trigger(store), _after(watched, watched.write)) == []


@in_event_loop
async def test_the_event_names_the_partitions_with_the_most_deltas_first(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = tuple(
        DueDirectory(
            health=TableHealth(
                table="demo.t", location="/t", partition=f"month={month}", deltas=deltas
            ),
            reached=(Exceeded(threshold=Threshold.DELTA_COUNT, measured=deltas, limit=2),),
        )
        for month, deltas in ((1, 3), (2, 7), (3, 5))
    )
    need = CompactionNeed(table="demo.t", table_id="1", healths=(), due=due)
    monkeypatch.setattr("airflow_hiveacid.watch.health.compaction_need", lambda *_: need)

    async def stream() -> AsyncIterator[Poll]:
        yield watched.poll()

    event = (await anext(_trigger().filter_shared_stream(stream()))).payload
    assert [one["partition"] for one in event["partitions"]] == ["month=2", "month=3", "month=1"]
    assert (event["due"], event["why"]) == (3, "7 delta directories (threshold 2)")


# ---- the shared poll -----------------------------------------------------------------------------


class _SharedPoll:
    """The shared poll of some triggers, as the triggerer opens it; time does not pass.

    `outcomes` are what the polls return, or the errors that they raise.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.slept_s: list[float] = []
        self.asked: list[tuple[str, list[str]]] = []
        monkeypatch.setattr("airflow_hiveacid.watch.compaction_due._poll", self._poll)
        monkeypatch.setattr("airflow_hiveacid.watch.compaction_due.asyncio", self)

    async def sleep(self, s: float) -> None:
        self.slept_s.append(s)

    async def _poll(self, conn_id: str, tables: tuple[TableRef, ...]) -> object:
        self.asked.append((conn_id, sorted(map(str, tables))))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@in_event_loop
async def test_the_shared_poll_continues_after_every_error_and_backs_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = [ValueError("?"), MetastoreCallError(method="m", reason="?"), *[OSError("?")] * 6]
    shared = _SharedPoll(monkeypatch, "one", *errors, "two", OSError("?"), "three")
    trigger = _trigger()
    with trigger._watching():
        stream = trigger.open_shared_stream(trigger.serialize()[1])
        assert [await anext(stream) for _ in range(3)] == ["one", "two", "three"]
    doubled = [120.0, 240.0, 480.0, 960.0, 1920.0, 1920.0, 1920.0, 1920.0]
    assert shared.slept_s == [60.0, *doubled, 60.0, 120.0]


@in_event_loop
async def test_a_shared_poll_requests_the_tables_of_all_running_triggers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = _SharedPoll(monkeypatch, *range(5))
    first, twin, other = _trigger(), _trigger(), _trigger_of("demo.u")
    stream = first.open_shared_stream(first.serialize()[1])
    with other._watching():
        with first._watching():
            with twin._watching():
                await anext(stream)
            await anext(stream)
        await anext(stream)
    with first._watching():
        await anext(stream)
    both, only_other, only_first = ["demo.t", "demo.u"], ["demo.u"], ["demo.t"]
    assert shared.asked == [("hms", tables) for tables in (both, both, only_other, only_first)]


@in_event_loop
async def test_without_a_shared_poll_a_trigger_polls_only_its_own_table(
    watched: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below 3.3, Airflow calls `run` of each trigger."""
    watched.write(2)
    shared = _SharedPoll(monkeypatch, watched.poll())
    with _trigger_of("demo.u")._watching():
        await anext(_trigger().run())
    assert shared.asked == [("hms", ["demo.t"])]


@in_event_loop
async def test_a_shared_poll_without_triggers_does_not_call_the_metastore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = _SharedPoll(monkeypatch, "one")
    trigger = _trigger()
    waits = iter((False, False, True))

    async def sleep(s: float) -> None:
        shared.slept_s.append(s)
        if next(waits):
            watching.enter_context(trigger._watching())

    monkeypatch.setattr(shared, "sleep", sleep)
    with contextlib.ExitStack() as watching:
        assert await anext(trigger.open_shared_stream(trigger.serialize()[1])) == "one"
    assert shared.slept_s == [0.1, 0.1, 0.1]


def test_triggers_share_a_poll_if_connection_database_and_interval_are_equal() -> None:
    key = _trigger().shared_stream_key()
    assert _trigger_of("demo.u", delta_count=9, refire_after_s=1.0).shared_stream_key() == key
    others = (
        _trigger_of("other.t"),
        _trigger_of("demo.t", hive_acid_conn_id="other"),
        _trigger_of("demo.t", poll_interval_s=61.0),
    )
    assert len({key, *(other.shared_stream_key() for other in others)}) == 4

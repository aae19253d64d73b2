"""A compaction whose queue entry is withdrawn stops, and publishes nothing."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CompactionCancelledError,
    MetastoreVersionError,
    TransactionAbortedError,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionEntry,
    CompactionState,
    CompactionType,
    our_pool,
)
from airflow_hiveacid.metastore.transactions.compaction_work import cancel_compactions, compacting
from airflow_hiveacid.writing.publish import Replacement
from tests.contract.bench import wait_until
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import compact, insert, there, values, without_spark

ON_4 = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
AUTO, MAJOR = CompactionChoice.AUTO, CompactionChoice.MAJOR


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)


@pytest.fixture
def filled(client: FakeClient, table: TableInfo) -> TableInfo:
    for value in (1, 2, 3):
        insert(client, table, value)
    return table


def at_work(client: FakeClient, table: TableInfo) -> CompactionEntry:
    (entry,) = [one for one in client.show_compactions(table.ref) if one.is_at_work]
    return entry


def change(client: FakeClient, table: TableInfo, **changes: object) -> None:
    entry = at_work(client, table)
    assert entry.entry_id is not None
    client.server.queue[entry.entry_id] = dataclasses.replace(entry, **changes)  # type: ignore[arg-type]


INITIATED, ABORTED = CompactionState.INITIATED, CompactionState.ABORTED
WAYS: Final[dict[str, Callable[[FakeClient, TableInfo], object]]] = {
    "refused": lambda client, table: cancel_compactions(client, table.ref),
    "aborted": lambda client, table: change(client, table, state=ABORTED),  # Hive 4.1
    "initiated": lambda client, table: change(client, table, state=INITIATED, worker_id=None),
    "working": lambda client, table: change(client, table, worker_id="hive-7"),
}


@ON_4
@pytest.mark.promise("C21")
@pytest.mark.parametrize("step", ["staged", "reads_locked"])
@pytest.mark.parametrize("state", WAYS)
def test_a_compaction_whose_entry_is_withdrawn_publishes_nothing(
    client: FakeClient, filled: TableInfo, state: str, step: str
) -> None:
    def withdraw(reached: str) -> None:
        if reached == step:
            WAYS[state](client, filled)

    before = there(filled, "")
    with pytest.raises(CompactionCancelledError, match=f"in the queue is {state}") as caught:
        compact(client, filled, MAJOR, withdraw)
    assert not caught.value.retryable
    assert [name for name in there(filled, "") if name != "_hiveacid"] == before
    assert not client.valid_txns().open
    assert client.show_locks() == ()
    assert values(client, filled) == [1, 2, 3]


@ON_4
@pytest.mark.parametrize("state", WAYS)
def test_a_cancelled_compaction_leaves_other_entries_alone_and_the_next_one_succeeds(
    client: FakeClient, filled: TableInfo, state: str
) -> None:
    def withdraw(reached: str) -> None:
        if reached == "staged":
            WAYS[state](client, filled)

    with pytest.raises(CompactionCancelledError):
        compact(client, filled, MAJOR, withdraw)
    if state == "working":  # the other worker's
        assert at_work(client, filled).worker_id == "hive-7"
        change(client, filled, state=CompactionState.FAILED)
    assert compact(client, filled, MAJOR).done
    assert values(client, filled) == [1, 2, 3]


@ON_4
def test_a_compaction_that_is_cancelled_while_it_publishes_is_committed(
    client: FakeClient, filled: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base is valid as soon as it is renamed, so an error would be wrong."""
    publish = Replacement.publish

    def withdraw_then(self: Replacement) -> None:
        cancel_compactions(client, filled.ref)
        publish(self)

    monkeypatch.setattr(Replacement, "publish", withdraw_then)
    assert compact(client, filled, MAJOR).done
    assert there(filled, "base_") == ["base_0000003"]
    assert values(client, filled) == [1, 2, 3]


@ON_4
def test_a_compaction_that_is_cancelled_after_its_commit_stays_done(
    client: FakeClient, filled: TableInfo
) -> None:
    cancelled = []

    def cancel(reached: str) -> None:
        if reached == "committed":
            cancelled.append(cancel_compactions(client, filled.ref))

    assert compact(client, filled, MAJOR, cancel).done
    assert cancelled == [()]  # its cleaning needs the entry
    (entry,) = client.show_compactions(filled.ref)
    assert entry.state is CompactionState.READY_FOR_CLEANING
    assert values(client, filled) == [1, 2, 3]


@ON_4
def test_a_request_that_a_cancelled_compaction_has_replaced_is_not_repeated(
    client: FakeClient, filled: TableInfo
) -> None:
    client.request_compaction(filled.ref, None, CompactionType.MAJOR)

    def withdraw(reached: str) -> None:
        if reached == "staged":
            cancel_compactions(client, filled.ref)

    with pytest.raises(CompactionCancelledError):
        compact(client, filled, AUTO, withdraw)
    assert {one.state for one in client.show_compactions(filled.ref)} == {CompactionState.REFUSED}


@ON_4
@pytest.mark.promise("C21")
def test_the_next_heartbeat_stops_the_tasks_of_a_cancelled_compaction(
    client: FakeClient, filled: TableInfo, clock: ManualClock
) -> None:
    stopped = threading.Event()

    def run() -> None:
        with compacting(
            client,
            job_terms("k", clock=clock, on_lost=stopped.set),
            table=filled,
            partition=None,
            compaction_type=CompactionType.MAJOR,
        ) as work:
            assert work.refusal is None
            clock.advance(10.0)
            wait_until(lambda: len(client.server.beats) == 1)
            assert not stopped.is_set()
            cancel_compactions(client, filled.ref)
            clock.advance(10.0)
            assert stopped.wait(30)  # which cancels the Spark jobs
            raise RuntimeError("the tasks were cancelled")

    with pytest.raises(CompactionCancelledError, match=r"refused \(cancelled by"):
        run()
    assert not client.valid_txns().open


@ON_4
def test_a_transaction_that_was_aborted_is_reported_as_aborted(
    client: FakeClient, filled: TableInfo
) -> None:
    """The next run then refuses the entry, although no user has cancelled it."""

    def abort(reached: str) -> None:
        if reached == "staged":
            cancel_compactions(client, filled.ref)
            for txn_id in client.valid_txns().open:
                client.abort_txn(txn_id)

    with pytest.raises(TransactionAbortedError):
        compact(client, filled, MAJOR, abort)


@ON_4
def test_cancelling_ends_waiting_and_running_entries_of_one_table_or_partition(
    client: FakeClient, table: TableInfo
) -> None:
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=our_pool(uuid4()))
    assert [one.state for one in cancel_compactions(client, table.ref)] == [INITIATED]
    client.request_compaction(table.ref, None, CompactionType.MINOR)
    client.find_next_compaction("hive-7", worker_version="4.0.1")
    (ended,) = cancel_compactions(client, table.ref)
    assert (ended.worker_id, ended.state) == ("hive-7", CompactionState.WORKING)
    assert cancel_compactions(client, table.ref) == ()
    assert "cancelled by" in str(client.show_compactions(table.ref)[0].error_message)


@pytest.mark.parametrize("server", [MetastoreGeneration.V3], indirect=True)
def test_no_compaction_of_3_1_can_be_cancelled(client: FakeClient, table: TableInfo) -> None:
    client.request_compaction(table.ref, None, CompactionType.MINOR)
    with pytest.raises(MetastoreVersionError, match="Kill the task"):
        cancel_compactions(client, table.ref)


@ON_4
def test_a_cancelled_compaction_is_reported_as_cancelled_even_if_its_transaction_timed_out_since(
    client: FakeClient, filled: TableInfo, clock: ManualClock
) -> None:
    """No heartbeat follows after the one that finds it cancelled."""

    def run() -> None:
        with compacting(
            client,
            job_terms("k", clock=clock),
            table=filled,
            partition=None,
            compaction_type=CompactionType.MAJOR,
        ) as work:
            cancel_compactions(client, filled.ref)
            clock.advance(10.0)
            wait_until(lambda: work.txn.lost is not None)
            client.abort_txn(work.txn.txn_id)
            work.txn.confirm_alive()

    with pytest.raises(CompactionCancelledError):
        run()

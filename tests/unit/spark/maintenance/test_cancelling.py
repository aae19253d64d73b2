"""A compaction whose queue entry is withdrawn stops, and publishes nothing."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import uuid4

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CompactionCancelledError,
    MetastoreVersionError,
    TransactionAbortedError,
)
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
from tests.contract.manual_clock import ManualClock
from tests.support.steps import act_before, at
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import Rig

ON_4 = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
AUTO, MAJOR = CompactionChoice.AUTO, CompactionChoice.MAJOR


def at_work(rig: Rig) -> CompactionEntry:
    (entry,) = [one for one in rig.client.show_compactions(rig.ref) if one.is_at_work]
    return entry


def change(rig: Rig, **changes: object) -> None:
    entry = at_work(rig)
    assert entry.entry_id is not None
    rig.server.queue[entry.entry_id] = dataclasses.replace(entry, **changes)  # type: ignore[arg-type]


INITIATED, ABORTED = CompactionState.INITIATED, CompactionState.ABORTED
WAYS: Final[dict[str, Callable[[Rig], object]]] = {
    "refused": lambda rig: cancel_compactions(rig.client, rig.ref),
    "aborted": lambda rig: change(rig, state=ABORTED),  # Hive 4.1
    "initiated": lambda rig: change(rig, state=INITIATED, worker_id=None),
    "working": lambda rig: change(rig, worker_id="hive-7"),
}


@ON_4
@pytest.mark.promise("C21")
@pytest.mark.parametrize("step", ["staged", "reads_locked"])
@pytest.mark.parametrize("state", WAYS)
def test_a_compaction_whose_entry_is_withdrawn_publishes_nothing(
    filled: Rig, state: str, step: str
) -> None:
    before = filled.there("")
    with pytest.raises(CompactionCancelledError, match=f"in the queue is {state}") as caught:
        filled.compact(MAJOR, at(step, lambda: WAYS[state](filled)))
    assert not caught.value.retryable
    assert [name for name in filled.there("") if name != "_hiveacid"] == before
    assert not filled.client.valid_txns().open
    assert filled.client.show_locks() == ()
    assert filled.values == [1, 2, 3]


@ON_4
@pytest.mark.parametrize("state", WAYS)
def test_a_cancelled_compaction_leaves_other_entries_alone_and_the_next_one_succeeds(
    filled: Rig, state: str
) -> None:
    with pytest.raises(CompactionCancelledError):
        filled.compact(MAJOR, at("staged", lambda: WAYS[state](filled)))
    if state == "working":  # the other worker's
        assert at_work(filled).worker_id == "hive-7"
        change(filled, state=CompactionState.FAILED)
    assert filled.compact(MAJOR).done
    assert filled.values == [1, 2, 3]


@ON_4
def test_a_compaction_that_is_cancelled_while_it_publishes_is_committed(
    filled: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base is valid as soon as it is renamed, so an error would be wrong."""
    cancel = partial(cancel_compactions, filled.client, filled.ref)
    act_before(monkeypatch, Replacement, "publish", lambda _: cancel())
    assert filled.compact(MAJOR).done
    assert filled.there("base_") == ["base_0000003"]
    assert filled.values == [1, 2, 3]


@ON_4
def test_a_compaction_that_is_cancelled_after_its_commit_stays_done(filled: Rig) -> None:
    cancelled = []
    cancel = partial(cancel_compactions, filled.client, filled.ref)
    assert filled.compact(MAJOR, at("committed", lambda: cancelled.append(cancel()))).done
    assert cancelled == [()]  # its cleaning needs the entry
    (entry,) = filled.client.show_compactions(filled.ref)
    assert entry.state is CompactionState.READY_FOR_CLEANING
    assert filled.values == [1, 2, 3]


@ON_4
def test_a_request_that_a_cancelled_compaction_has_replaced_is_not_repeated(filled: Rig) -> None:
    filled.request()
    withdraw = partial(cancel_compactions, filled.client, filled.ref)
    with pytest.raises(CompactionCancelledError):
        filled.compact(AUTO, at("staged", withdraw))
    assert {one.state for one in filled.client.show_compactions(filled.ref)} == {
        CompactionState.REFUSED
    }


@ON_4
@pytest.mark.promise("C21")
def test_the_next_heartbeat_stops_the_tasks_of_a_cancelled_compaction(
    filled: Rig, clock: ManualClock
) -> None:
    stopped = threading.Event()

    def run() -> None:
        with compacting(
            filled.client,
            job_terms("k", clock=clock, on_lost=stopped.set),
            table=filled.table,
            partition=None,
            compaction_type=CompactionType.MAJOR,
        ) as work:
            assert work.refusal is None
            clock.advance(10.0)
            wait_until(lambda: len(filled.server.beats) == 1)
            assert not stopped.is_set()
            cancel_compactions(filled.client, filled.ref)
            clock.advance(10.0)
            assert stopped.wait(30)  # which cancels the Spark jobs
            raise RuntimeError("the tasks were cancelled")

    with pytest.raises(CompactionCancelledError, match=r"refused \(cancelled by"):
        run()
    assert not filled.client.valid_txns().open


@ON_4
def test_a_transaction_that_was_aborted_is_reported_as_aborted(filled: Rig) -> None:
    """The next run then refuses the entry, although no user has cancelled it."""

    def abort(reached: str) -> None:
        if reached == "staged":
            cancel_compactions(filled.client, filled.ref)
            filled.abort_open()

    with pytest.raises(TransactionAbortedError):
        filled.compact(MAJOR, abort)


@ON_4
def test_cancelling_ends_waiting_and_running_entries_of_one_table_or_partition(rig: Rig) -> None:
    rig.request(CompactionType.MAJOR, our_pool(uuid4()))
    assert [one.state for one in cancel_compactions(rig.client, rig.ref)] == [INITIATED]
    rig.request(CompactionType.MINOR)
    rig.client.find_next_compaction("hive-7", worker_version="4.0.1")
    (ended,) = cancel_compactions(rig.client, rig.ref)
    assert (ended.worker_id, ended.state) == ("hive-7", CompactionState.WORKING)
    assert cancel_compactions(rig.client, rig.ref) == ()
    assert "cancelled by" in str(rig.client.show_compactions(rig.ref)[0].error_message)


@pytest.mark.parametrize("server", [MetastoreGeneration.V3], indirect=True)
def test_no_compaction_of_3_1_can_be_cancelled(rig: Rig) -> None:
    rig.request(CompactionType.MINOR)
    with pytest.raises(MetastoreVersionError, match="Kill the task"):
        cancel_compactions(rig.client, rig.ref)


@ON_4
def test_a_cancelled_compaction_is_reported_as_cancelled_even_if_its_transaction_timed_out_since(
    filled: Rig, clock: ManualClock
) -> None:
    """No heartbeat follows after the one that finds it cancelled."""

    def run() -> None:
        with compacting(
            filled.client,
            job_terms("k", clock=clock),
            table=filled.table,
            partition=None,
            compaction_type=CompactionType.MAJOR,
        ) as work:
            cancel_compactions(filled.client, filled.ref)
            clock.advance(10.0)
            wait_until(lambda: work.txn.lost is not None)
            filled.client.abort_txn(work.txn.txn_id)
            work.txn.confirm_alive()

    with pytest.raises(CompactionCancelledError):
        run()

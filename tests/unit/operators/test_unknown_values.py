"""Types and states of a newer metastore are shown as they are wherever its lists are used."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from airflow_hiveacid.format.conflicts import LockState, LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import KeepingRefusedError
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs import metastore_statements as statements
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.compaction_planner import plan_tables
from airflow_hiveacid.maintenance.overview import Overview, with_past
from airflow_hiveacid.maintenance.removal import ready_entries
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionEntry,
    CompactionState,
    CompactionType,
    our_pool,
    our_worker_id,
)
from airflow_hiveacid.metastore.definitions.statements import answer
from airflow_hiveacid.metastore.entry_status import EntryStatus
from airflow_hiveacid.metastore.locks import LockInfo
from airflow_hiveacid.metastore.port import OpenTxn, TxnState
from airflow_hiveacid.metastore.transactions.compaction_work import (
    cancel_compactions,
    end_dead_entries,
)
from airflow_hiveacid.operators.reporting.findings import lock_findings
from airflow_hiveacid.operators.reporting.survey import survey
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.versions.keeping import keep
from airflow_hiveacid.watch.compactions import queue_state
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore

SMART, RESTING = CompactionType.received("type 5"), CompactionState.received("resting")
_V4 = pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)


@pytest.fixture
def entry(client: FakeClient, table: TableInfo) -> CompactionEntry:
    """A waiting entry of an unknown type."""
    number = client.request_compaction(table.ref, None, CompactionType.MAJOR).entry_id or 0
    found = replace(client.server.queue[number], compaction_type=SMART)
    client.server.queue[number] = found
    return found


@pytest.fixture
def locks(client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> list[LockInfo]:
    """A lock of an unknown type, one in an unknown state, and one of a reader."""
    one = LockInfo(
        lock_id=LockId(1),
        txn_id=TxnId(1),
        db=table.ref.db,
        table=table.ref.name,
        partition=None,
        state=LockState.ACQUIRED,
        lock_type=LockType.received("type 9"),
        user="u",
        host="h",
        agent_info="",
    )
    shared = replace(one, lock_id=LockId(2), lock_type=LockType.SHARED_READ)
    every = [one, replace(shared, state=LockState.received("state 8")), shared]
    monkeypatch.setattr(client, "show_locks", lambda *_, **__: tuple(every))
    return every


def test_the_collector_shows_unknown_types_and_states(
    client: FakeClient, entry: CompactionEntry, locks: list[LockInfo], table: TableInfo
) -> None:
    resting = replace(entry, entry_id=7, compaction_type=CompactionType.MINOR, state=RESTING)
    client.server.queue[7] = resting
    found = survey(client, ["default.*"], GivenThresholds())
    assert [row[3:5] for row in found.queue] == [["type 5", "initiated"], ["minor", "resting"]]
    (numbers,) = found.numbers
    assert (numbers.row.table, numbers.row.state) == (str(table.ref), "waiting")
    assert [lock[2:4] for lock in numbers.details["locks"]] == [  # type: ignore[index, union-attr]
        [lock.lock_type.value, lock.state.value] for lock in locks
    ]


def test_locks_of_unknown_types_and_in_unknown_states_may_delay_a_compaction(
    locks: list[LockInfo],
) -> None:
    found = [finding.what for finding in lock_findings(locks, frozenset())]
    assert [what.partition(" on ")[0] for what in found] == ["type 9", "shared_read"]
    assert "state 8" in found[1]


@_V4
def test_a_warehouse_compaction_by_queue_skips_an_entry_of_an_unknown_type(
    client: FakeClient, entry: CompactionEntry, table: TableInfo
) -> None:
    spec = CompactSpec(tables=("default.*",), choice=CompactionChoice.QUEUED, plan_only=True)
    skipped = plan_tables(client, spec).skipped
    assert (
        f"only Hive's workers can serve compaction {entry.entry_id} (type 5"
        in skipped[str(table.ref)]
    )


@_V4
def test_the_status_of_an_entry_of_an_unknown_type_names_the_command_that_ends_it(
    client: FakeClient, entry: CompactionEntry, table: TableInfo
) -> None:
    status = EntryStatus(entry=entry, txns=client.valid_txns(), generation=client.generation)
    assert "(type 5" in status.what
    assert status.remedy == (
        f"check Hive's compaction workers, or end it with `cancel {table.ref}`"
    )
    (ended,) = cancel_compactions(client, table.ref)
    assert ended.compaction_type is SMART


def test_queries_of_the_metastore_show_unknown_values(
    client: FakeClient,
    entry: CompactionEntry,
    locks: list[LockInfo],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    txn = OpenTxn(txn_id=TxnId(1), state=TxnState.received("state 7"), user="u", host="h")
    monkeypatch.setattr(client, "open_txns_info", lambda: (txn,))
    (compaction,) = answer(client, statements.ShowCompactions())
    assert (compaction["id"], compaction["type"]) == (entry.entry_id, "type 5")
    found = answer(client, statements.ShowLocks())
    assert [row["type"] for row in found] == [lock.lock_type.value for lock in locks]
    assert found[1]["state"] == "state 8"
    (shown,) = answer(client, statements.ShowTransactions())
    assert shown["state"] == "state 7"


def test_the_queue_counts_an_unknown_state_as_not_ended(
    client: FakeClient, entry: CompactionEntry, table: TableInfo
) -> None:
    number = entry.entry_id or 0
    client.server.queue[number] = replace(entry, state=RESTING)
    assert queue_state(client, table.ref).is_compacting
    with pytest.raises(KeepingRefusedError, match="resting"):
        keep(client, table)


def test_a_cleaner_keeps_the_note_of_a_compaction_in_an_unknown_state(
    client: FakeClient, server: FakeMetastore, entry: CompactionEntry, table: TableInfo
) -> None:
    number, notes = entry.entry_id or 0, TableNotes.of(table)
    notes.note_highest_write_id(number, WriteId(3))
    server.queue[number] = replace(entry, state=RESTING)
    with_past(client, table, plan_only=False)
    assert notes.highest_write_id(number) == 3
    server.queue[number] = replace(entry, state=RESTING, ended_s=5.0)
    with_past(client, table, plan_only=False)
    assert notes.highest_write_id(number) is None


@_V4
def test_a_server_without_the_calls_of_workers_keeps_the_entries_of_its_queue(
    client: FakeClient, server: FakeMetastore, table: TableInfo
) -> None:
    number = client.request_compaction(table.ref, None, CompactionType.MAJOR).entry_id or 0
    ready = replace(server.queue[number], state=CompactionState.READY_FOR_CLEANING)
    server.queue[number] = ready
    (whole,) = client.list_partitions(table)
    assert ready_entries(client, table, whole) == [ready]
    assert Overview.of(client, table).waiting == {None}
    server.missing_calls = ("add_write_ids_to_min_history",)
    assert ready_entries(client, table, whole) == []
    assert Overview.of(client, table).waiting == frozenset()


@_V4
@pytest.mark.parametrize("state", ["state 8", "acquired", None])
def test_a_worker_whose_lock_is_in_an_unknown_state_is_not_taken_for_dead(
    client: FakeClient,
    locks: list[LockInfo],
    table: TableInfo,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
) -> None:
    pool = our_pool(uuid.uuid4())
    client.request_compaction(table.ref, None, CompactionType.MAJOR, pool=pool)
    assert client.find_next_compaction(our_worker_id("key"), worker_version="1", pool=pool)
    lock = replace(locks[0], state=LockState.received(state or ""))
    monkeypatch.setattr(client, "show_locks", lambda *_, **__: (lock,) if state else ())
    end_dead_entries(client, table.ref)
    (entry,) = client.show_compactions(table.ref)
    assert entry.is_at_work is (state is not None)

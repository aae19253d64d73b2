from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionEntry,
    CompactionState,
    CompactionType,
)
from airflow_hiveacid.metastore.entry_status import EntryStatus, statuses

V3, V4 = MetastoreGeneration.V3, MetastoreGeneration.V4
WORKING, READY = CompactionState.WORKING, CompactionState.READY_FOR_CLEANING
ENTRY = CompactionEntry(
    entry_id=7,
    table=TableRef("d", "t"),
    partition=PartitionName.parse("p=1"),
    compaction_type=CompactionType.MAJOR,
    state=WORKING,
    worker_id="hivehost-42",
    initiator_id="ann-host",
    txn_id=TxnId(5),
)
TXNS = ValidTxnList(
    high_watermark=TxnId(9), open=(TxnId(8),), aborted=(TxnId(5),), min_open=TxnId(8)
)


def status(entry: CompactionEntry, generation: MetastoreGeneration = V4) -> EntryStatus:
    return EntryStatus(entry=entry, txns=TXNS, generation=generation)


@pytest.mark.parametrize("state", [WORKING, READY])
def test_an_entry_whose_transaction_was_aborted_is_dead(state: CompactionState) -> None:
    assert str(status(replace(ENTRY, state=state))) == (
        "compaction 7 (major, by worker hivehost-42) of p=1 has no result, because its transaction"
        " 5 was aborted; `clean d.t`, `compact d.t` or `cancel d.t` ends the entry"
    )


def test_an_entry_is_not_dead_if_its_transaction_may_be_open_or_committed() -> None:
    alive = [
        replace(ENTRY, txn_id=TxnId(8)),
        replace(ENTRY, txn_id=TxnId(10)),  # opened after the transactions were read
        replace(ENTRY, txn_id=None),
        replace(ENTRY, next_txn_id=TxnId(6)),
        # Its commit may leave no mark, and its transaction may be forgotten.
        replace(ENTRY, txn_id=TxnId(4), compaction_type=CompactionType.REBALANCE),
        replace(ENTRY, state=CompactionState.REFUSED),
        # After a time-out or a restart, the server lets the entry wait again, and keeps the
        # aborted transaction of its former worker.
        replace(ENTRY, state=CompactionState.INITIATED, worker_id=None),
    ]
    assert not [entry for entry in alive if entry.is_dead(TXNS)]


def test_an_aborted_transaction_that_the_metastore_has_forgotten_is_recognized() -> None:
    assert replace(ENTRY, txn_id=TxnId(4)).is_dead(TXNS)


def test_the_remedy_fits_the_state_of_the_entry() -> None:
    remedies = {
        "`cancel d.t`": replace(ENTRY, txn_id=TxnId(8)),
        "`abort 8`": replace(ENTRY, state=READY, txn_id=TxnId(8)),
        "ends the entry when no reader": replace(ENTRY, state=READY, next_txn_id=TxnId(6)),
        "check Hive's compaction workers": replace(
            ENTRY, state=CompactionState.INITIATED, txn_id=None
        ),
        "the metastore's cleaner": replace(
            ENTRY, state=READY, txn_id=None, compaction_type=CompactionType.ABORT_TXN_CLEANUP
        ),
    }
    for remedy, entry in remedies.items():
        assert remedy in status(entry).remedy


def test_no_transaction_is_said_to_be_open_or_to_be_aborted_that_is_not() -> None:
    ready = replace(ENTRY, state=READY, worker_id=None)
    # Hive's rebalance commits without a mark.
    rebalance = replace(ready, txn_id=TxnId(4), compaction_type=CompactionType.REBALANCE)
    assert str(status(rebalance)) == (
        "compaction 7 (rebalance, by ann-host) of p=1 waits for cleaning, after its transaction 4"
        " ended; check that the metastore's cleaner runs"
    )
    # The upgrade of a 3.1 keeps its queue, which has no transactions.
    upgraded = replace(ready, txn_id=None)
    assert str(status(upgraded)) == (
        "compaction 7 (major, by ann-host) of p=1 waits for cleaning, without a known transaction;"
        " check that the metastore's cleaner runs"
    )
    assert "`abort 10`" in status(replace(ready, txn_id=TxnId(10))).remedy


def test_a_transaction_that_is_the_newest_of_the_list_is_not_said_to_be_open() -> None:
    newest = replace(ENTRY, state=READY, txn_id=TxnId(9), compaction_type=CompactionType.REBALANCE)
    assert str(status(newest)).endswith(
        "after its transaction 9 ended; check that the metastore's cleaner runs"
    )


def test_a_committed_entry_whose_worker_died_is_not_said_to_be_in_progress() -> None:
    assert str(status(replace(ENTRY, next_txn_id=TxnId(6)))).endswith(
        "is committed, but its worker died before it could mark the entry; `clean d.t` ends the"
        " entry when no reader needs the replaced files"
    )


def test_no_command_of_ours_is_named_for_an_unknown_state() -> None:
    unknown = replace(ENTRY, state=CompactionState.received("new one"), txn_id=TxnId(8))
    assert str(status(unknown)).endswith(
        "is in the unknown state 'new one'; only Hive's own workers and cleaner can end it, so"
        " check that they run"
    )


def test_on_3_1_only_the_server_can_end_an_entry() -> None:
    entry = replace(ENTRY, state=READY, txn_id=None)
    assert "done and waits for cleaning; only Hive 3.1's own" in str(status(entry, V3))


def test_a_text_for_the_stored_findings_names_no_user_and_no_host() -> None:
    entries = [replace(ENTRY, txn_id=txn_id) for txn_id in (TxnId(5), TxnId(8), None)]
    entries.append(replace(ENTRY, state=CompactionState.SUCCEEDED))
    found = statuses(entries, TXNS, V4, names_owners=False)
    assert len(found) == 3
    assert not [text for text in map(str, found) if "host" in text]

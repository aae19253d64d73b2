from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    MetastoreCallError,
    MetastoreUnavailableError,
    TransactionAbortedError,
)
from airflow_hiveacid.metastore.commit import Fate, commit, fate_of
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.metastore.txn_values import TxnState
from contract.bench import access

if TYPE_CHECKING:
    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.transaction import Transaction
    from contract.fake_client import FakeClient
    from contract.fake_metastore import FakeMetastore
    from contract.manual_clock import ManualClock

INSERT, SELECT = DataOperation.INSERT, DataOperation.SELECT


def lost(method: str) -> MetastoreUnavailableError:
    return MetastoreUnavailableError(uris=("thrift://hms:9083",), method=method, reason="cut off")


def write(client: FakeClient, table: TableInfo, clock: ManualClock) -> Transaction:
    with begin(
        client, job_key="job", writes=[access(table, INSERT)], lock_timeout_s=5, clock=clock
    ) as txn:
        pass
    return txn


def aborts(server: FakeMetastore) -> list[TxnId]:
    return [i for i, txn in server.txns.items() if txn.state is TxnState.ABORTED]


def test_a_commit_whose_answer_was_lost_after_it_was_done_has_happened(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    server.break_next("commit_txn", lost("commit_txn"), is_done=True)
    txn = write(client, table, clock)
    assert fate_of(client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert aborts(server) == []


def test_a_commit_that_did_not_arrive_is_sent_again(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    server.break_next("commit_txn", lost("commit_txn"), is_done=False)
    txn = write(client, table, clock)
    assert fate_of(client, txn.txn_id, txn.write_ids) is Fate.COMMITTED


@pytest.mark.parametrize("is_done", [True, False])
def test_an_internal_error_is_no_answer_either(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    *,
    is_done: bool,
) -> None:
    error = MetastoreCallError(method="commit_txn", reason="Internal error processing commit_txn")
    server.break_next("commit_txn", error, is_done=is_done)
    txn = write(client, table, clock)
    assert fate_of(client, txn.txn_id, txn.write_ids) is Fate.COMMITTED


def test_a_commit_that_stays_unknown_says_so_and_undoes_nothing(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    server.break_next("commit_txn", lost("commit_txn"), is_done=True)

    def work() -> None:
        with begin(
            client, job_key="job", writes=[access(table, INSERT)], lock_timeout_s=5, clock=clock
        ):
            for _ in range(50):
                server.break_next("valid_txns", lost("valid_txns"), is_done=False)

    began_s = clock.monotonic()
    with pytest.raises(CommitStateUnknownError, match="may or may not be committed"):
        work()
    assert clock.monotonic() - began_s == pytest.approx(10.0, abs=5.0)
    assert aborts(server) == []


def test_a_transaction_that_was_aborted_before_its_commit_arrived_is_told_as_aborted(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def work() -> None:
        with begin(
            client, job_key="job", writes=[access(table, INSERT)], lock_timeout_s=5, clock=clock
        ) as txn:
            server.break_next("commit_txn", lost("commit_txn"), is_done=False)
            server.end(server.txns[txn.txn_id], TxnState.ABORTED)

    with pytest.raises(TransactionAbortedError, match="before the commit arrived"):
        work()


def test_the_first_request_may_win_while_we_ask(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    txn_id = client.open_txn()
    write_ids = {table.ref: client.allocate_write_id(txn_id, table.ref)}
    asked: list[str] = []
    valid_txns = client.valid_txns

    class Slow(type(client)):  # type: ignore[misc]
        def valid_txns(self) -> object:
            answer = valid_txns()
            if not asked:
                # It was still on its way when we looked, and 3.1 forgets an empty one at once.
                server.commit(txn_id, shared_write=True)
            asked.append("valid_txns")
            return answer

    server.break_next("commit_txn", lost("commit_txn"), is_done=False)
    commit(Slow(server), txn_id, write_ids, patience_s=5, clock=clock)
    is_v3 = server.generation is MetastoreGeneration.V3
    assert len(asked) == (2 if is_v3 else 1)


def test_a_reader_whose_commit_was_lost_has_ended_either_way(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    for is_done in (True, False):
        server.break_next("commit_txn", lost("commit_txn"), is_done=is_done)
        with begin(
            client, job_key=None, reads=[access(table, SELECT)], lock_timeout_s=5, clock=clock
        ):
            pass
    assert client.valid_txns().open == ()
    assert client.show_locks() == ()


def test_a_lock_whose_answer_was_lost_goes_with_its_transaction(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    server.break_next("lock", lost("lock"), is_done=True)
    with pytest.raises(MetastoreUnavailableError):
        write(client, table, clock)
    assert client.show_locks() == ()
    assert client.valid_txns().open == ()


@pytest.mark.parametrize(
    "method",
    ["allocate_write_id", "lock", "show_locks", "valid_txns", "add_write_ids_to_min_history"],
)
def test_whatever_breaks_before_the_body_leaves_nothing_open(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    method: str,
) -> None:
    server.break_next(method, lost(method), is_done=False)
    with pytest.raises(MetastoreUnavailableError):
        write(client, table, clock)
    assert client.valid_txns().open == ()
    assert client.show_locks() == ()


def test_an_abort_that_fails_does_not_hide_why_it_was_tried(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def work() -> None:
        with begin(
            client, job_key="job", writes=[access(table, INSERT)], lock_timeout_s=5, clock=clock
        ):
            server.break_next("abort_txn", lost("abort_txn"), is_done=False)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        work()

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    MetastoreCallError,
    MetastoreLoginError,
    MetastoreUnavailableError,
    TransactionAbortedError,
)
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.commit import Fate, commit, fate_of
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from tests.contract.bench import access
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

INSERT, SELECT = DataOperation.INSERT, DataOperation.SELECT


def lost(method: str) -> MetastoreUnavailableError:
    return MetastoreUnavailableError(uris=("thrift://hms:9083",), method=method, reason="cut off")


def write(client: FakeClient, table: TableInfo, clock: ManualClock) -> MetastoreTransaction:
    with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]) as txn:
        pass
    return txn


def aborts(server: FakeMetastore) -> list[TxnId]:
    return [i for i, txn in server.txns.items() if txn.state is TxnState.ABORTED]


def test_a_commit_with_a_lost_response_is_found_to_be_committed(
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


def test_one_table_that_lists_the_write_as_aborted_proves_that_the_transaction_aborted(
    server: FakeMetastore, client: FakeClient, table: TableInfo, partitioned: TableInfo
) -> None:
    class Forgetful(type(client)):  # type: ignore[misc]
        """Of one table, the server has already forgotten the abort."""

        def valid_write_ids(
            self, refs: Iterable[TableRef], txns: ValidTxnList
        ) -> dict[TableRef, ValidWriteIdList]:
            found = client.valid_write_ids(refs, txns)
            return {**found, table.ref: replace(found[table.ref], aborted=())}

    txn_id = client.open_txn()
    write_ids = {t.ref: client.allocate_write_id(txn_id, t.ref) for t in (table, partitioned)}
    server.end(server.txns[txn_id], TxnState.ABORTED)
    assert fate_of(Forgetful(server), txn_id, write_ids) is Fate.ABORTED


@pytest.mark.parametrize("is_done", [True, False])
def test_a_write_id_missing_from_the_list_is_not_treated_as_aborted(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    *,
    is_done: bool,
) -> None:
    """4.0.1 ends its list at an aborted write ID if it has no more records of committed ones."""
    write(client, table, clock)
    dead = client.open_txn()
    client.allocate_write_id(dead, table.ref)
    client.abort_txn(dead)
    server.clean_write_ids()
    server.break_next("commit_txn", lost("commit_txn"), is_done=is_done)
    txn = write(client, table, clock)
    assert fate_of(client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert aborts(server) == [dead]


def test_an_abort_is_detected_even_if_the_list_omits_its_write_id(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """As above: the list ends at an earlier aborted write ID and omits ours."""
    write(client, table, clock)
    for _ in range(2):
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, table.ref)
        server.end(server.txns[txn_id], TxnState.ABORTED)
    server.clean_write_ids()
    assert fate_of(client, txn_id, {table.ref: write_id}) is Fate.ABORTED


def test_a_commit_above_a_lower_open_write_id_is_not_treated_as_aborted(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """A later transaction has a lower write ID: 4.0.1 ends its list there and omits ours."""
    slow: list[TxnId] = []
    taken_back: list[str] = []

    def overtake(step: str) -> None:
        if step == "opened":
            slow.append(client.open_txn())
            client.allocate_write_id(slow[0], table.ref)

    class Late(type(client)):  # type: ignore[misc]
        """The server tidies up before it can be asked."""

        def valid_txns(self) -> ValidTxnList:
            if is_sent:
                server.clean_write_ids()
            return client.valid_txns()

    is_sent = False
    with begin(
        Late(server), job_terms(clock=clock, on_step=overtake), writes=[access(table, INSERT)]
    ) as txn:
        txn.on_abort(lambda: taken_back.append("rows"))
        server.break_next("commit_txn", lost("commit_txn"), is_done=True)
        is_sent = True
    assert taken_back == []
    assert server.txns[txn.txn_id].state is TxnState.COMMITTED


def test_a_lagging_metastore_that_does_not_know_the_transaction_raises_an_error(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """A replica that lags behind has neither the transaction nor its write ID yet."""
    txn = write(client, table, clock)

    class Behind(type(client)):  # type: ignore[misc]
        def valid_txns(self) -> ValidTxnList:
            return replace(client.valid_txns(), high_watermark=txn.txn_id - 1)

    with pytest.raises(MetastoreCallError, match="does not know"):
        fate_of(Behind(server), txn.txn_id, txn.write_ids)


@pytest.mark.parametrize("is_done", [True, False])
def test_an_internal_error_on_commit_is_treated_like_a_lost_response(
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


def test_an_unknown_commit_state_raises_an_error_and_aborts_nothing(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    server.break_next("commit_txn", lost("commit_txn"), is_done=True)

    def work() -> None:
        with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]):
            for _ in range(50):
                server.break_next("valid_txns", lost("valid_txns"), is_done=False)

    began_s = clock.monotonic()
    with pytest.raises(CommitStateUnknownError, match="may or may not be committed"):
        work()
    assert clock.monotonic() - began_s == pytest.approx(10.0, abs=5.0)
    assert aborts(server) == []


def test_a_transaction_aborted_before_its_commit_arrived_is_reported_as_aborted(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def work() -> None:
        with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]) as txn:
            server.break_next("commit_txn", lost("commit_txn"), is_done=False)
            server.end(server.txns[txn.txn_id], TxnState.ABORTED)

    with pytest.raises(TransactionAbortedError, match="before the commit arrived"):
        work()


@pytest.mark.parametrize("silent_s", [21, 3600])
def test_a_commit_checked_too_late_is_reported_as_unknown_and_not_as_committed(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock, silent_s: int
) -> None:
    def stand_still() -> None:
        """Given up, cleaned up after, and forgotten, while the process did not run."""
        clock.advance(silent_s)
        server.reap()
        for txn in server.txns.values():
            txn.is_forgotten = txn.state is TxnState.ABORTED

    class Frozen(type(client)):  # type: ignore[misc]
        def commit_txn(self, txn_id: TxnId) -> None:
            del txn_id
            stand_still()
            raise lost("commit_txn")

    txn_id = client.open_txn()
    write_ids = {table.ref: client.allocate_write_id(txn_id, table.ref)}
    with pytest.raises(CommitStateUnknownError, match=f"checked {silent_s} s after"):
        commit(Frozen(server), txn_id, write_ids, patience_s=10, clock=clock, timeout_s=20)


def test_a_delayed_commit_that_arrives_during_the_check_is_found(
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
                server.commit(txn_id)
            asked.append("valid_txns")
            return answer

    server.break_next("commit_txn", lost("commit_txn"), is_done=False)
    commit(Slow(server), txn_id, write_ids, patience_s=5, clock=clock)
    is_v3 = server.generation is MetastoreGeneration.V3
    assert len(asked) == (2 if is_v3 else 1)


def test_a_reader_with_a_lost_commit_response_leaves_no_open_transaction_or_lock(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    for is_done in (True, False):
        server.break_next("commit_txn", lost("commit_txn"), is_done=is_done)
        with begin(client, job_terms(None, clock=clock), reads=[access(table, SELECT)]):
            pass
    assert client.valid_txns().open == ()
    assert client.show_locks() == ()


def test_a_lock_with_a_lost_response_is_released_with_its_aborted_transaction(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    server.break_next("lock", lost("lock"), is_done=True)
    txn = write(client, table, clock)
    assert client.show_locks() == ()
    assert client.valid_txns().open == ()
    assert client.valid_txns().aborted == (txn.txn_id - 1,)


@pytest.mark.parametrize(
    "method",
    ["allocate_write_id", "lock", "show_locks", "valid_txns", "add_write_ids_to_min_history"],
)
def test_a_failed_call_before_the_body_leaves_no_open_transaction_or_lock(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    method: str,
) -> None:
    for _ in range(20):
        server.break_next(method, lost(method), is_done=False)
    with pytest.raises(MetastoreUnavailableError):
        write(client, table, clock)
    server.faults.clear()
    assert client.valid_txns().open == ()
    assert client.show_locks() == ()


@pytest.mark.parametrize("method", ["allocate_write_id", "lock", "show_locks"])
def test_a_short_outage_of_the_metastore_does_not_fail_the_opening(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock, method: str
) -> None:
    server.break_next(method, lost(method), is_done=False)
    txn = write(client, table, clock)
    assert fate_of(client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert client.valid_txns().open == ()


def test_a_failed_abort_does_not_hide_the_original_error(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def work() -> None:
        with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]):
            server.break_next("abort_txn", lost("abort_txn"), is_done=False)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        work()


# ---- a login that is refused where the commit is to be sent --------------------------------------


def refused() -> MetastoreLoginError:
    return MetastoreLoginError(uris=("thrift://hms:9083",), reason="the password was changed")


def refusing(client: FakeClient, times: int) -> FakeClient:
    """The same, to whom nobody listens so many times from the commit on."""
    left = [times]

    class Refused(type(client)):  # type: ignore[misc]
        def commit_txn(self, txn_id: TxnId) -> None:
            self._knock()
            super().commit_txn(txn_id)

        def valid_txns(self) -> ValidTxnList:
            if left[0] < times:
                self._knock()
            return super().valid_txns()

        def _knock(self) -> None:
            if left[0]:
                left[0] -= 1
                raise refused()

    return Refused(client.server)


def test_a_commit_refused_at_login_raises_a_login_error_and_commits_nothing(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    with pytest.raises(MetastoreLoginError, match="was changed"):
        write(refusing(client, 10**6), table, clock)
    assert [txn.state for txn in server.txns.values()] == [TxnState.OPEN]


def test_a_login_renewed_in_time_lets_the_commit_succeed(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    txn = write(refusing(client, 3), table, clock)
    assert fate_of(client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert aborts(server) == []


def test_a_transaction_forgotten_before_its_commit_is_sent_is_reported_as_aborted(
    server: FakeMetastore, client: FakeClient, clock: ManualClock
) -> None:
    """An aborted transaction that is forgotten looks like a committed one."""
    txn_id = client.open_txn()
    server.end(server.txns[txn_id], TxnState.ABORTED)
    server.forget_empty_transactions()
    assert fate_of(client, txn_id, {}) is Fate.COMMITTED
    with pytest.raises(TransactionAbortedError):
        commit(refusing(client, 1), txn_id, {}, patience_s=5, clock=clock)


def test_a_transaction_forgotten_while_its_commit_is_sent_is_reported_as_aborted(
    server: FakeMetastore, client: FakeClient, clock: ManualClock
) -> None:
    """It was open before its commit was sent, and no other client can have committed it."""

    class GivenUp(type(client)):  # type: ignore[misc]
        sent = 0

        def commit_txn(self, txn_id: TxnId) -> None:
            self.sent += 1
            if self.sent == 1:
                raise refused()
            server.end(server.txns[txn_id], TxnState.ABORTED)
            server.forget_empty_transactions()
            super().commit_txn(txn_id)

    txn_id = client.open_txn()
    asking = GivenUp(server)
    with pytest.raises(TransactionAbortedError):
        commit(asking, txn_id, {}, patience_s=5, clock=clock)
    assert asking.sent == 2
    assert fate_of(client, txn_id, {}) is Fate.COMMITTED


@pytest.mark.parametrize("is_done", [True, False])
def test_a_refused_login_after_a_lost_commit_response_leaves_the_outcome_unknown(
    server: FakeMetastore, client: FakeClient, clock: ManualClock, *, is_done: bool
) -> None:
    class LostThenRefused(type(client)):  # type: ignore[misc]
        def commit_txn(self, txn_id: TxnId) -> None:
            if is_done:
                super().commit_txn(txn_id)
            raise lost("commit_txn")

        def valid_txns(self) -> ValidTxnList:
            raise refused()

    txn_id = client.open_txn()
    with pytest.raises(CommitStateUnknownError, match="was changed"):
        commit(LostThenRefused(server), txn_id, {}, patience_s=5, clock=clock)

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
from tests.contract.fake_client import FakeClient
from tests.unit.metastore.transactions.conftest import Lab, lost

INSERT, SELECT = DataOperation.INSERT, DataOperation.SELECT
INTERNAL = MetastoreCallError(method="commit_txn", reason="Internal error processing commit_txn")


def aborts(lab: Lab) -> list[TxnId]:
    return [i for i, txn in lab.server.txns.items() if txn.state is TxnState.ABORTED]


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("error", [lost("commit_txn"), INTERNAL], ids=["lost", "internal"])
def test_a_commit_with_a_lost_response_or_an_internal_error_takes_effect_once(
    lab: Lab, error: Exception, *, is_done: bool
) -> None:
    lab.server.break_next("commit_txn", error, is_done=is_done)
    txn = lab.job()
    assert fate_of(lab.client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert aborts(lab) == []


def test_one_table_that_lists_the_write_as_aborted_proves_that_the_transaction_aborted(
    lab: Lab, partitioned: TableInfo
) -> None:
    class Forgetful(type(lab.client)):  # type: ignore[misc]
        """Of one table, the server has already forgotten the abort."""

        def valid_write_ids(
            self, refs: Iterable[TableRef], txns: ValidTxnList
        ) -> dict[TableRef, ValidWriteIdList]:
            found = lab.client.valid_write_ids(refs, txns)
            return {**found, lab.table.ref: replace(found[lab.table.ref], aborted=())}

    txn_id = lab.client.open_txn()
    write_ids = {
        t.ref: lab.client.allocate_write_id(txn_id, t.ref) for t in (lab.table, partitioned)
    }
    lab.server.end(lab.server.txns[txn_id], TxnState.ABORTED)
    assert fate_of(Forgetful(lab.server), txn_id, write_ids) is Fate.ABORTED


@pytest.mark.parametrize("is_done", [True, False])
def test_a_write_id_missing_from_the_list_is_not_treated_as_aborted(
    lab: Lab, *, is_done: bool
) -> None:
    """4.0.1 ends its list at an aborted write ID if it has no more records of committed ones."""
    lab.job()
    dead, _ = lab.open_write()
    lab.client.abort_txn(dead)
    lab.server.clean_write_ids()
    lab.lose("commit_txn", is_done=is_done)
    txn = lab.job()
    assert fate_of(lab.client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert aborts(lab) == [dead]


def test_an_abort_is_detected_even_if_the_list_omits_its_write_id(lab: Lab) -> None:
    """As above: the list ends at an earlier aborted write ID and omits ours."""
    lab.job()
    for _ in range(2):
        txn_id, write_id = lab.open_write()
        lab.server.end(lab.server.txns[txn_id], TxnState.ABORTED)
    lab.server.clean_write_ids()
    assert fate_of(lab.client, txn_id, {lab.table.ref: write_id}) is Fate.ABORTED


def test_a_commit_above_a_lower_open_write_id_is_not_treated_as_aborted(lab: Lab) -> None:
    """A later transaction has a lower write ID: 4.0.1 ends its list there and omits ours."""
    taken_back: list[str] = []

    def overtake(step: str) -> None:
        if step == "opened":
            lab.open_write()

    class Late(type(lab.client)):  # type: ignore[misc]
        """The server tidies up before it can be asked."""

        def valid_txns(self) -> ValidTxnList:
            if is_sent:
                lab.server.clean_write_ids()
            return lab.client.valid_txns()

    is_sent = False
    with lab.begin(INSERT, client=Late(lab.server), on_step=overtake) as txn:
        txn.on_abort(lambda: taken_back.append("rows"))
        lab.lose("commit_txn", is_done=True)
        is_sent = True
    assert taken_back == []
    assert lab.server.txns[txn.txn_id].state is TxnState.COMMITTED


def test_a_lagging_metastore_that_does_not_know_the_transaction_raises_an_error(lab: Lab) -> None:
    """A replica that lags behind has neither the transaction nor its write ID yet."""
    txn = lab.job()

    class Behind(type(lab.client)):  # type: ignore[misc]
        def valid_txns(self) -> ValidTxnList:
            return replace(lab.client.valid_txns(), high_watermark=txn.txn_id - 1)

    with pytest.raises(MetastoreCallError, match="does not know"):
        fate_of(Behind(lab.server), txn.txn_id, txn.write_ids)


def test_an_unknown_commit_state_raises_an_error_and_aborts_nothing(lab: Lab) -> None:
    lab.lose("commit_txn", is_done=True)

    def work() -> None:
        with lab.begin(INSERT):
            for _ in range(50):
                lab.lose("valid_txns", is_done=False)

    began_s = lab.clock.monotonic()
    with pytest.raises(CommitStateUnknownError, match="may or may not be committed"):
        work()
    assert lab.clock.monotonic() - began_s == pytest.approx(10.0, abs=5.0)
    assert aborts(lab) == []


def test_a_transaction_aborted_before_its_commit_arrived_is_reported_as_aborted(lab: Lab) -> None:
    def work() -> None:
        with lab.begin(INSERT) as txn:
            lab.lose("commit_txn", is_done=False)
            lab.server.end(lab.server.txns[txn.txn_id], TxnState.ABORTED)

    with pytest.raises(TransactionAbortedError, match="before the commit arrived"):
        work()


@pytest.mark.parametrize("silent_s", [21, 3600])
def test_a_commit_checked_too_late_is_reported_as_unknown_and_not_as_committed(
    lab: Lab, silent_s: int
) -> None:
    def stand_still() -> None:
        """Given up, cleaned up after, and forgotten, while the process did not run."""
        lab.clock.advance(silent_s)
        lab.server.reap()
        for txn in lab.server.txns.values():
            txn.is_forgotten = txn.state is TxnState.ABORTED

    class Frozen(type(lab.client)):  # type: ignore[misc]
        def commit_txn(self, txn_id: TxnId) -> None:
            del txn_id
            stand_still()
            raise lost("commit_txn")

    txn_id, write_id = lab.open_write()
    with pytest.raises(CommitStateUnknownError, match=f"checked {silent_s} s after"):
        commit(
            Frozen(lab.server),
            txn_id,
            {lab.table.ref: write_id},
            patience_s=10,
            clock=lab.clock,
            timeout_s=20,
        )


def test_a_delayed_commit_that_arrives_during_the_check_is_found(lab: Lab) -> None:
    txn_id, write_id = lab.open_write()
    asked: list[str] = []
    valid_txns = lab.client.valid_txns

    class Slow(type(lab.client)):  # type: ignore[misc]
        def valid_txns(self) -> object:
            answer = valid_txns()
            if not asked:
                # It was still on its way when we looked, and 3.1 forgets an empty one at once.
                lab.server.commit(txn_id)
            asked.append("valid_txns")
            return answer

    lab.lose("commit_txn", is_done=False)
    commit(Slow(lab.server), txn_id, {lab.table.ref: write_id}, patience_s=5, clock=lab.clock)
    is_v3 = lab.server.generation is MetastoreGeneration.V3
    assert len(asked) == (2 if is_v3 else 1)


def test_a_reader_with_a_lost_commit_response_leaves_no_open_transaction_or_lock(lab: Lab) -> None:
    for is_done in (True, False):
        lab.lose("commit_txn", is_done=is_done)
        with lab.begin(SELECT, job_key=None):
            pass
    assert lab.client.valid_txns().open == ()
    assert lab.client.show_locks() == ()


def test_a_lock_with_a_lost_response_is_released_with_its_aborted_transaction(lab: Lab) -> None:
    lab.lose("lock", is_done=True)
    txn = lab.job()
    assert lab.client.show_locks() == ()
    assert lab.client.valid_txns().open == ()
    assert lab.client.valid_txns().aborted == (txn.txn_id - 1,)


@pytest.mark.parametrize(
    "method",
    ["allocate_write_id", "lock", "show_locks", "valid_txns", "add_write_ids_to_min_history"],
)
def test_a_failed_call_before_the_body_leaves_no_open_transaction_or_lock(
    lab: Lab, method: str
) -> None:
    for _ in range(20):
        lab.lose(method, is_done=False)
    with pytest.raises(MetastoreUnavailableError):
        lab.job()
    lab.server.faults.clear()
    assert lab.client.valid_txns().open == ()
    assert lab.client.show_locks() == ()


@pytest.mark.parametrize("method", ["allocate_write_id", "lock", "show_locks"])
def test_a_short_outage_of_the_metastore_does_not_fail_the_opening(lab: Lab, method: str) -> None:
    lab.lose(method, is_done=False)
    txn = lab.job()
    assert fate_of(lab.client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert lab.client.valid_txns().open == ()


def test_a_failed_abort_does_not_hide_the_original_error(lab: Lab) -> None:
    def work() -> None:
        with lab.begin(INSERT):
            lab.lose("abort_txn", is_done=False)
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


def test_a_commit_refused_at_login_raises_a_login_error_and_commits_nothing(lab: Lab) -> None:
    with pytest.raises(MetastoreLoginError, match="was changed"):
        lab.job(refusing(lab.client, 10**6))
    assert [txn.state for txn in lab.server.txns.values()] == [TxnState.OPEN]


def test_a_login_renewed_in_time_lets_the_commit_succeed(lab: Lab) -> None:
    txn = lab.job(refusing(lab.client, 3))
    assert fate_of(lab.client, txn.txn_id, txn.write_ids) is Fate.COMMITTED
    assert aborts(lab) == []


def test_a_transaction_forgotten_before_its_commit_is_sent_is_reported_as_aborted(lab: Lab) -> None:
    """An aborted transaction that is forgotten looks like a committed one."""
    txn_id = lab.client.open_txn()
    lab.server.end(lab.server.txns[txn_id], TxnState.ABORTED)
    lab.server.forget_empty_transactions()
    assert fate_of(lab.client, txn_id, {}) is Fate.COMMITTED
    with pytest.raises(TransactionAbortedError):
        commit(refusing(lab.client, 1), txn_id, {}, patience_s=5, clock=lab.clock)


def test_a_transaction_forgotten_while_its_commit_is_sent_is_reported_as_aborted(lab: Lab) -> None:
    """It was open before its commit was sent, and no other client can have committed it."""

    class GivenUp(type(lab.client)):  # type: ignore[misc]
        sent = 0

        def commit_txn(self, txn_id: TxnId) -> None:
            self.sent += 1
            if self.sent == 1:
                raise refused()
            lab.server.end(lab.server.txns[txn_id], TxnState.ABORTED)
            lab.server.forget_empty_transactions()
            super().commit_txn(txn_id)

    txn_id = lab.client.open_txn()
    asking = GivenUp(lab.server)
    with pytest.raises(TransactionAbortedError):
        commit(asking, txn_id, {}, patience_s=5, clock=lab.clock)
    assert asking.sent == 2
    assert fate_of(lab.client, txn_id, {}) is Fate.COMMITTED


@pytest.mark.parametrize("is_done", [True, False])
def test_a_refused_login_after_a_lost_commit_response_leaves_the_outcome_unknown(
    lab: Lab, *, is_done: bool
) -> None:
    class LostThenRefused(type(lab.client)):  # type: ignore[misc]
        def commit_txn(self, txn_id: TxnId) -> None:
            if is_done:
                super().commit_txn(txn_id)
            raise lost("commit_txn")

        def valid_txns(self) -> ValidTxnList:
            raise refused()

    txn_id = lab.client.open_txn()
    with pytest.raises(CommitStateUnknownError, match="was changed"):
        commit(LostThenRefused(lab.server), txn_id, {}, patience_s=5, clock=lab.clock)

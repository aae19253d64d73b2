from __future__ import annotations

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation, LockState
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.locks import LockRequest, LockResponse, components_for
from airflow_hiveacid.metastore.transactions.lock_wait import acquire
from tests.contract.bench import Started, access, start
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock

OVERWRITE, UPDATE = DataOperation.OVERWRITE, DataOperation.UPDATE


@pytest.fixture
def holder(client: FakeClient, table: TableInfo) -> Started:
    return start(client, access(table, OVERWRITE))


@pytest.fixture
def request_(client: FakeClient, table: TableInfo) -> LockRequest:
    components = components_for([], [access(table, UPDATE)], client.generation)
    return LockRequest(txn_id=client.open_txn(), components=components, agent_info="me")


def wait(client: FakeClient, request: LockRequest, clock: ManualClock) -> LockResponse:
    return acquire(client, request, timeout_s=10.0, clock=clock, on_enqueued=lambda: False)


@pytest.mark.promise("L5")
def test_a_lock_request_that_times_out_is_withdrawn_and_its_transaction_remains_open(
    client: FakeClient, holder: Started, request_: LockRequest, clock: ManualClock
) -> None:
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(client, request_, clock)
    assert {lock.txn_id for lock in client.show_locks()} == {holder.txn_id}
    assert request_.txn_id in client.valid_txns().open
    assert caught.value.waited_s == pytest.approx(10.0)
    assert "exclusive on default.t" in caught.value.holders


def test_pauses_between_lock_checks_double_up_to_a_limit_and_end_at_the_timeout(
    client: FakeClient, holder: Started, request_: LockRequest, clock: ManualClock
) -> None:
    with pytest.raises(errors.LockNotAcquiredError):
        wait(client, request_, clock)
    assert clock.slept_s[:7] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0])
    assert max(clock.slept_s) == 2.0
    assert sum(clock.slept_s) == pytest.approx(10.0)
    assert holder.answer.state is LockState.ACQUIRED


def test_a_lock_timeout_is_reported_even_if_the_request_cannot_be_withdrawn(
    server: FakeMetastore,
    client: FakeClient,
    holder: Started,
    request_: LockRequest,
    clock: ManualClock,
) -> None:
    error = errors.MetastoreUnavailableError(uris=(), method="unlock", reason="cut off")
    server.break_next("unlock", error, is_done=False)
    server.break_next("show_locks", error, is_done=False)
    with pytest.raises(errors.LockNotAcquiredError, match="held by: unknown"):
        wait(client, request_, clock)
    assert holder.answer.state is LockState.ACQUIRED


@pytest.mark.parametrize(
    ("state", "expected", "text"),
    [
        (LockState.ABORT, errors.TransactionAbortedError, "while waiting for lock"),
        (LockState.NOT_ACQUIRED, errors.LockNotAcquiredError, "another job writes"),
    ],
)
def test_a_refused_or_aborted_lock_request_ends_the_wait(
    server: FakeMetastore,
    request_: LockRequest,
    clock: ManualClock,
    state: LockState,
    expected: type[Exception],
    text: str,
) -> None:
    class Client(FakeClient):
        def check_lock(self, lock_id: LockId, txn_id: TxnId) -> LockResponse:
            del txn_id
            return LockResponse(lock_id=lock_id, state=state, message="another job writes")

    client = Client(server)
    start(client, access(client.get_table(request_.components[0].table), OVERWRITE))
    with pytest.raises(expected, match=text):
        wait(client, request_, clock)
    assert clock.slept_s == [0.05]

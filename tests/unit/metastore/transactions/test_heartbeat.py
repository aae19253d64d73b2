from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.heartbeat import Heartbeat
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import access, wait_until
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

INSERT = DataOperation.INSERT


@pytest.fixture
def txn_id(client: FakeClient) -> TxnId:
    return client.open_txn()


@pytest.fixture
def heartbeat(client: FakeClient, clock: ManualClock, txn_id: TxnId) -> Iterator[Heartbeat]:
    made = Heartbeat(client.clone(), txn_id, interval_s=10.0, clock=clock)
    made.start()
    yield made
    made.stop()


def beats(server: FakeMetastore) -> list[float]:
    return [at_s for _, at_s in server.beats]


def test_a_heartbeat_is_sent_once_per_interval(
    server: FakeMetastore, clock: ManualClock, heartbeat: Heartbeat
) -> None:
    began_s = clock.monotonic()
    for count in (1, 2, 3):
        clock.advance(9.0)
        assert len(server.beats) == count - 1
        clock.advance(1.0)
        wait_until(lambda count=count: len(server.beats) == count)
    assert beats(server) == [began_s + 10, began_s + 20, began_s + 30]
    assert heartbeat.silent_s == 0.0


def test_no_heartbeat_is_sent_after_the_stop(
    server: FakeMetastore, clock: ManualClock, heartbeat: Heartbeat
) -> None:
    heartbeat.stop()
    clock.advance(100.0)
    assert server.beats == []
    assert not heartbeat._thread.is_alive()


def test_a_failed_heartbeat_is_retried_soon(
    server: FakeMetastore, clock: ManualClock, heartbeat: Heartbeat
) -> None:
    error = errors.MetastoreUnavailableError(uris=(), method="heartbeat", reason="cut off")
    server.break_next("heartbeat", error, is_done=False)
    clock.advance(10.0)
    wait_until(lambda: not server.faults)
    assert server.beats == []
    assert heartbeat.silent_s == 10.0
    wait_until(heartbeat._thread.is_alive)
    clock.advance(1.0)
    wait_until(lambda: len(server.beats) == 1)


def test_a_slow_response_proves_the_transaction_alive_at_the_time_of_its_request(
    client: FakeClient,
    clock: ManualClock,
    heartbeat: Heartbeat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def slow(_: FakeClient, txn_id: TxnId) -> None:
        client.server.alive(txn_id)
        clock.advance(6.0)
        answered.set()

    monkeypatch.setattr(type(client), "heartbeat", slow)
    clock.advance(10.0)
    assert answered.wait(30)
    wait_until(lambda: heartbeat.silent_s < 10.0)
    assert heartbeat.silent_s == 6.0


def test_an_unexpected_error_does_not_stop_the_heartbeats(
    server: FakeMetastore, clock: ManualClock, heartbeat: Heartbeat
) -> None:
    server.break_next("heartbeat", RuntimeError("a bug"), is_done=False)
    clock.advance(10.0)
    wait_until(lambda: not server.faults)
    clock.advance(1.0)
    wait_until(lambda: len(server.beats) == 1)
    assert heartbeat.lost is None


def test_heartbeats_stop_and_keep_the_error_if_the_transaction_is_aborted(
    client: FakeClient, clock: ManualClock, heartbeat: Heartbeat, txn_id: TxnId
) -> None:
    client.abort_txn(txn_id)
    clock.advance(10.0)
    wait_until(lambda: not heartbeat._thread.is_alive())
    assert isinstance(heartbeat.lost, errors.TransactionAbortedError)


def test_a_heartbeat_after_the_commit_raises_no_alarm(
    client: FakeClient,
    clock: ManualClock,
    txn_id: TxnId,
    caplog: pytest.LogCaptureFixture,
) -> None:
    alarms: list[str] = []
    made = Heartbeat(
        client.clone(), txn_id, interval_s=10.0, clock=clock, on_lost=lambda: alarms.append("lost")
    )
    made.start()
    made.expect_the_end()
    client.commit_txn(txn_id)
    clock.advance(10.0)
    wait_until(lambda: not made._thread.is_alive())
    assert (made.lost, alarms, caplog.messages) == (None, [], [])


def test_a_check_is_called_after_each_heartbeat_and_may_end_the_heartbeats(
    server: FakeMetastore, clock: ManualClock, heartbeat: Heartbeat
) -> None:
    answers: list[errors.HiveAcidError | None] = [
        None,
        errors.MetastoreUnavailableError(uris=(), method="show_compact", reason="cut off"),
        errors.CompactionCancelledError(table="t", partition="", entry_id=1, state="gone", why=""),
    ]

    def check(client: object) -> None:
        assert client is heartbeat._client  # the main thread uses the other one
        if (answer := answers.pop(0)) is not None:
            raise answer

    heartbeat.check = check
    clock.advance(10.0)
    wait_until(lambda: len(answers) == 2)
    clock.advance(10.0)
    wait_until(lambda: len(answers) == 1)
    assert (heartbeat.lost, heartbeat.silent_s) == (None, 0.0)
    clock.advance(1.0)  # soon after a failed check
    wait_until(lambda: not heartbeat._thread.is_alive())
    assert isinstance(heartbeat.lost, errors.CompactionCancelledError)
    assert len(server.beats) == 3


@pytest.mark.promise("T18")
@pytest.mark.parametrize(("override_s", "expected_s"), [(None, 10.0), (3.0, 3.0)])
def test_heartbeats_are_sent_at_half_the_metastores_timeout_or_as_configured(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    override_s: float | None,
    expected_s: float,
) -> None:
    with begin(
        client, job_terms(heartbeat_s=override_s, clock=clock), writes=[access(table, INSERT)]
    ):
        began_s = clock.monotonic()
        clock.advance(expected_s)
        wait_until(lambda: len(server.beats) == 1)
        assert beats(server) == [began_s + expected_s]


@pytest.mark.promise("T17")
def test_a_transaction_outlives_its_timeout_only_while_heartbeats_are_sent(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]) as txn:
        for count in range(1, 6):
            clock.advance(10.0)
            wait_until(lambda count=count: len(server.beats) == count)
        txn.ensure_alive()
    silent = client.open_txn()
    clock.advance(21.0)
    with pytest.raises(errors.TransactionAbortedError):
        client.commit_txn(silent)


@pytest.mark.promise("T17")
def test_a_process_that_was_frozen_past_the_timeout_cannot_commit(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def work() -> None:
        with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]):
            # Whatever was frozen wakes up long after the server has given up.
            clock.advance(300.0)

    with pytest.raises(errors.TransactionAbortedError):
        work()
    assert [txn.state for txn in server.txns.values()] == [TxnState.ABORTED]
    assert client.show_locks() == ()


def test_ensure_alive_raises_after_a_heartbeat_noticed_an_abort(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]) as txn:
        client.abort_txn(txn.txn_id)
        txn.ensure_alive()  # nobody has noticed yet
        clock.advance(10.0)
        wait_until(lambda: txn._opened.heartbeat.lost is not None)
        with pytest.raises(errors.TransactionAbortedError):
            txn.ensure_alive()
        txn.abandon()


def test_ensure_alive_calls_the_metastore_after_a_long_silence(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]) as txn:
        txn._opened.heartbeat.stop()
        clock.advance(20.0)
        txn.ensure_alive()
        assert [txn_id for txn_id, _ in server.beats] == [txn.txn_id]


@pytest.mark.promise("T19")
def test_heartbeats_end_with_the_transactions_body_even_after_an_error(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    for error in (None, KeyboardInterrupt()):
        try:
            with begin(client, job_terms(clock=clock), writes=[access(table, INSERT)]) as txn:
                if error is not None:
                    raise error
        except KeyboardInterrupt:
            pass
        assert not txn._opened.heartbeat._thread.is_alive()
    count = len(server.beats)
    clock.advance(100.0)
    assert len(server.beats) == count
    assert client.show_locks() == ()

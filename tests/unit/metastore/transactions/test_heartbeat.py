from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.heartbeat import Heartbeat
from tests.contract.bench import wait_until
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.metastore.transactions.conftest import Lab

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


def test_a_heartbeat_is_sent_once_per_interval(lab: Lab, heartbeat: Heartbeat) -> None:
    began_s = lab.clock.monotonic()
    for count in (1, 2, 3):
        lab.clock.advance(9.0)
        assert len(lab.server.beats) == count - 1
        lab.clock.advance(1.0)
        wait_until(lambda count=count: len(lab.server.beats) == count)
    assert beats(lab.server) == [began_s + 10, began_s + 20, began_s + 30]
    assert heartbeat.silent_s == 0.0


def test_no_heartbeat_is_sent_after_the_stop(lab: Lab, heartbeat: Heartbeat) -> None:
    heartbeat.stop()
    lab.clock.advance(100.0)
    assert lab.server.beats == []
    assert not heartbeat._thread.is_alive()


def test_a_failed_heartbeat_is_retried_soon(lab: Lab, heartbeat: Heartbeat) -> None:
    error = errors.MetastoreUnavailableError(uris=(), method="heartbeat", reason="cut off")
    lab.server.break_next("heartbeat", error, is_done=False)
    lab.clock.advance(10.0)
    wait_until(lambda: not lab.server.faults)
    assert lab.server.beats == []
    assert heartbeat.silent_s == 10.0
    wait_until(heartbeat._thread.is_alive)
    lab.clock.advance(1.0)
    wait_until(lambda: len(lab.server.beats) == 1)


def test_a_slow_response_proves_the_transaction_alive_at_the_time_of_its_request(
    lab: Lab, heartbeat: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def slow(_: FakeClient, txn_id: TxnId) -> None:
        lab.client.server.alive(txn_id)
        lab.clock.advance(6.0)
        answered.set()

    monkeypatch.setattr(type(lab.client), "heartbeat", slow)
    lab.clock.advance(10.0)
    assert answered.wait(30)
    wait_until(lambda: heartbeat.silent_s < 10.0)
    assert heartbeat.silent_s == 6.0


def test_an_unexpected_error_does_not_stop_the_heartbeats(lab: Lab, heartbeat: Heartbeat) -> None:
    lab.server.break_next("heartbeat", RuntimeError("a bug"), is_done=False)
    lab.clock.advance(10.0)
    wait_until(lambda: not lab.server.faults)
    lab.clock.advance(1.0)
    wait_until(lambda: len(lab.server.beats) == 1)
    assert heartbeat.lost is None


def test_heartbeats_stop_and_keep_the_error_if_the_transaction_is_aborted(
    lab: Lab, heartbeat: Heartbeat, txn_id: TxnId
) -> None:
    lab.client.abort_txn(txn_id)
    lab.clock.advance(10.0)
    wait_until(lambda: not heartbeat._thread.is_alive())
    assert isinstance(heartbeat.lost, errors.TransactionAbortedError)


def test_a_heartbeat_after_the_commit_raises_no_alarm(
    lab: Lab, txn_id: TxnId, caplog: pytest.LogCaptureFixture
) -> None:
    alarms: list[str] = []
    made = Heartbeat(
        lab.client.clone(),
        txn_id,
        interval_s=10.0,
        clock=lab.clock,
        on_lost=lambda: alarms.append("lost"),
    )
    made.start()
    made.expect_the_end()
    lab.client.commit_txn(txn_id)
    lab.clock.advance(10.0)
    wait_until(lambda: not made._thread.is_alive())
    assert (made.lost, alarms, caplog.messages) == (None, [], [])


def test_a_check_is_called_after_each_heartbeat_and_may_end_the_heartbeats(
    lab: Lab, heartbeat: Heartbeat
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
    lab.clock.advance(10.0)
    wait_until(lambda: len(answers) == 2)
    lab.clock.advance(10.0)
    wait_until(lambda: len(answers) == 1)
    assert (heartbeat.lost, heartbeat.silent_s) == (None, 0.0)
    lab.clock.advance(1.0)  # soon after a failed check
    wait_until(lambda: not heartbeat._thread.is_alive())
    assert isinstance(heartbeat.lost, errors.CompactionCancelledError)
    assert len(lab.server.beats) == 3


@pytest.mark.promise("T18")
@pytest.mark.parametrize(("override_s", "expected_s"), [(None, 10.0), (3.0, 3.0)])
def test_heartbeats_are_sent_at_half_the_metastores_timeout_or_as_configured(
    lab: Lab, override_s: float | None, expected_s: float
) -> None:
    with lab.begin(INSERT, heartbeat_s=override_s):
        began_s = lab.clock.monotonic()
        lab.clock.advance(expected_s)
        wait_until(lambda: len(lab.server.beats) == 1)
        assert beats(lab.server) == [began_s + expected_s]


@pytest.mark.promise("T17")
def test_a_transaction_outlives_its_timeout_only_while_heartbeats_are_sent(lab: Lab) -> None:
    with lab.begin(INSERT) as txn:
        for count in range(1, 6):
            lab.clock.advance(10.0)
            wait_until(lambda count=count: len(lab.server.beats) == count)
        txn.ensure_alive()
    silent = lab.client.open_txn()
    lab.clock.advance(21.0)
    with pytest.raises(errors.TransactionAbortedError):
        lab.client.commit_txn(silent)


@pytest.mark.promise("T17")
def test_a_process_that_was_frozen_past_the_timeout_cannot_commit(lab: Lab) -> None:
    with pytest.raises(errors.TransactionAbortedError), lab.begin(INSERT):
        # Whatever was frozen wakes up long after the server has given up.
        lab.clock.advance(300.0)
    assert [txn.state for txn in lab.server.txns.values()] == [TxnState.ABORTED]
    assert lab.client.show_locks() == ()


def test_ensure_alive_raises_after_a_heartbeat_noticed_an_abort(lab: Lab) -> None:
    with lab.begin(INSERT) as txn:
        lab.client.abort_txn(txn.txn_id)
        txn.ensure_alive()  # nobody has noticed yet
        lab.clock.advance(10.0)
        wait_until(lambda: txn._opened.heartbeat.lost is not None)
        with pytest.raises(errors.TransactionAbortedError):
            txn.ensure_alive()
        txn.abandon()


def test_ensure_alive_calls_the_metastore_after_a_long_silence(lab: Lab) -> None:
    with lab.begin(INSERT) as txn:
        txn._opened.heartbeat.stop()
        lab.clock.advance(20.0)
        txn.ensure_alive()
        assert [txn_id for txn_id, _ in lab.server.beats] == [txn.txn_id]


@pytest.mark.promise("T19")
def test_heartbeats_end_with_the_transactions_body_even_after_an_error(lab: Lab) -> None:
    for error in (None, KeyboardInterrupt()):
        try:
            with lab.begin(INSERT) as txn:
                if error is not None:
                    raise error
        except KeyboardInterrupt:
            pass
        assert not txn._opened.heartbeat._thread.is_alive()
    count = len(lab.server.beats)
    lab.clock.advance(100.0)
    assert len(lab.server.beats) == count
    assert lab.client.show_locks() == ()

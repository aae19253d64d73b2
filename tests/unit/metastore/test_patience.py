"""Calls wait for an unavailable metastore for as long as the transaction can be alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreLoginError, MetastoreUnavailableError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.endpoint import (
    BearerLogin,
    MetastoreEndpoint,
    PasswordLogin,
    SecretSource,
    Transport,
)
from airflow_hiveacid.metastore.auth.address import ConnectError, LoginRefusedError
from airflow_hiveacid.metastore.client import connect, connection
from airflow_hiveacid.metastore.gen.locks.ttypes import LockResponse, ShowLocksResponse
from airflow_hiveacid.metastore.locks import LockRequest
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import access
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.http_server import HttpStub
from tests.contract.manual_clock import ManualClock
from tests.contract.sasl_server import PlainHalf, SaslServer
from tests.contract.stub_server import NOTHING_OPEN, HangUpError, StubServer
from tests.support.terms import job_terms

REQUEST = LockRequest(txn_id=TxnId(1), components=(), agent_info="me")


def hang_up(*_: object) -> None:
    raise HangUpError


@pytest.fixture
def slept_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made, without making them."""
    pauses: list[float] = []
    monkeypatch.setattr(connection, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def stumbling(times: int, answer: object) -> Callable[[object], object]:
    """An answer that comes after the connection has broken so many times."""
    left = iter([hang_up] * times)

    def tell(request: object) -> object:
        next(left, lambda _: None)(request)
        return answer

    return tell


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(
        get_open_txns_req=lambda _: NOTHING_OPEN,
        show_locks=stumbling(7, ShowLocksResponse(locks=[])),
        lock=stumbling(0, LockResponse(lockid=5, state=1)),
        commit_txn=hang_up,
    ) as made:
        yield made


def test_a_repeatable_call_is_retried_until_the_metastore_answers(
    stub: StubServer, slept_s: list[float]
) -> None:
    with connect(MetastoreEndpoint(uris=(stub.uri,))) as client:
        with pytest.raises(MetastoreUnavailableError):
            client.show_locks()
        client.be_patient(lambda: 60.0)
        assert client.show_locks() == ()
    assert slept_s == pytest.approx([0.2, 0.4])


def test_retries_of_a_call_end_when_the_transaction_times_out(
    stub: StubServer, slept_s: list[float]
) -> None:
    with connect(MetastoreEndpoint(uris=(stub.uri,))) as client:
        client.be_patient(lambda: 0.5 - sum(slept_s))
        with pytest.raises(MetastoreUnavailableError):
            client.show_locks()
    assert slept_s == pytest.approx([0.2])


def test_an_unrepeatable_call_waits_for_a_connection_and_is_sent_only_once(
    stub: StubServer, slept_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = connection.open_transport

    def open_transport(*arguments: object) -> object:
        if len(slept_s) < 4:
            raise ConnectError("connection refused")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(connection, "open_transport", open_transport)
    with connect(MetastoreEndpoint(uris=(stub.uri,))) as client:
        client.be_patient(lambda: 60.0)
        assert client.lock(REQUEST).lock_id == 5
        with pytest.raises(MetastoreUnavailableError):
            client.commit_txn(TxnId(1))
    assert slept_s == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert (stub.calls.count("lock"), stub.calls.count("commit_txn")) == (1, 1)


def test_a_commit_that_may_have_arrived_never_raises_a_login_error(
    stub: StubServer, slept_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the commit is sent, each server refuses the login. A login error means: not sent."""
    real, opened = connection.open_transport, []

    def open_transport(*arguments: object) -> object:
        opened.append(arguments)
        if len(opened) > 1:
            raise LoginRefusedError("the password was changed")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(connection, "open_transport", open_transport)
    with connect(MetastoreEndpoint(uris=(stub.uri, stub.uri))) as client:
        client.be_patient(lambda: 60.0)
        with pytest.raises(MetastoreUnavailableError):
            client.commit_txn(TxnId(1))
        with pytest.raises(MetastoreLoginError):
            client.commit_txn(TxnId(1))
    assert stub.calls.count("commit_txn") == 1
    assert slept_s == []


def test_a_call_with_an_expired_token_is_retried_until_the_token_is_renewed(
    slept_s: list[float], tmp_path: Path
) -> None:
    file = tmp_path / "jwt"
    file.write_text("old")

    def admits(headers: dict[str, str]) -> tuple[int, str]:
        if len(slept_s) == 3:
            file.write_text("new")
        return (200, "") if headers["authorization"] == "Bearer new" else (401, "expired")

    login = BearerLogin(bearer=SecretSource(file=str(file)), in_clear=True)
    locked = LockResponse(lockid=5, state=1)
    with HttpStub(admits, lock=lambda _: locked) as server:
        endpoint = MetastoreEndpoint(uris=(server.uri,), transport=Transport.HTTP, login=login)
        with connect(endpoint) as client:
            with pytest.raises(MetastoreUnavailableError, match="401"):
                client.lock(REQUEST)
            assert slept_s == []
            client.be_patient(lambda: 60.0)
            assert client.lock(REQUEST).lock_id == 5
        assert server.calls.count("lock") == 1
    assert slept_s == pytest.approx([0.2, 0.4, 0.8])


@pytest.mark.parametrize("content", [None, ""], ids=["missing", "empty"])
@pytest.mark.parametrize("over_http", [True, False])
def test_a_call_waits_while_its_secret_file_is_being_rewritten(
    slept_s: list[float], tmp_path: Path, content: str | None, *, over_http: bool
) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret")

    def away() -> None:
        file.unlink()
        if content is not None:
            file.write_text(content)

    def patience() -> float:
        if len(slept_s) == 2:
            file.write_text("s3cret")
        return 60.0

    def half() -> PlainHalf:
        return PlainHalf("etl", "s3cret")

    source = SecretSource(file=str(file))
    locked = {"lock": lambda _: LockResponse(lockid=5, state=1)}
    with HttpStub(**locked) if over_http else SaslServer(half, **locked) as server:
        endpoint = MetastoreEndpoint(
            uris=(server.uri,),
            transport=Transport.HTTP if over_http else Transport.PLAIN,
            login=BearerLogin(bearer=source, in_clear=True)
            if over_http
            else PasswordLogin(user="etl", password=source, in_clear=True),
        )
        with connect(endpoint) as client:
            assert client.lock(REQUEST).lock_id == 5
            if not over_http:
                client.close()  # a break: the password is read for the next connection
            away()
            with pytest.raises(MetastoreUnavailableError, match=r"secret.* An earlier call could"):
                client.lock(REQUEST)
            client.be_patient(patience)
            assert client.lock(REQUEST).lock_id == 5
    assert server.calls.count("lock") == 2
    assert slept_s == pytest.approx([0.2, 0.4, 0.8])


def test_the_wait_for_a_new_token_ends_when_the_transaction_times_out(
    slept_s: list[float], tmp_path: Path
) -> None:
    (tmp_path / "jwt").write_text("old")
    login = BearerLogin(bearer=SecretSource(file=str(tmp_path / "jwt")), in_clear=True)
    with HttpStub(lambda _: (401, "expired")) as server:
        endpoint = MetastoreEndpoint(uris=(server.uri,), transport=Transport.HTTP, login=login)
        with connect(endpoint) as client:
            client.be_patient(lambda: 0.5 - sum(slept_s))
            with pytest.raises(MetastoreUnavailableError, match="401"):
                client.lock(REQUEST)
    assert slept_s == pytest.approx([0.2])


def test_a_call_whose_response_was_lost_is_not_retried_like_a_refused_call(
    slept_s: list[float], tmp_path: Path
) -> None:
    (tmp_path / "jwt").write_text("token")
    login = BearerLogin(bearer=SecretSource(file=str(tmp_path / "jwt")), in_clear=True)
    with HttpStub(lambda _: (502, "the gateway lost it")) as server:
        endpoint = MetastoreEndpoint(uris=(server.uri,), transport=Transport.HTTP, login=login)
        with connect(endpoint) as client:
            client.be_patient(lambda: 60.0)
            with pytest.raises(MetastoreUnavailableError, match="502"):
                client.lock(REQUEST)
        assert len(server.requests) == 1
    assert slept_s == []


def test_the_first_call_of_a_client_also_waits_for_the_metastore(
    stub: StubServer, slept_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = connection.open_transport

    def open_transport(*arguments: object) -> object:
        if len(slept_s) < 2:
            raise ConnectError("the token is late")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(connection, "open_transport", open_transport)
    with connect(MetastoreEndpoint(uris=(stub.uri,))) as client:
        with pytest.raises(MetastoreUnavailableError, match="late"):
            _ = client.generation
        client.be_patient(lambda: 60.0)
        assert client.generation is MetastoreGeneration.V4
    assert slept_s == pytest.approx([0.2, 0.4])


def test_a_call_is_retried_if_the_connection_was_lost_before_it_was_sent(
    stub: StubServer, slept_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(MetastoreEndpoint(uris=(stub.uri,))) as client:
        client.be_patient(lambda: 60.0)
        own = client._connection._own_stubs
        asked: list[int] = []

        def stubs() -> object:
            asked.append(1)
            if len(asked) == 1:  # after it was there a moment ago
                raise MetastoreUnavailableError(uris=(), method="connect", reason="just gone")
            return own()

        monkeypatch.setattr(client._connection, "_own_stubs", stubs)
        assert client.lock(REQUEST).lock_id == 5
    assert stub.calls.count("lock") == 1
    assert slept_s == pytest.approx([0.2])


class Watched(FakeClient):
    """Tells how long it is asked to be patient, and what bound a clone of it gets."""

    def __init__(self, server: FakeMetastore, *, user: str = "tester") -> None:
        super().__init__(server, user=user)
        self.patience: Callable[[], float] | None = None
        self.bounds_s: list[float | None] = []

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        self.patience = left_s

    def clone(self, *, call_timeout_s: float | None = None) -> Watched:
        self.bounds_s.append(call_timeout_s)
        return super().clone(call_timeout_s=call_timeout_s)


@pytest.fixture
def watched(server: FakeMetastore) -> Watched:
    return Watched(server)


@pytest.mark.parametrize("ending", [None, KeyError])
def test_calls_of_a_transaction_are_retried_only_while_it_cannot_have_timed_out(
    watched: Watched, table: TableInfo, clock: ManualClock, ending: type[Exception] | None
) -> None:
    seen: list[Callable[[], float] | None] = []

    def work() -> None:
        writes = [access(table, DataOperation.INSERT)]
        with begin(watched, job_terms(clock=clock), writes=writes):
            seen.append(watched.patience)
            assert seen[0] is not None
            assert seen[0]() == 20.0  # the server's time-out, less what nobody has been heard
            if ending is not None:
                raise ending

    if ending is None:
        work()
    else:
        with pytest.raises(ending):
            work()
    assert watched.patience is None


@pytest.mark.parametrize(
    ("asked_s", "bounds_s"),
    [(30.0, (30.0, 30.0)), (0.25, (0.25, 2.0)), (500.0, (120.0, 90.0)), (None, (120.0, 90.0))],
)
def test_a_cloned_client_has_shorter_call_and_connect_timeouts(
    asked_s: float | None, bounds_s: tuple[float, float]
) -> None:
    with connect(MetastoreEndpoint(uris=("thrift://hms",), connect_timeout_s=90.0)) as client:
        endpoint = client.clone(call_timeout_s=asked_s).endpoint
    assert (endpoint.call_timeout_s, endpoint.connect_timeout_s) == bounds_s


def test_a_hanging_heartbeat_times_out_early_enough_for_a_retry(
    watched: Watched, table: TableInfo, clock: ManualClock
) -> None:
    writes = [access(table, DataOperation.INSERT)]
    with begin(watched, job_terms(clock=clock), writes=writes):
        (bound_s,) = watched.bounds_s
    assert bound_s is not None
    interval_s, time_out_s = 10.0, 20.0
    assert interval_s + 2 * bound_s < time_out_s

"""GSSAPI with a KDC and an acceptor that play by the rules, and with ones that do not; no JVM."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from ctypes import byref, c_void_p
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_hiveacid.format import errors, ids
from airflow_hiveacid.jobs.endpoint import KerberosLogin, MetastoreEndpoint, Protection
from airflow_hiveacid.metastore.auth import krb5, refusals
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.gen.locks.ttypes import LockResponse
from airflow_hiveacid.metastore.locks import LockRequest
from tests.contract.gssapi_server import AUTH, INTEGRITY, PRIVACY, GssapiHalf
from tests.contract.sasl_server import SaslServer
from tests.contract.stub_server import NOTHING_OPEN
from tests.support.login_lab import LoginLab

pytestmark = pytest.mark.server


@pytest.fixture
def keytab(login_lab: LoginLab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The metastore's; this process takes part in the realm."""
    for name, value in login_lab.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5RCACHEDIR", str(login_lab.kdc.config.data_dir))
    return login_lab.kdc.keytab("hive/localhost")


def serving(half: Callable[[], GssapiHalf]) -> SaslServer:
    locked = LockResponse(lockid=5, state=1)
    return SaslServer(half, get_open_txns_req=lambda _: NOTHING_OPEN, lock=lambda _: locked)


def login_of(lab: LoginLab, least: Protection = Protection.AUTHENTICATION) -> KerberosLogin:
    return lab.keytab("alice", service=lab.kdc.principal("hive/localhost"), protection=least)


def client_of(server: SaslServer, login: KerberosLogin) -> MetastoreClient:
    bounds = {"connect_timeout_s": 10.0, "call_timeout_s": 10.0}
    return connect(MetastoreEndpoint(uris=(server.uri,), login=login, **bounds))


@pytest.mark.parametrize("layers", [AUTH, INTEGRITY, PRIVACY, AUTH | INTEGRITY, 7])
def test_client_and_server_use_the_strongest_offered_protection_layer(
    login_lab: LoginLab, keytab: Path, layers: int
) -> None:
    with (
        serving(lambda: GssapiHalf(keytab, layers)) as server,
        client_of(server, login_of(login_lab)) as client,
    ):
        for _ in range(3):
            assert client.valid_txns().high_watermark == 7
        (half,) = server.halves
        assert isinstance(half, GssapiHalf)
        assert half.chosen == 1 << (layers.bit_length() - 1)
        is_read = all(b"get_open_txns_req" in frame for frame in server.frames)
        assert is_read == (half.chosen != PRIVACY)
        assert server.connections == 1


def lock_twice(client: MetastoreClient) -> None:
    """Not a call that is made again when its answer cannot be read."""
    request = LockRequest(txn_id=ids.TxnId(1), components=(), agent_info="me")
    for _ in range(2):
        client.lock(request)


class Repeating(GssapiHalf):
    """Sends its first message again instead of the second."""

    def seal(self, message: bytes) -> bytes:
        super().seal(message)
        return self.sent[0]


class Losing(GssapiHalf):
    """Loses a message before each."""

    def seal(self, message: bytes) -> bytes:
        super().seal(message)
        return super().seal(message)


class Open(GssapiHalf):
    """Signs only what was to be secret."""

    def seal(self, message: bytes) -> bytes:
        return self.wrap(message, is_secret=False)


class Forging(GssapiHalf):
    """Sends what somebody on the way has changed."""

    def seal(self, message: bytes) -> bytes:
        sealed = bytearray(super().seal(message))
        sealed[-1] ^= 1
        return bytes(sealed)


class Bare(GssapiHalf):
    """Sends messages as they are, whatever was agreed."""

    def seal(self, message: bytes) -> bytes:
        return message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Repeating, "repeated or lost"),
        (Losing, "repeated or lost"),
        (Open, "arrived in clear"),
        (Forging, "GSS|Invalid|Message|Wrong"),
        (Bare, "GSS|Invalid|token"),
    ],
)
def test_a_repeated_lost_unprotected_or_forged_message_is_refused(
    login_lab: LoginLab, keytab: Path, kind: type[GssapiHalf], words: str
) -> None:
    with (
        serving(lambda: kind(keytab)) as server,
        client_of(server, login_of(login_lab)) as client,
        pytest.raises(errors.MetastoreUnavailableError, match=words),
    ):
        lock_twice(client)


class Changed(GssapiHalf):
    """Offers what somebody on the way has weakened."""

    def wrap(self, message: bytes, *, is_secret: bool) -> bytes:
        wrapped = super().wrap(message, is_secret=is_secret)
        if self.chosen:
            return wrapped
        at = wrapped.index(self.offer())  # signed only, so it can be read, and changed
        return wrapped[:at] + bytes([AUTH]) + wrapped[at + 1 :]


class Short(GssapiHalf):
    """Offers three bytes."""

    def offer(self) -> bytes:
        return b"\7\0\0"


@pytest.mark.parametrize(
    ("kind", "layers", "least", "error", "words"),
    [
        (Changed, 7, "authentication", errors.MetastoreUnavailableError, "failed"),
        (
            Short,
            7,
            "authentication",
            errors.MetastoreUnavailableError,
            "invalid list of SASL protection levels",
        ),
        (GssapiHalf, AUTH, "integrity", errors.MetastoreLoginError, "requires at least integrity"),
        (GssapiHalf, INTEGRITY, "privacy", errors.MetastoreLoginError, "requires at least privacy"),
        (GssapiHalf, 0, "authentication", errors.MetastoreLoginError, "no known level"),
        (GssapiHalf, 8, "authentication", errors.MetastoreLoginError, "no known level"),
    ],
)
def test_a_login_fails_if_the_offered_protection_is_too_weak_or_was_changed(
    login_lab: LoginLab,
    keytab: Path,
    kind: type[GssapiHalf],
    layers: int,
    least: str,
    error: type[errors.HiveAcidError],
    words: str,
) -> None:
    with (
        serving(lambda: kind(keytab, layers)) as server,
        client_of(server, login_of(login_lab, Protection(least))) as client,
        pytest.raises(error, match=words),
    ):
        client.valid_txns()
    assert server.calls == []


def test_a_server_with_a_different_principal_is_refused(login_lab: LoginLab, keytab: Path) -> None:
    del keytab
    with (
        serving(lambda: GssapiHalf(login_lab.kdc.keytab("hive/elsewhere"))) as server,
        client_of(server, login_of(login_lab)) as client,
        pytest.raises(errors.MetastoreLoginError, match=r"hive/localhost@.*another principal"),
    ):
        client.valid_txns()


def _is_there(cache: str) -> bool:
    """Whether this process holds tickets under that name."""
    library = ctypes.CDLL("libkrb5.so.3")
    context, handle, owner = c_void_p(), c_void_p(), c_void_p()
    assert not library.krb5_init_context(byref(context))
    # An empty one is made if there is none, and has no owner.
    assert not library.krb5_cc_resolve(context, cache.encode(), byref(handle))
    found = not library.krb5_cc_get_principal(context, handle, byref(owner))
    if found:
        library.krb5_free_principal(context, owner)
        library.krb5_cc_close(context, handle)
    else:
        library.krb5_cc_destroy(context, handle)
    library.krb5_free_context(context)
    return found


def test_keytab_tickets_are_deleted_when_their_connection_closes(
    login_lab: LoginLab, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches: list[str] = []

    def token_hex(_: int) -> str:
        caches.append(f"MEMORY:hiveacid-test{len(caches)}")
        return f"test{len(caches) - 1}"

    monkeypatch.setattr(krb5, "secrets", SimpleNamespace(token_hex=token_hex))
    with serving(lambda: GssapiHalf(keytab)) as server:
        clients = [client_of(server, login_of(login_lab)) for _ in range(2)]
        for client in clients:
            client.valid_txns()
        assert [_is_there(cache) for cache in caches] == [True, True]
        clients[0].close()
        gc.collect()
        assert [_is_there(cache) for cache in caches] == [False, True]
        clients[1].close()
    with serving(lambda: GssapiHalf(keytab, AUTH)) as server:
        refused = client_of(server, login_of(login_lab, Protection.PRIVACY))
        with pytest.raises(errors.MetastoreLoginError):
            refused.valid_txns()
    gc.collect()
    assert [_is_there(cache) for cache in caches] == [False] * 3


def test_an_outdated_key_is_not_sent_to_the_kdc_again_for_two_minutes(
    login_lab: LoginLab, keytab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(refusals, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    kdc, own = login_lab.kdc, login_lab.kdc.keytab("counted")
    old = own.read_bytes()
    for query in ("modprinc +requires_preauth counted", "cpw -randkey counted"):
        kdc.administer(query)
    service = kdc.principal("hive/localhost")

    def refused() -> int:
        """How often the KDC has counted, after one more try."""
        with pytest.raises(errors.MetastoreLoginError, match="holds an old key of counted"):
            client.valid_txns()
        return kdc.log_file.read_text().count("preauth (encrypted_timestamp) verify failure")

    with (
        serving(lambda: GssapiHalf(keytab)) as server,
        client_of(server, login_lab.keytab("counted", service=service)) as client,
    ):
        first = refused()
        assert first >= 1
        assert [refused(), refused()] == [first, first]
        now_s[0] += 121
        assert refused() == 2 * first
        kdc.administer(f'ktadd -k "{own}" counted')
        assert own.read_bytes() != old
        assert client.valid_txns().high_watermark == 7


def test_several_clients_can_log_in_concurrently(login_lab: LoginLab, keytab: Path) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                with client_of(server, login_of(login_lab)) as client:
                    assert client.valid_txns().high_watermark == 7
        except BaseException as error:  # noqa: BLE001 - edge of a thread
            failures.append(error)

    with serving(lambda: GssapiHalf(keytab)) as server:
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert failures == []
    assert server.connections == 30

"""Kerberos without a KDC: the negotiation over a fake context, and the library's errors."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from ctypes import c_uint32, c_void_p
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import KerberosLogin, Protection
from airflow_hiveacid.metastore.auth import krb5
from airflow_hiveacid.metastore.auth.address import ConnectError, LoginRefusedError
from airflow_hiveacid.metastore.auth.kerberos import Kerberos, service_of
from airflow_hiveacid.metastore.auth.krb5 import GssError
from airflow_hiveacid.metastore.auth.sasl import MechanismError
from tests.support.keytabs import keytab_of

SERVICE = "hive/_HOST@LAB.TEST"


@dataclass
class FakeContext:
    """Two rounds, then messages with a letter before them: s for signed, e for encrypted."""

    is_complete: bool = False

    def step(self, token: bytes | None) -> bytes:
        self.is_complete = token is not None
        return b"last" if self.is_complete else b"first"

    def wrap(self, message: bytes, *, is_secret: bool) -> bytes:
        return (b"e" if is_secret else b"s") + message

    def unwrap(self, message: bytes, *, is_secret: bool) -> bytes:
        if is_secret and message[:1] != b"e":
            raise GssError("in clear", 0)
        return message[1:]


def mechanism(least: Protection = Protection.AUTHENTICATION) -> Kerberos:
    login = KerberosLogin(service=SERVICE, protection=least)
    return Kerberos(login, "HMS-1.Lab", timeout_s=3.0, make_context=FakeContext)


def offer(layers: int) -> bytes:
    return b"s" + struct.pack(">I", layers << 24 | 65536)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("hive/_HOST@LAB.TEST", "hive/hms-1.lab@LAB.TEST"),
        ("hive/_HOST", "hive/hms-1.lab"),
        ("hive/VIP.lab@LAB.TEST", "hive/VIP.lab@LAB.TEST"),
    ],
)
def test_the_host_placeholder_of_the_service_is_replaced_by_the_called_host(
    service: str, expected: str
) -> None:
    assert service_of(KerberosLogin(service=service), "HMS-1.Lab") == expected


@pytest.mark.parametrize(
    ("layers", "least", "choice", "sealed"),
    [
        (1, Protection.AUTHENTICATION, (1, 0), b"m"),
        (3, Protection.AUTHENTICATION, (2, 0xFFFFFF), b"sm"),
        (7, Protection.INTEGRITY, (4, 0xFFFFFF), b"em"),
        (4, Protection.PRIVACY, (4, 0xFFFFFF), b"em"),
    ],
)
def test_the_strongest_offered_protection_is_chosen_and_used(
    layers: int, least: Protection, choice: tuple[int, int], sealed: bytes
) -> None:
    login = mechanism(least)
    assert login.start() == b"first"
    assert login.answer(b"token") == b"last"
    assert login.answer(offer(layers)) == b"s" + struct.pack(">I", choice[0] << 24 | choice[1])
    login.finish(b"")
    assert login.wrap(b"m") == sealed
    assert login.unwrap(sealed) == b"m"


def test_an_unencrypted_message_is_refused_if_privacy_was_negotiated() -> None:
    login = mechanism()
    login.start()
    login.answer(b"token")
    login.answer(offer(4))
    with pytest.raises(MechanismError, match="in clear"):
        login.unwrap(b"sm")


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (offer(3), "requires at least privacy"),
        (offer(0), "no known level"),
        (b"s123", "invalid list"),
    ],
)
def test_an_insufficient_or_invalid_protection_offer_is_refused(payload: bytes, words: str) -> None:
    login = mechanism(Protection.PRIVACY)
    login.start()
    login.answer(b"token")
    with pytest.raises(MechanismError, match=words):
        login.answer(payload)


def test_a_negotiated_protection_cannot_be_renegotiated() -> None:
    login = mechanism()
    login.start()
    login.answer(b"token")
    login.answer(offer(4))
    with pytest.raises(MechanismError, match="second offer"):
        login.answer(offer(1))
    assert login.wrap(b"m") == b"em"


def test_a_server_that_ends_the_login_before_proving_its_identity_is_refused() -> None:
    login = mechanism()
    login.start()
    with pytest.raises(MechanismError, match="early"):
        login.finish(b"")


# ---- the system's own library --------------------------------------------------------------------


@pytest.fixture
def kdc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> socket.socket:
    """A port that takes connections and never answers; the library is told that it is the KDC."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    (tmp_path / "krb5.conf").write_text(
        "[libdefaults]\n default_realm = LAB.TEST\n dns_lookup_kdc = false\n"
        " udp_preference_limit = 1\n default_ccache_name = FILE:/nowhere/cache\n"
        f"[realms]\n LAB.TEST = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    return listener


def begin(timeout_s: float = 5.0, **fields: str) -> ConnectError:
    login = Kerberos(KerberosLogin(service=SERVICE, **fields), "hms", timeout_s=timeout_s)
    with pytest.raises(ConnectError, match="no ticket for the metastore") as caught:
        login.start()
    return caught.value


def test_missing_tickets_are_reported_as_a_connection_error_and_not_as_a_refusal(
    kdc: socket.socket, tmp_path: Path
) -> None:
    with kdc:
        for fields in ({}, {"cache": f"FILE:{tmp_path}/none"}, {"client": "etl@LAB.TEST"}):
            error = begin(**fields)
            assert not isinstance(error, LoginRefusedError)
            assert "there are no tickets" in str(error)


def test_a_keytab_without_the_clients_key_is_named(kdc: socket.socket, tmp_path: Path) -> None:
    keytab = keytab_of("bob@LAB.TEST", tmp_path / "bob.keytab")
    with kdc:
        error = begin(client="etl@LAB.TEST", keytab=keytab)
    assert isinstance(error, LoginRefusedError)
    assert "bob.keytab holds no key of etl@LAB.TEST" in str(error)


def test_an_unreachable_kdc_is_reported(kdc: socket.socket, tmp_path: Path) -> None:
    kdc.close()
    error = begin(client="etl@LAB.TEST", keytab=keytab_of("etl@LAB.TEST", tmp_path / "k"))
    assert not isinstance(error, LoginRefusedError)
    assert "no KDC answers" in str(error)


def test_a_kdc_that_does_not_answer_times_out(kdc: socket.socket, tmp_path: Path) -> None:
    keytab = keytab_of("etl@LAB.TEST", tmp_path / "k")
    with kdc:
        error = begin(timeout_s=0.3, client="etl@LAB.TEST", keytab=keytab)
        # What was left behind ends with its connection.
        (left,) = [t for t in threading.enumerate() if t.name == "hiveacid-kerberos"]
        kdc.accept()[0].close()
    left.join(timeout=10)
    assert "did not answer within 0.3 s" in str(error)


def test_a_missing_keytab_is_reported_before_any_server_is_called(tmp_path: Path) -> None:
    login = KerberosLogin(service=SERVICE, client="etl@LAB.TEST", keytab=str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=f"cannot read the keytab {tmp_path / 'none'}"):
        Kerberos(login, "hms", timeout_s=1.0)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"garbage of another kind", "is not a keytab"),
        (b"\x05\x02", "holds no key"),
    ],
)
def test_an_invalid_keytab_is_reported_with_the_reason(
    tmp_path: Path, content: bytes, what: str
) -> None:
    keytab = tmp_path / "etl.keytab"
    keytab.write_bytes(content)
    login = KerberosLogin(service=SERVICE, client="etl@LAB.TEST", keytab=str(keytab))
    with pytest.raises(ConfigurationError, match=f"the keytab {keytab} .*{what}.*Export it again"):
        Kerberos(login, "hms", timeout_s=1.0)


class Recorder:
    """A library that notes what it is asked to free."""

    def __init__(self) -> None:
        self.freed: list[tuple[str, object]] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        def function(*arguments: object) -> int:
            (handle,) = [a for a in arguments if a is not None and not isinstance(a, c_uint32)]
            self.freed.append((name, handle))
            return 0

        return function


def test_each_buffer_and_handle_of_the_library_is_released_once() -> None:
    library, buffer = Recorder(), krb5._buffer(b"a message")
    assert krb5._take(library, buffer) == b"a message"
    assert library.freed == [("gss_release_buffer", buffer)]
    handles = context, credentials, service, nobody = tuple(c_void_p(n) for n in (1, 2, 3, 0))
    library.freed.clear()
    krb5._release(library, handles, None)
    assert nobody.value is None
    assert library.freed == [
        ("gss_delete_sec_context", context),
        ("gss_release_cred", credentials),
        ("gss_release_name", service),
    ]

"""TLS: who is trusted, whose name is checked, and who has to show a certificate of their own."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors.metastore import MetastoreUnavailableError
from airflow_hiveacid.format.errors.tree import ConfigurationError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.jobs.logins import HeaderLogin, PasswordLogin, SecretSource
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.gen.locks.ttypes import LockResponse
from airflow_hiveacid.metastore.gen.transactions.ttypes import GetOpenTxnsResponse
from airflow_hiveacid.metastore.locks import LockRequest
from tests.contract.http_server import HttpStub
from tests.contract.relay import Relay
from tests.contract.sasl_server import PlainHalf, SaslServer
from tests.contract.stub_server import StubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_hiveacid.local.metastore.server import LocalMetastore
    from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient

REFUSED = re.compile("certificate verify failed", re.IGNORECASE)
ANSWER = GetOpenTxnsResponse(txn_high_water_mark=7, open_txns=[], abortedBits=b"")


def words(line: str) -> list[str]:
    return line.split()


@dataclass(frozen=True)
class Authority:
    """A certificate authority that signs itself, and what it has signed; PEM files in a folder."""

    folder: Path

    def run(self, *arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments],  # noqa: S607 -- wherever this machine keeps it
            cwd=self.folder,
            check=True,
            capture_output=True,
        )

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def found(self) -> None:
        extensions = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
        self.run(
            *words("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca"),
            *words("-keyout ca.key -out ca.pem"),
            *(word for extension in extensions for word in ("-addext", extension)),
        )

    def sign(self, name: str, alternative: str) -> None:
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        self.run(
            *words(f"req -newkey rsa:2048 -nodes -subj /CN={name}"),
            *words(f"-keyout {name}.key -out {name}.csr"),
        )
        self.run(
            *words(f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 2"),
            *words(f"-set_serial 1 -extfile {name}.ext -out {name}.pem"),
        )

    def server_context(self, name: str = "here", *, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ca.pem"))
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.found()
    made.sign("here", "IP:127.0.0.1")
    made.sign("elsewhere", "DNS:elsewhere.example")
    made.sign("client", "DNS:client")
    return made


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer(get_open_txns_req=lambda _: ANSWER) as made:
        yield made


def client_of(uri: str, **changes: object) -> MetastoreClient:
    plain = MetastoreEndpoint(
        uris=(uri,), transport=Transport.TLS, connect_timeout_s=3.0, call_timeout_s=3.0
    )
    return connect(replace(plain, **changes))  # type: ignore[arg-type]


def test_a_server_with_a_certificate_of_the_trusted_authority_is_accepted(
    authority: Authority, server: StubServer
) -> None:
    with (
        Relay(server.port, tls=authority.server_context()) as relay,
        client_of(relay.uri, ca_certificate=authority.path("ca.pem")) as client,
    ):
        assert client.valid_txns().high_watermark == 7


def test_a_server_with_an_untrusted_certificate_is_refused(
    authority: Authority, server: StubServer
) -> None:
    with Relay(server.port, tls=authority.server_context()) as relay:
        client = client_of(relay.uri)
        with pytest.raises(MetastoreUnavailableError, match=REFUSED):
            client.valid_txns()
    assert server.calls == []


def test_a_certificate_for_a_different_host_is_refused_unless_host_checks_are_off(
    authority: Authority, server: StubServer
) -> None:
    trust = {"ca_certificate": authority.path("ca.pem")}
    with Relay(server.port, tls=authority.server_context("elsewhere")) as relay:
        with pytest.raises(MetastoreUnavailableError, match=r"127\.0\.0\.1"):
            client_of(relay.uri, **trust).valid_txns()
        assert server.calls == []
        with client_of(relay.uri, **trust, verify_host=False) as client:
            assert client.valid_txns().high_watermark == 7
        with pytest.raises(MetastoreUnavailableError, match=REFUSED):
            client_of(relay.uri, verify_host=False).valid_txns()


def test_a_client_certificate_is_sent_to_a_server_that_requires_one(
    authority: Authority, server: StubServer
) -> None:
    trust = {"ca_certificate": authority.path("ca.pem")}
    own = {
        "client_certificate": authority.path("client.pem"),
        "client_key": authority.path("client.key"),
    }
    with Relay(server.port, tls=authority.server_context(wants_client=True)) as relay:
        with pytest.raises(MetastoreUnavailableError):
            client_of(relay.uri, **trust).valid_txns()
        assert server.calls == []
        with client_of(relay.uri, **trust, **own) as client:
            assert client.valid_txns().high_watermark == 7


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_connection_that_closed_between_calls_is_replaced_before_a_lock_request(
    authority: Authority, is_encrypted: bool
) -> None:
    granted = LockResponse(lockid=5, state=1)
    request = LockRequest(txn_id=TxnId(1), components=(), agent_info="me")
    with (
        StubServer(lock=lambda _: granted) as server,
        Relay(server.port, tls=authority.server_context() if is_encrypted else None) as relay,
        client_of(
            relay.uri,
            transport=Transport.TLS if is_encrypted else Transport.PLAIN,
            ca_certificate=authority.path("ca.pem") if is_encrypted else None,
        ) as client,
    ):
        assert client.lock(request).lock_id == 5
        transport = client._connection._protocol.trans
        assert transport.isOpen()
        connected = transport._TBufferedTransport__trans.handle
        # So that one whose other side vanished without a word is not open for ever.
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        relay.drop()
        deadline = time.monotonic() + 10
        while transport.isOpen():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # It must not be made twice, so it is known before it is sent that nobody hears it.
        assert client.lock(request).lock_id == 5
        assert (server.calls.count("lock"), relay.connections) == (2, 2)


def test_an_encrypted_client_key_is_refused_without_a_password_prompt(authority: Authority) -> None:
    authority.run(*words("rsa -aes256 -passout pass:secret -in client.key -out locked.key"))
    client = client_of(
        "thrift://127.0.0.1:1",
        ca_certificate=authority.path("ca.pem"),
        client_certificate=authority.path("client.pem"),
        client_key=authority.path("locked.key"),
    )
    with pytest.raises(ConfigurationError, match=r"locked\.key") as caught:
        client.valid_txns()
    assert "secret" not in str(caught.value)


def test_a_mismatch_of_tls_and_plain_transport_raises_an_error(
    authority: Authority, server: StubServer
) -> None:
    with Relay(server.port, tls=authority.server_context()) as relay:
        plain = connect(MetastoreEndpoint(uris=(relay.uri,), call_timeout_s=3.0))
        with pytest.raises(MetastoreUnavailableError):
            plain.valid_txns()
    with pytest.raises(MetastoreUnavailableError):
        client_of(server.uri, ca_certificate=authority.path("ca.pem")).valid_txns()


def test_https_calls_verify_the_server_certificate(authority: Authority) -> None:
    trust = {"ca_certificate": authority.path("ca.pem")}
    login = {"transport": Transport.HTTPS, "login": HeaderLogin(user="etl")}
    with (
        HttpStub(tls=authority.server_context(), get_open_txns_req=lambda _: ANSWER) as https,
        client_of(https.uri, **login, **trust) as client,
    ):
        assert client.valid_txns().high_watermark == 7
        with pytest.raises(MetastoreUnavailableError, match=REFUSED):
            client_of(https.uri, **login).valid_txns()
        as_http = {**login, "transport": Transport.HTTP}
        with pytest.raises(MetastoreUnavailableError, match="URI must say http or https"):
            client_of(https.uri.replace("https", "http"), **as_http).valid_txns()


def test_a_password_login_works_over_tls(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METASTORE_PASSWORD", "s3cret")
    login = PasswordLogin(user="etl", password=SecretSource(variable="METASTORE_PASSWORD"))
    trust = {"ca_certificate": authority.path("ca.pem")}
    with (
        SaslServer(
            lambda: PlainHalf("etl", "s3cret"), get_open_txns_req=lambda _: ANSWER
        ) as server,
        Relay(server.port, tls=authority.server_context()) as relay,
        client_of(relay.uri, login=login, **trust) as client,
    ):
        assert client.valid_txns().high_watermark == 7


def test_a_real_metastore_can_be_used_over_tls(
    authority: Authority, hive_metastore: LocalMetastore
) -> None:
    with (
        Relay(hive_metastore.port, tls=authority.server_context(wants_client=True)) as relay,
        client_of(
            relay.uri,
            ca_certificate=authority.path("ca.pem"),
            client_certificate=authority.path("client.pem"),
            client_key=authority.path("client.key"),
        ) as client,
    ):
        assert client.generation is MetastoreGeneration.V4
        txn_id = client.open_txn()
        assert "default" in client.list_databases()
        assert client.abort_txn(txn_id)

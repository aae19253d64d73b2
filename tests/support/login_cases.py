"""The login cases in words: what a real metastore must accept, and what it must refuse.

`QUICK` ones run in `make test`, all in `make clusters`.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors.metastore import MetastoreLoginError, MetastoreUnavailableError
from airflow_hiveacid.format.errors.tree import HiveAcidError
from airflow_hiveacid.jobs.endpoint import Transport
from airflow_hiveacid.jobs.logins import (
    BearerLogin,
    HeaderLogin,
    KerberosLogin,
    PasswordLogin,
    Protection,
    SecretSource,
    TokenLogin,
)
from airflow_hiveacid.metastore.client.metastore_client import connect
from tests.contract.relay import Relay
from tests.support.login_lab import PASSWORD, SERVICE, V3, V4, environ, live, skew
from tests.support.logins.openssl import make_signer, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.jobs.logins import Login
    from tests.support.login_lab import LoginLab

_NAME: Final = HeaderLogin(user="etl")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A login that one kind of metastore takes; tests try it at the versions of `quick`."""

    name: str
    kind: str
    login: Callable[[LoginLab, str], Login]
    versions: tuple[str, ...] = (V4, V3)
    quick: tuple[str, ...] = ()
    is_behind_terminator: bool = False

    def run(self, lab: LoginLab, version: str) -> None:
        """Lives the small life."""
        with ExitStack() as stack:
            stack.enter_context(environ({**lab.environment, "DOOR_SECRET": lab.note(PASSWORD)}))
            endpoint = lab.endpoint(self.kind, version, self.login(lab, version))
            if self.is_behind_terminator:
                endpoint = stack.enter_context(_terminated(lab, endpoint))
            live(endpoint)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What must not be let in, and the error that says so."""

    name: str
    kind: str
    endpoint: Callable[[LoginLab, str], MetastoreEndpoint]
    error: type[HiveAcidError]
    words: str
    versions: tuple[str, ...] = (V4, V3)
    quick: tuple[str, ...] = ()
    environment: Callable[[LoginLab], dict[str, str]] = lambda _: {}

    def run(self, lab: LoginLab, version: str) -> HiveAcidError:
        """Tries it, and gives the error.

        Raises:
            AssertionError: it was let in.
        """
        with environ(lab.environment):
            endpoint = self.endpoint(lab, version)
            with environ(self.environment(lab)), connect(endpoint) as client:
                try:
                    client.valid_txns()
                except HiveAcidError as error:
                    lab.tell(error)
                    return error
        raise AssertionError(f"{self.name} was let in")


# ---- what is let in ------------------------------------------------------------------------------


def _keytab(least: Protection = Protection.AUTHENTICATION) -> Callable[[LoginLab, str], Login]:
    return lambda lab, _: lab.keytab("alice", protection=least)


def _fixed_service(lab: LoginLab, _: str) -> Login:
    return lab.keytab("alice", service=lab.kdc.principal("hive/localhost"))


def _cache(lab: LoginLab, _: str) -> Login:
    return KerberosLogin(service=SERVICE, cache=f"FILE:{lab.cache('alice')}")


def _token(
    kind: str, least: Protection | None = Protection.AUTHENTICATION
) -> Callable[[LoginLab, str], Login]:
    def made(lab: LoginLab, version: str) -> Login:
        file = lab.token(kind, version, "alice")
        return TokenLogin(token=SecretSource(file=str(file)), protection=least)

    return made


def _container(lab: LoginLab, version: str) -> Login:
    file = lab.container_file(lab.token("kerberos", version, "alice"))
    return TokenLogin(token=SecretSource(file=str(file)))


def _proxied(lab: LoginLab, version: str) -> Login:
    file = lab.token("kerberos", version, "alice", asked_by="airflow")
    return TokenLogin(token=SecretSource(file=str(file)))


def _chained(lab: LoginLab, version: str) -> Login:
    """The third of a chain: each was asked for with the one before."""
    file = lab.token("kerberos", version, "alice")
    for _ in range(2):
        endpoint = lab.endpoint("kerberos", version, TokenLogin(token=SecretSource(file=str(file))))
        with connect(endpoint) as client:
            text = client.hms().get_delegation_token("alice", "alice")
        file = file.with_name(f"{file.name}-next")
        file.write_text(lab.note(text))
    return TokenLogin(token=SecretSource(file=str(file)))


def _longer_than_a_token(lab: LoginLab, version: str) -> Login:
    """The last of a chain that is older than any of its tokens may become (8 s)."""
    kind = "kerberos, short tokens"
    file = lab.token(kind, version, "alice")
    login = TokenLogin(token=SecretSource(file=str(file)))
    for _ in range(5):
        time.sleep(2.0)
        with connect(lab.endpoint(kind, version, login)) as client:
            write_private(file, lab.note(client.hms().get_delegation_token("alice", "alice")))
    return login


def _password(lab: LoginLab, _: str) -> Login:
    return PasswordLogin(
        user="etl", password=SecretSource(file=str(lab.directory.password_file)), in_clear=False
    )


def _of_settings(_: LoginLab, __: str) -> Login:
    return PasswordLogin(user="etl", password=SecretSource(variable="DOOR_SECRET"), in_clear=True)


def _bearer(lab: LoginLab, _: str) -> Login:
    file = lab.bearer(life_s=600)
    return BearerLogin(bearer=SecretSource(file=str(file)), in_clear=True)


_INTEGRITY, _PRIVACY = Protection.INTEGRITY, Protection.PRIVACY
_ONLY = "kerberos, {} only"
CASES: Final = (
    Case(
        name="Kerberos by keytab, auth-conf",
        kind="kerberos",
        login=_keytab(_PRIVACY),
        quick=(V4, V3),
    ),
    Case(name="Kerberos by cache, auth-conf", kind="kerberos", login=_cache, quick=(V4,)),
    Case(
        name="Kerberos, complete principal instead of _HOST",
        kind="kerberos",
        login=_fixed_service,
    ),
    Case(
        name="Kerberos by keytab, auth",
        kind=_ONLY.format("authentication"),
        login=_keytab(),
    ),
    Case(
        name="Kerberos by keytab, auth-int",
        kind=_ONLY.format("integrity"),
        login=_keytab(_INTEGRITY),
    ),
    Case(
        name="Kerberos, metastore that requires auth-conf",
        kind=_ONLY.format("privacy"),
        login=_keytab(),
    ),
    Case(
        name="token, auth-conf",
        kind="kerberos",
        login=_token("kerberos", _PRIVACY),
        quick=(V4, V3),
    ),
    Case(
        name="token, auth",
        kind=_ONLY.format("authentication"),
        login=_token(_ONLY.format("authentication")),
    ),
    Case(
        name="token, auth-int",
        kind=_ONLY.format("integrity"),
        login=_token(_ONLY.format("integrity"), _INTEGRITY),
    ),
    Case(name="token in a container's file", kind="kerberos", login=_container, quick=(V4,)),
    Case(name="token of a proxy user", kind="kerberos", login=_proxied, quick=(V4,)),
    Case(name="token from a token", kind="kerberos", login=_chained, quick=(V3,)),
    Case(
        name="token from a token, after the maximum lifetime of the first token",
        kind="kerberos, short tokens",
        login=_longer_than_a_token,
    ),
    Case(
        name="Kerberos within TLS",
        kind="kerberos in TLS",
        login=_keytab(),
        versions=(V3,),
    ),
    Case(
        name="Kerberos within TLS, metastore that also allows LDAP",
        kind="kerberos and LDAP in TLS",
        login=_keytab(),
        versions=(V4,),
        quick=(V4,),
    ),
    Case(
        name="token within TLS",
        kind="kerberos in TLS",
        login=_token("kerberos in TLS"),
        versions=(V4, V3),
    ),
    Case(
        name="client certificate and Kerberos",
        kind="kerberos",
        login=_fixed_service,
        quick=(V4,),
        is_behind_terminator=True,
    ),
    Case(
        name="client certificate and password",
        kind="kerberos and a user",
        login=_of_settings,
        versions=(V4,),
        is_behind_terminator=True,
    ),
    Case(
        name="LDAP password within TLS",
        kind="kerberos and LDAP in TLS",
        login=_password,
        versions=(V4,),
        quick=(V4,),
    ),
    Case(
        name="LDAP password within TLS, metastore without Kerberos",
        kind="LDAP in TLS",
        login=_password,
        versions=(V4,),
    ),
    Case(
        name="password from the metastore's settings, within TLS",
        kind="a user in TLS",
        login=_of_settings,
        versions=(V4,),
    ),
    Case(
        name="password from the metastore's settings, metastore that also allows Kerberos",
        kind="kerberos and a user",
        login=_of_settings,
        versions=(V4,),
    ),
    Case(
        name="password that a Java class of the metastore checks, within TLS",
        kind="a class in TLS",
        login=_of_settings,
        versions=(V4,),
    ),
    Case(name="HTTP by name", kind="HTTP by name", login=lambda *_: _NAME, versions=(V4,)),
    Case(name="HTTPS by name", kind="HTTPS by name", login=lambda *_: _NAME, versions=(V4,)),
    Case(name="HTTP by JWT", kind="HTTP by JWT", login=_bearer, versions=(V4,)),
    Case(
        name="HTTPS by JWT", kind="HTTPS by JWT", login=_bearer, versions=(V4,), quick=(V4,)
    ),
)  # fmt: skip


# ---- what is not ---------------------------------------------------------------------------------


def _with(
    kind: str, login: Callable[[LoginLab, str], Login | None], **changes: object
) -> Callable[[LoginLab, str], MetastoreEndpoint]:
    return lambda lab, version: lab.endpoint(kind, version, login(lab, version), **changes)


def _stale(lab: LoginLab, _: str) -> Login:
    login = lab.keytab("carol")
    lab.kdc.administer("change_password -randkey carol")
    return login


def _deleted(lab: LoginLab, _: str) -> Login:
    login = lab.keytab("gone")
    if "gone@" in lab.kdc.administer("list_principals"):
        lab.kdc.administer("delete_principal -force gone")
    return login


def _of_another(lab: LoginLab, _: str) -> Login:
    return lab.keytab("alice", keytab=str(lab.kdc.keytab("bob")))


def _other_service(lab: LoginLab, _: str) -> Login:
    lab.kdc.keytab("hive/other")
    return lab.keytab("alice", service=lab.kdc.principal("hive/other"))


def _unknown_service(lab: LoginLab, _: str) -> Login:
    return lab.keytab("alice", service=lab.kdc.principal("hive/nowhere"))


def _expired(lab: LoginLab, _: str) -> Login:
    cache = lab.cache("alice", life="1s")
    time.sleep(2.1)  # the library counts whole seconds
    return KerberosLogin(service=SERVICE, cache=f"FILE:{cache}")


def _skewed(lab: LoginLab, _: str) -> Login:
    return KerberosLogin(service=SERVICE, cache=f"FILE:{skew(lab.cache('alice'), 900)}")


def _no_tickets(_: LoginLab, __: str) -> Login:
    return KerberosLogin(service=SERVICE)


def _elsewhere(lab: LoginLab, port: int) -> dict[str, str]:
    """A realm whose KDC is said to be at that port."""
    text = lab.kdc.configuration.read_text()
    (line,) = [line for line in text.splitlines() if line.strip().startswith("kdc = ")]
    file = lab.folder / f"krb5-{port}.conf"
    file.write_text(text.replace(line, f"    kdc = 127.0.0.1:{port}"))
    return {"KRB5_CONFIG": str(file)}


_listeners: list[socket.socket] = []


def _silent_kdc(lab: LoginLab) -> dict[str, str]:
    # Open as long as this process lives: what was left behind waits for it.
    _listeners.append(socket.create_server(("127.0.0.1", 0)))
    return _elsewhere(lab, _listeners[-1].getsockname()[1])


def _no_kdc(lab: LoginLab) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return _elsewhere(lab, port)


def _wrong_password(lab: LoginLab, _: str) -> Login:
    file = lab.folder / "wrong.password"
    file.write_text(lab.note("wrong-password-of-the-lab"))
    return PasswordLogin(user="etl", password=SecretSource(file=str(file)), in_clear=True)


def _cancelled(lab: LoginLab, version: str) -> Login:
    file = lab.token("kerberos", version, "alice")
    with connect(lab.endpoint("kerberos", version, lab.keytab("alice"))) as client:
        client.hms().cancel_delegation_token(file.read_text().strip())
    return TokenLogin(token=SecretSource(file=str(file)))


def _lapsed(lab: LoginLab, version: str) -> Login:
    file = lab.token("kerberos, short tokens", version, "alice")
    time.sleep(6.0)
    return TokenLogin(token=SecretSource(file=str(file)))


def _expired_bearer(lab: LoginLab, _: str) -> Login:
    file = lab.bearer(life_s=-3600)
    return BearerLogin(bearer=SecretSource(file=str(file)), in_clear=True)


def _forged(lab: LoginLab, _: str) -> Login:
    stranger = make_signer(lab.folder / "stranger")
    file = lab.bearer(life_s=600, signer=stranger)
    return BearerLogin(bearer=SecretSource(file=str(file)), in_clear=True)


def _wrong_path(lab: LoginLab, version: str) -> MetastoreEndpoint:
    endpoint = lab.endpoint("HTTPS by JWT", version, _bearer(lab, version))
    return replace(endpoint, uris=(endpoint.uris[0].replace("/metastore", "/elsewhere"),))


def _another_login(
    kind: str, transport: Transport, login: Callable[[LoginLab, str], Login | None]
) -> Callable[[LoginLab, str], MetastoreEndpoint]:
    """Comes with another transport than the metastore has."""

    def made(lab: LoginLab, version: str) -> MetastoreEndpoint:
        server = lab.server(kind, version)
        host = f"{server.config.access.host}:{server.port}"
        return replace(
            lab.endpoint("plain", version, None, connect_timeout_s=5.0, call_timeout_s=5.0),
            uris=(f"{transport.scheme}://{host}",),
            transport=transport,
            login=login(lab, version),
        )

    return made


def _nobody(_: LoginLab, __: str) -> None:
    return None


_FINAL, _FOR_NOW = MetastoreLoginError, MetastoreUnavailableError
_KERBEROS, _TLS, _JWT = "kerberos", "kerberos and LDAP in TLS", "HTTPS by JWT"
REFUSALS: Final = (
    Refusal(
        name="outdated keytab",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _stale),
        error=_FINAL,
        words="old key of carol",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="keytab of a different principal",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _of_another),
        error=_FINAL,
        words="no key of alice",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="unknown principal",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _deleted),
        error=_FINAL,
        words="does not know gone@",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="service that the KDC does not know",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _unknown_service),
        error=_FINAL,
        words="does not know the metastore as hive/nowhere",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="service name of a different server",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _other_service),
        error=_FINAL,
        words="GSS initiate failed.*hive/other",
        quick=(V4, V3),
    ),
    Refusal(
        name="expired ticket",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _expired),
        error=_FOR_NOW,
        words="tickets have expired",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="clock difference",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _skewed),
        error=_FOR_NOW,
        words="clock",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="no tickets",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _no_tickets),
        error=_FOR_NOW,
        words="there are no tickets",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="KDC that does not respond",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _keytab(), connect_timeout_s=1.0),
        error=_FOR_NOW,
        words="KDC did not answer within 1 s",
        versions=(V4,),
        quick=(V4,),
        environment=_silent_kdc,
    ),
    Refusal(
        name="no KDC",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _keytab()),
        error=_FOR_NOW,
        words="no KDC answers",
        versions=(V4,),
        quick=(V4,),
        environment=_no_kdc,
    ),
    Refusal(
        name="protection below the connection's minimum",
        kind=_TLS,
        endpoint=_with(_TLS, _keytab(_PRIVACY)),
        error=_FINAL,
        words="offers authentication.*requires at least privacy",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="token at a metastore that offers no protection",
        kind=_ONLY.format("authentication"),
        endpoint=_with(
            _ONLY.format("authentication"), _token(_ONLY.format("authentication"), None)
        ),
        error=_FINAL,
        words="offers authentication.*requires at least integrity",
        versions=(V4,),
    ),
    Refusal(
        name="cancelled token",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _cancelled),
        error=_FOR_NOW,
        words="has expired, was cancelled",
        quick=(V4, V3),
    ),
    Refusal(
        name="expired token",
        kind="kerberos, short tokens",
        endpoint=_with("kerberos, short tokens", _lapsed),
        error=_FOR_NOW,
        words="has expired, was cancelled",
    ),
    Refusal(
        name="token of a different metastore",
        kind=_KERBEROS,
        endpoint=_with(_TLS, _token(_KERBEROS)),
        error=_FOR_NOW,
        words="belongs to another metastore",
        versions=(V4,),
    ),
    Refusal(
        name="wrong password",
        kind=_TLS,
        endpoint=_with(_TLS, _wrong_password),
        error=_FINAL,
        words="password from file .*wrong.password is wrong",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="password to a metastore that requires Kerberos",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _wrong_password),
        error=_FINAL,
        words="Unsupported mechanism type PLAIN",
        quick=(V4, V3),
    ),
    Refusal(
        name="no login to a metastore that requires Kerberos",
        kind=_KERBEROS,
        endpoint=_with(_KERBEROS, _nobody, call_timeout_s=5.0),
        error=_FOR_NOW,
        words="a required login",
        quick=(V4, V3),
    ),
    Refusal(
        name="Kerberos to a metastore without logins",
        kind="plain",
        endpoint=_with("plain", _fixed_service, connect_timeout_s=5.0),
        error=_FOR_NOW,
        words="broke off the login by GSSAPI|not speak SASL",
        quick=(V4, V3),
    ),
    Refusal(
        name="password to a metastore without logins",
        kind="plain",
        endpoint=_with("plain", _wrong_password, connect_timeout_s=5.0),
        error=_FOR_NOW,
        words="not support SASL|not speak SASL",
        quick=(V4, V3),
    ),
    Refusal(
        name="HTTP to a metastore that expects Thrift",
        kind="plain",
        endpoint=_another_login("plain", Transport.HTTP, lambda *_: _NAME),
        error=_FOR_NOW,
        words="Hive 3.1 does not support HTTP",
        quick=(V4, V3),
    ),
    Refusal(
        name="plain connection to a metastore that requires TLS",
        kind=_TLS,
        endpoint=_another_login(_TLS, Transport.PLAIN, _wrong_password),
        error=_FOR_NOW,
        words="require TLS|not speak SASL",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="Thrift to a metastore that expects HTTPS",
        kind=_JWT,
        endpoint=_another_login(_JWT, Transport.PLAIN, _nobody),
        error=_FOR_NOW,
        words="TLS",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="HTTP to a metastore that expects HTTPS",
        kind=_JWT,
        endpoint=_another_login(_JWT, Transport.HTTP, lambda *_: _NAME),
        error=_FOR_NOW,
        words="URI must say http or https|HTTP 400",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="expired JWT",
        kind=_JWT,
        endpoint=_with(_JWT, _expired_bearer),
        error=_FOR_NOW,
        words="HTTP 401: it rejects this login: the bearer token has expired",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="JWT with an unknown signer",
        kind=_JWT,
        endpoint=_with(_JWT, _forged),
        error=_FOR_NOW,
        words="HTTP 401.*its signer is not trusted",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="user name to a metastore that requires a JWT",
        kind=_JWT,
        endpoint=_with(_JWT, lambda *_: _NAME),
        error=_FOR_NOW,
        words="requires a bearer token",
        versions=(V4,),
        quick=(V4,),
    ),
    Refusal(
        name="wrong path",
        kind=_JWT,
        endpoint=_wrong_path,
        error=_FOR_NOW,
        words="HTTP 405: the path is wrong",
        versions=(V4,),
        quick=(V4,),
    ),
)


# ---- a proxy that wants a certificate ------------------------------------------------------------


@contextmanager
def _terminated(lab: LoginLab, endpoint: MetastoreEndpoint) -> Iterator[MetastoreEndpoint]:
    """The same metastore behind a terminator of TLS that wants a client's certificate."""
    files = lab.certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.file("server.pem"), files.file("server.key"))
    context.load_verify_locations(files.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    port = int(endpoint.uris[0].rpartition(":")[2])
    with Relay(port, tls=context) as relay:
        yield replace(
            endpoint,
            uris=(relay.uri.replace("127.0.0.1", "localhost"),),
            transport=Transport.TLS,
            ca_certificate=str(files.authority),
            client_certificate=str(files.file("client.pem")),
            client_key=str(files.file("client.key")),
        )


def quick(cases: tuple[Case, ...] | tuple[Refusal, ...]) -> list[tuple[Case | Refusal, str]]:
    """What tests try, with the versions."""
    return [(case, version) for case in cases for version in case.quick]


def closed() -> None:
    """Ends what plays a silent KDC."""
    while _listeners:
        _listeners.pop().close()

"""The login cases in words: what a real metastore must accept, and what it must refuse.

`QUICK` ones run in `make test`, all in `make clusters`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from airflow_hiveacid.format.errors import (
    HiveAcidError,
    MetastoreLoginError,
    MetastoreUnavailableError,
)
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.jobs.logins import (
    BearerLogin,
    HeaderLogin,
    KerberosLogin,
    Login,
    PasswordLogin,
    Protection,
    SecretSource,
    TokenLogin,
)
from airflow_hiveacid.metastore.client.metastore_client import connect
from tests.contract.relay import Relay
from tests.support.login_lab import PASSWORD, SERVICE, V3, V4, LoginLab, environ, live, skew
from tests.support.logins.openssl import make_signer, write_private


@dataclass(frozen=True)
class Case:
    """A login that one kind of metastore takes; tests try it at the versions of `quick`."""

    name: str
    kind: str
    login: Callable[[LoginLab, str], Login]
    _: KW_ONLY
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


@dataclass(frozen=True)
class Refusal:
    """What must not be let in, and the error that says so; tests try it if it is quick."""

    name: str
    kind: str
    endpoint: Callable[[LoginLab, str], MetastoreEndpoint]
    error: type[HiveAcidError]
    words: str
    _: KW_ONLY
    versions: tuple[str, ...] = (V4,)
    is_quick: bool = True
    environment: Callable[[LoginLab], dict[str, str]] = lambda _: {}

    @property
    def quick(self) -> tuple[str, ...]:
        return self.versions if self.is_quick else ()

    def run(self, lab: LoginLab, version: str) -> HiveAcidError:
        """Tries it, and gives the error."""
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


def _by_name(_: LoginLab, __: str) -> Login:
    return HeaderLogin(user="etl")


_INTEGRITY, _PRIVACY = Protection.INTEGRITY, Protection.PRIVACY
_KERBEROS, _TLS, _JWT = "kerberos", "kerberos and LDAP in TLS", "HTTPS by JWT"
_BOTH = (V4, V3)
_SHORT, _ONLY = "kerberos, short tokens", "kerberos, {} only"
_AUTHENTICATED = _ONLY.format("authentication")
CASES: Final = (
    Case("Kerberos by keytab, auth-conf", _KERBEROS, _keytab(_PRIVACY), quick=_BOTH),
    Case("Kerberos by cache, auth-conf", _KERBEROS, _cache, quick=(V4,)),
    Case("Kerberos, complete principal instead of _HOST", _KERBEROS, _fixed_service),
    Case("Kerberos by keytab, auth", _AUTHENTICATED, _keytab()),
    Case("Kerberos by keytab, auth-int", _ONLY.format("integrity"), _keytab(_INTEGRITY)),
    Case("Kerberos, metastore that requires auth-conf", _ONLY.format("privacy"), _keytab()),
    Case("token, auth-conf", _KERBEROS, _token(_KERBEROS, _PRIVACY), quick=_BOTH),
    Case("token, auth", _AUTHENTICATED, _token(_AUTHENTICATED)),
    Case(
        "token, auth-int", _ONLY.format("integrity"), _token(_ONLY.format("integrity"), _INTEGRITY)
    ),
    Case("token in a container's file", _KERBEROS, _container, quick=(V4,)),
    Case("token of a proxy user", _KERBEROS, _proxied, quick=(V4,)),
    Case("token from a token", _KERBEROS, _chained, quick=(V3,)),
    Case(
        "token from a token, after the maximum lifetime of the first token",
        _SHORT,
        _longer_than_a_token,
    ),
    Case("Kerberos within TLS", "kerberos in TLS", _keytab(), versions=(V3,)),
    Case(
        "Kerberos within TLS, metastore that also allows LDAP",
        _TLS,
        _keytab(),
        versions=(V4,),
        quick=(V4,),
    ),
    Case("token within TLS", "kerberos in TLS", _token("kerberos in TLS")),
    Case(
        "client certificate and Kerberos",
        _KERBEROS,
        _fixed_service,
        quick=(V4,),
        is_behind_terminator=True,
    ),
    Case(
        "client certificate and password",
        "kerberos and a user",
        _of_settings,
        versions=(V4,),
        is_behind_terminator=True,
    ),
    Case("LDAP password within TLS", _TLS, _password, versions=(V4,), quick=(V4,)),
    Case(
        "LDAP password within TLS, metastore without Kerberos",
        "LDAP in TLS",
        _password,
        versions=(V4,),
    ),
    Case(
        "password from the metastore's settings, within TLS",
        "a user in TLS",
        _of_settings,
        versions=(V4,),
    ),
    Case(
        "password from the metastore's settings, metastore that also allows Kerberos",
        "kerberos and a user",
        _of_settings,
        versions=(V4,),
    ),
    Case(
        "password that a Java class of the metastore checks, within TLS",
        "a class in TLS",
        _of_settings,
        versions=(V4,),
    ),
    Case("HTTP by name", "HTTP by name", _by_name, versions=(V4,)),
    Case("HTTPS by name", "HTTPS by name", _by_name, versions=(V4,)),
    Case("HTTP by JWT", "HTTP by JWT", _bearer, versions=(V4,)),
    Case("HTTPS by JWT", _JWT, _bearer, versions=(V4,), quick=(V4,)),
)


# ---- what is not ---------------------------------------------------------------------------------


def _with(
    kind: str, login: Callable[[LoginLab, str], Login | None], **changes: object
) -> Callable[[LoginLab, str], MetastoreEndpoint]:
    return lambda lab, version: lab.endpoint(kind, version, login(lab, version), **changes)


def _refused(
    name: str,
    kind: str,
    login: Callable[[LoginLab, str], Login | None],
    error: type[HiveAcidError],
    words: str,
    *,
    terms: Mapping[str, float] = MappingProxyType({}),
    **more: Any,  # noqa: ANN401 - fields of the refusal
) -> Refusal:
    """A login that the metastore of this kind refuses; `terms` are of its connection."""
    return Refusal(name, kind, _with(kind, login, **terms), error, words, **more)


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
REFUSALS: Final = (
    _refused("outdated keytab", _KERBEROS, _stale, _FINAL, "old key of carol"),
    _refused("keytab of a different principal", _KERBEROS, _of_another, _FINAL, "no key of alice"),
    _refused("unknown principal", _KERBEROS, _deleted, _FINAL, "does not know gone@"),
    _refused(
        "service that the KDC does not know",
        _KERBEROS,
        _unknown_service,
        _FINAL,
        "does not know the metastore as hive/nowhere",
    ),
    _refused(
        "service name of a different server",
        _KERBEROS,
        _other_service,
        _FINAL,
        "GSS initiate failed.*hive/other",
        versions=_BOTH,
    ),
    _refused("expired ticket", _KERBEROS, _expired, _FOR_NOW, "tickets have expired"),
    _refused("clock difference", _KERBEROS, _skewed, _FOR_NOW, "clock"),
    _refused("no tickets", _KERBEROS, _no_tickets, _FOR_NOW, "there are no tickets"),
    _refused(
        "KDC that does not respond",
        _KERBEROS,
        _keytab(),
        _FOR_NOW,
        "KDC did not answer within 1 s",
        environment=_silent_kdc,
        terms={"connect_timeout_s": 1.0},
    ),
    _refused("no KDC", _KERBEROS, _keytab(), _FOR_NOW, "no KDC answers", environment=_no_kdc),
    _refused(
        "protection below the connection's minimum",
        _TLS,
        _keytab(_PRIVACY),
        _FINAL,
        "offers authentication.*requires at least privacy",
    ),
    _refused(
        "token at a metastore that offers no protection",
        _AUTHENTICATED,
        _token(_AUTHENTICATED, None),
        _FINAL,
        "offers authentication.*requires at least integrity",
        is_quick=False,
    ),
    _refused(
        "cancelled token",
        _KERBEROS,
        _cancelled,
        _FOR_NOW,
        "has expired, was cancelled",
        versions=_BOTH,
    ),
    _refused(
        "expired token",
        _SHORT,
        _lapsed,
        _FOR_NOW,
        "has expired, was cancelled",
        versions=_BOTH,
        is_quick=False,
    ),
    Refusal(
        "token of a different metastore",
        _KERBEROS,
        _with(_TLS, _token(_KERBEROS)),
        _FOR_NOW,
        "belongs to another metastore",
        is_quick=False,
    ),
    _refused(
        "wrong password",
        _TLS,
        _wrong_password,
        _FINAL,
        "password from file .*wrong.password is wrong",
    ),
    _refused(
        "password to a metastore that requires Kerberos",
        _KERBEROS,
        _wrong_password,
        _FINAL,
        "Unsupported mechanism type PLAIN",
        versions=_BOTH,
    ),
    _refused(
        "no login to a metastore that requires Kerberos",
        _KERBEROS,
        _nobody,
        _FOR_NOW,
        "a required login",
        versions=_BOTH,
        terms={"call_timeout_s": 5.0},
    ),
    _refused(
        "Kerberos to a metastore without logins",
        "plain",
        _fixed_service,
        _FOR_NOW,
        "broke off the login by GSSAPI|not speak SASL",
        versions=_BOTH,
        terms={"connect_timeout_s": 5.0},
    ),
    _refused(
        "password to a metastore without logins",
        "plain",
        _wrong_password,
        _FOR_NOW,
        "not support SASL|not speak SASL",
        versions=_BOTH,
        terms={"connect_timeout_s": 5.0},
    ),
    Refusal(
        "HTTP to a metastore that expects Thrift",
        "plain",
        _another_login("plain", Transport.HTTP, _by_name),
        _FOR_NOW,
        "Hive 3.1 does not support HTTP",
        versions=_BOTH,
    ),
    Refusal(
        "plain connection to a metastore that requires TLS",
        _TLS,
        _another_login(_TLS, Transport.PLAIN, _wrong_password),
        _FOR_NOW,
        "require TLS|not speak SASL",
    ),
    Refusal(
        "Thrift to a metastore that expects HTTPS",
        _JWT,
        _another_login(_JWT, Transport.PLAIN, _nobody),
        _FOR_NOW,
        "TLS",
    ),
    Refusal(
        "HTTP to a metastore that expects HTTPS",
        _JWT,
        _another_login(_JWT, Transport.HTTP, _by_name),
        _FOR_NOW,
        "URI must say http or https|HTTP 400",
    ),
    _refused(
        "expired JWT",
        _JWT,
        _expired_bearer,
        _FOR_NOW,
        "HTTP 401: it rejects this login: the bearer token has expired",
    ),
    _refused(
        "JWT with an unknown signer", _JWT, _forged, _FOR_NOW, "HTTP 401.*its signer is not trusted"
    ),
    _refused(
        "user name to a metastore that requires a JWT",
        _JWT,
        _by_name,
        _FOR_NOW,
        "requires a bearer token",
    ),
    Refusal("wrong path", _JWT, _wrong_path, _FOR_NOW, "HTTP 405: the path is wrong"),
)


# ---- a proxy that wants a certificate ------------------------------------------------------------


@contextmanager
def _terminated(lab: LoginLab, endpoint: MetastoreEndpoint) -> Iterator[MetastoreEndpoint]:
    """The same metastore behind a terminator of TLS that wants a client's certificate."""
    files = lab.certificates
    port = int(endpoint.uris[0].rpartition(":")[2])
    with Relay(port, tls=files.server_context(wants_client=True)) as relay:
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

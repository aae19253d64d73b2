"""The login cases in words: what a real metastore must accept, and what it must refuse.

They are in login_cases.toml. `quick` ones run in `make test`, all in `make clusters`.
"""

from __future__ import annotations

import socket
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.endpoint import (
    BearerLogin,
    HeaderLogin,
    KerberosLogin,
    Login,
    MetastoreEndpoint,
    PasswordLogin,
    Protection,
    SecretSource,
    TokenLogin,
    Transport,
)
from airflow_hiveacid.metastore.client import connect
from tests.contract.relay import Relay
from tests.support.login_lab import PASSWORD, SERVICE, V3, V4, LoginLab, environ, live, skew
from tests.support.logins.openssl import make_signer, write_private

_Made = Callable[[LoginLab, str], Login | None]


@dataclass(frozen=True)
class Case:
    """A login that one kind of metastore takes; tests try it at the versions of `quick`."""

    name: str
    kind: str
    login: _Made
    _: KW_ONLY
    versions: tuple[str, ...]
    quick: tuple[str, ...]
    is_behind_terminator: bool

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
    error: type[errors.HiveAcidError]
    words: str
    _: KW_ONLY
    versions: tuple[str, ...]
    is_quick: bool
    environment: Callable[[LoginLab], dict[str, str]]

    @property
    def quick(self) -> tuple[str, ...]:
        return self.versions if self.is_quick else ()

    def run(self, lab: LoginLab, version: str) -> errors.HiveAcidError:
        """Tries it, and gives the error."""
        with environ(lab.environment):
            endpoint = self.endpoint(lab, version)
            with environ(self.environment(lab)), connect(endpoint) as client:
                try:
                    client.valid_txns()
                except errors.HiveAcidError as error:
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


# ---- what is not ---------------------------------------------------------------------------------


def _with(
    kind: str, login: _Made, **changes: object
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


def _at_path(path: str, login: _Made) -> Callable[[LoginLab, str], MetastoreEndpoint]:
    """Calls another path than the metastore's."""

    def made(lab: LoginLab, version: str) -> MetastoreEndpoint:
        endpoint = lab.endpoint("HTTPS by JWT", version, login(lab, version))
        return replace(endpoint, uris=(endpoint.uris[0].replace("/metastore", path),))

    return made


def _another_login(
    kind: str, transport: Transport, login: _Made
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


# ---- the cases of the file -----------------------------------------------------------------------

_LOGINS: Final[Mapping[str, _Made]] = {
    made.__name__.strip("_").replace("_", " "): made
    for made in (
        *(_fixed_service, _cache, _container, _proxied, _chained, _longer_than_a_token, _password),
        *(_of_settings, _bearer, _by_name, _stale, _deleted, _of_another, _other_service, _forged),
        *(_unknown_service, _expired, _skewed, _no_tickets, _wrong_password, _cancelled, _lapsed),
        *(_expired_bearer, _nobody),
    )
}
_ERRORS: Final[Mapping[str, type[errors.HiveAcidError]]] = {
    "final": errors.MetastoreLoginError,
    "for now": errors.MetastoreUnavailableError,
}
_ENVIRONMENTS: Final[Mapping[str, Callable[[LoginLab], dict[str, str]]]] = {
    "silent kdc": _silent_kdc,
    "no kdc": _no_kdc,
    "": lambda _: {},
}
_FILE: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def _versions(names: Sequence[str]) -> tuple[str, ...]:
    return tuple({"V4": V4, "V3": V3}[name] for name in names)


def _login_of(entry: dict[str, Any], kind: str) -> _Made:
    least = entry.get("protection", "authentication")
    match entry["login"]:
        case "keytab":
            return _keytab(Protection(least))
        case "token":
            protection = None if least == "none" else Protection(least)
            return _token(entry.get("token_of", kind), protection)
        case name:
            return _LOGINS[name]


def _endpoint_of(entry: dict[str, Any]) -> Callable[[LoginLab, str], MetastoreEndpoint]:
    kind = entry.get("metastore", entry["kind"])
    login = _login_of(entry, kind)
    if "path" in entry:
        return _at_path(entry["path"], login)
    if "transport" in entry:
        return _another_login(kind, Transport(entry["transport"]), login)
    return _with(kind, login, **entry.get("terms", {}))


CASES: Final = tuple(
    Case(
        entry["name"],
        entry["kind"],
        _login_of(entry, entry["kind"]),
        versions=_versions(entry.get("versions", ("V4", "V3"))),
        quick=_versions(entry.get("quick", ())),
        is_behind_terminator=entry.get("is_behind_terminator", False),
    )
    for entry in _FILE["login"]
)
REFUSALS: Final = tuple(
    Refusal(
        entry["name"],
        entry["kind"],
        _endpoint_of(entry),
        _ERRORS[entry["error"]],
        entry["words"],
        versions=_versions(entry.get("versions", ("V4",))),
        is_quick=entry.get("is_quick", True),
        environment=_ENVIRONMENTS[entry.get("environment", "")],
    )
    for entry in _FILE["refusal"]
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

"""The addresses and login of a metastore, as plain values without secrets."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import BearerLogin, HeaderLogin, Login, PasswordLogin
from airflow_hiveacid.jobs.time_limits import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S


class Transport(enum.Enum):
    """The protocol that carries Thrift messages to the metastore."""

    PLAIN = "plain"
    TLS = "tls"
    HTTP = "http"
    HTTPS = "https"

    @property
    def is_http(self) -> bool:
        """True if each call is an HTTP request."""
        return self in {Transport.HTTP, Transport.HTTPS}

    @property
    def is_encrypted(self) -> bool:
        """True if the transport uses TLS."""
        return self in {Transport.TLS, Transport.HTTPS}

    @property
    def scheme(self) -> str:
        """The URI scheme of addresses for this transport."""
        return self.value if self.is_http else "thrift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metastore:
    """One metastore: the addresses of its servers, the login, and time limits.

    `uris` are `thrift://host:port`, or over HTTP `http(s)://host:port/path`. The client tries the
    URIs in the given order. `user` is the owner of locks. Without a `login`, the client calls
    `set_ugi` with `user`. If `user` is None, the client does not call `set_ugi`.
    """

    uris: tuple[str, ...]
    transport: Transport = Transport.PLAIN
    login: Login | None = None
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    verify_host: bool = True
    user: str | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    call_timeout_s: float = CALL_TIMEOUT_S

    def __post_init__(self) -> None:
        problem = login_problem(self.transport, self.login)
        if problem is not None:
            raise ConfigurationError(f"metastore {', '.join(self.uris)}: {problem}")


MetastoreEndpoint = Metastore
"""The internal name of the class; users import `Metastore` from `airflow_hiveacid.acid`."""


def login_problem(transport: Transport, login: Login | None) -> str | None:
    """Return why the login cannot use the transport; None if it can."""
    over_http = isinstance(login, BearerLogin | HeaderLogin)
    if transport.is_http and not over_http:
        return f"transport {transport.value} supports login by header or bearer token only"
    if over_http and not transport.is_http:
        return f"header and bearer token need transport http or https, not {transport.value}"
    match login:
        case PasswordLogin() | BearerLogin() if not (transport.is_encrypted or login.in_clear):
            return (
                f"the secret would be sent in clear text over transport {transport.value}; use"
                f" {'https' if transport.is_http else 'tls'}, or set secret_in_clear if you"
                " trust the network"
            )
        case _:
            return None

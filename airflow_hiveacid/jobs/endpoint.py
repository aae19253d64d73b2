"""How to reach a metastore, as plain values that cross the seam.

Two choices that do not depend on each other: what carries the bytes, and who logs in how. Paths of
files and names of variables, never their content: no secret is in here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import (
    BearerLogin,
    HeaderLogin,
    Login,
    PasswordLogin,
)


class Transport(enum.Enum):
    """How bytes travel to the metastore."""

    PLAIN = "plain"
    TLS = "tls"
    HTTP = "http"
    HTTPS = "https"

    @property
    def is_http(self) -> bool:
        """Whether each call is an HTTP request."""
        return self in {Transport.HTTP, Transport.HTTPS}

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS lies below."""
        return self in {Transport.TLS, Transport.HTTPS}

    @property
    def scheme(self) -> str:
        """How an address of this kind begins, before `://`."""
        return self.value if self.is_http else "thrift"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreEndpoint:
    """One metastore service: its servers in the order they are tried, and every bound on waiting.

    `uris` are `thrift://host:port`, or `http(s)://host:port/path` as the transport is. `user` names
    the owner of locks; without a `login` it is announced with `set_ugi`. None announces nobody.
    """

    uris: tuple[str, ...]
    transport: Transport = Transport.PLAIN
    login: Login | None = None
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    verify_host: bool = True
    user: str | None = None
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        problem = login_problem(self.transport, self.login)
        if problem is not None:
            raise ConfigurationError(f"metastore {', '.join(self.uris)}: {problem}")


def login_problem(transport: Transport, login: Login | None) -> str | None:
    """Why this login cannot go over this transport; None if it can."""
    over_http = isinstance(login, BearerLogin | HeaderLogin)
    if transport.is_http and not over_http:
        return f"over transport {transport.value} one logs in by header or bearer token only"
    if over_http and not transport.is_http:
        return f"header and bearer token need transport http or https, not {transport.value}"
    match login:
        case PasswordLogin() | BearerLogin() if not (transport.is_encrypted or login.in_clear):
            return (
                f"the secret would travel in clear over transport {transport.value}; take"
                f" {'https' if transport.is_http else 'tls'}, or set secret_in_clear if the"
                " network between is trusted"
            )
        case _:
            return None

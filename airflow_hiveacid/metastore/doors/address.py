"""Where a metastore server listens, and what it means that nobody can talk to it.

Example:
    >>> parse_uri("thrift://hms-1")
    Address(host='hms-1', port=9083, scheme='thrift', path='')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import Transport

DEFAULT_PORT: Final = 9083
DEFAULT_PATH: Final = "/metastore"
"""What a metastore serves over HTTP unless it is told otherwise."""

# RFC 3986, 3.3; anything else would have to be written as %20 and the like.
_PATH: Final = re.compile(r"[A-Za-z0-9/%._~!$&'()*+,;=:@-]*\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """Where one server listens; `path` is empty unless it speaks HTTP."""

    host: str
    port: int
    scheme: str = "thrift"
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class ConnectError(Exception):
    """One address could not be reached; the text says why. Never leaves this room."""


class LoginRefusedError(ConnectError):
    """Whoever was asked said no, and would say no again: the login has to change."""


class CountedRefusalError(LoginRefusedError):
    """The user's password or key was wrong: who tries on is counted, and locks the account."""


class NotAdmittedError(TTransportException):  # type: ignore[misc] # Thrift has no types
    """A call was turned away with its login, or had nobody to be sent to: it was not done.

    Leaves `metastore/connection.py` as little as `ConnectError` does.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(TTransportException.UNKNOWN, reason)


def parse_uri(uri: str, transport: Transport = Transport.PLAIN) -> Address:
    """Read `thrift://host[:port]` or `http(s)://host[:port][/path]`; the port is 9083 if left out.

    Raises:
        ConfigurationError: the text has another form, or another scheme than the transport's.
    """
    try:
        parts = urlsplit(uri.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    path = parts.path.rstrip("/")
    can_be_sent = _can_be_looked_up(host or "") and _PATH.match(path)
    is_plain = not set("@?#") & set(uri)
    has_form = parts.scheme == transport.scheme and host and can_be_sent and is_plain
    if not has_form or (path and not transport.is_http):
        form = f"{transport.scheme}://host:port{'/path' if transport.is_http else ''}"
        shown = uri if is_plain else "with a user, a query or a fragment"
        raise ConfigurationError(
            f"metastore address {shown!r} is not of the form {form}, as transport"
            f" {transport.value} wants it; give each server an address of its own"
        )
    if transport.is_http:
        path = path or DEFAULT_PATH
    return Address(host or "", DEFAULT_PORT if port is None else port, transport.scheme, path)


def _can_be_looked_up(host: str) -> bool:
    # What Python does to a name before it asks for it, and raises as no error of a connection.
    try:
        return "\0" not in host and bool(host.encode("idna"))
    except UnicodeError:
        return False

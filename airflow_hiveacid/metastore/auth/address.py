"""Addresses of metastore servers, and the errors of a failed connection or login.

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
"""The path that a metastore serves over HTTP by default."""

# The characters that a URI path may contain without percent-encoding (RFC 3986, 3.3).
_PATH: Final = re.compile(r"[A-Za-z0-9/%._~!$&'()*+,;=:@-]*\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one server; `path` is empty unless the server uses HTTP."""

    host: str
    port: int
    scheme: str = "thrift"
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class ConnectError(Exception):
    """An address could not be reached, for the reason in the message; this package catches it."""


class LoginRefusedError(ConnectError):
    """The server or KDC refused the login and will refuse each retry with the same login."""


class CountedRefusalError(LoginRefusedError):
    """The password or key was wrong; too many such logins lock an account."""


class NotAdmittedError(TTransportException):  # type: ignore[misc] # Thrift has no types
    """A call was not executed: the login was refused, or no server could be reached."""

    def __init__(self, reason: str) -> None:
        super().__init__(TTransportException.UNKNOWN, reason)


def parse_uri(uri: str, transport: Transport = Transport.PLAIN) -> Address:
    """Parse `thrift://host[:port]` or `http(s)://host[:port][/path]`; the default port is 9083."""
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
            f"metastore address {shown!r} is not of the form {form}, which transport"
            f" {transport.value} requires; list each server as a separate address"
        )
    if transport.is_http:
        path = path or DEFAULT_PATH
    return Address(host or "", DEFAULT_PORT if port is None else port, transport.scheme, path)


def _can_be_looked_up(host: str) -> bool:
    # Python encodes a host name with IDNA before the lookup. If the encoding fails, Python raises
    # UnicodeError.
    try:
        return "\0" not in host and bool(host.encode("idna"))
    except UnicodeError:
        return False

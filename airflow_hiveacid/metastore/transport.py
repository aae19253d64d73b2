"""How bytes reach one metastore server: plain TCP or TLS, with a bound on every wait.

Takes a `MetastoreEndpoint` and one address of it, gives an open Thrift transport or an error that
says why not. Knows no call and no second address. SASL and HTTP become further members of
`Transport` with an opener here; nobody above sees a difference.

Example:
    >>> parse_uri("thrift://hms-1:9083")
    Address(host='hms-1', port=9083)
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from thrift.transport.TTransport import TTransportBase

DEFAULT_PORT: Final = 9083
# Large answers, such as partition lists, come in few reads.
_BUFFER_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where one server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"thrift://{self.host}:{self.port}"


class ConnectError(Exception):
    """One address could not be reached; the text says why. Never leaves this room."""


def parse_uri(uri: str) -> Address:
    """Read `thrift://host[:port]`; the port is 9083 if left out.

    Raises:
        ConfigurationError: the text has another form.
    """
    try:
        parts = urlsplit(uri.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "thrift" or not host or parts.path.strip("/"):
        raise ConfigurationError(
            f"metastore address {uri!r} is not of the form thrift://host:port; give each server an"
            " address of its own"
        )
    return Address(host, DEFAULT_PORT if port is None else port)


def open_transport(endpoint: MetastoreEndpoint, address: Address) -> TTransportBase:
    """Connect to one address.

    Connecting and each later read or write wait no longer than the endpoint's bounds.

    Raises:
        ConnectError: nobody answers there, or the TLS handshake failed.
        ConfigurationError: a certificate file is missing or unreadable.
    """
    socket = _OPENERS[endpoint.transport](endpoint, address)
    socket.setTimeout(endpoint.connect_timeout_s * 1000)
    try:
        socket.open()
    except TTransportException as error:
        raise ConnectError(f"{address}: {_reason(error)}") from error
    socket.setTimeout(endpoint.call_timeout_s * 1000)
    return TBufferedTransport(socket, _BUFFER_BYTES)


def _plain(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    del endpoint
    return TSocket(address.host, address.port, socket_keepalive=True)


def _tls(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    checks = {} if endpoint.verify_host else {"validate_callback": _any_host}
    return TSSLSocket(
        address.host,
        address.port,
        ssl_context=_tls_context(endpoint),
        socket_keepalive=True,
        **checks,
    )


def _any_host(certificate: object, host: object) -> None:
    """Accept every host name: TSSLSocket looks at the name again, whatever the context says."""


def _tls_context(endpoint: MetastoreEndpoint) -> ssl.SSLContext:
    try:
        # Without a CA file of its own the endpoint trusts what this machine trusts.
        context = ssl.create_default_context(cafile=endpoint.ca_certificate)
        if endpoint.client_certificate is not None:
            # The empty password makes an encrypted key an error; else OpenSSL would ask at the
            # terminal.
            context.load_cert_chain(endpoint.client_certificate, endpoint.client_key, password=str)
    except (OSError, ssl.SSLError) as error:
        files = (endpoint.ca_certificate, endpoint.client_certificate, endpoint.client_key)
        raise ConfigurationError(
            f"cannot use the TLS files {', '.join(f for f in files if f)}: {error}. They must be"
            " readable PEM files, the key without a password"
        ) from error
    context.check_hostname = endpoint.verify_host
    return context


_OPENERS: Final[Mapping[Transport, Callable[[MetastoreEndpoint, Address], TSocket]]] = {
    Transport.PLAIN: _plain,
    Transport.TLS: _tls,
}


def _reason(error: TTransportException) -> str:
    cause = getattr(error, "inner", None)
    return str(cause) if cause is not None else str(error)

"""Connected sockets to one server, with or without TLS, and a check that the server is alive.

The time-out limits a whole call: from the last write to the last read of the response.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.auth import BoundedSocket, BoundedTlsSocket, bounded
from airflow_hiveacid.metastore.auth.address import Address, ConnectError
from airflow_hiveacid.metastore.auth.refusals import OUTAGES

# Thrift logs each failure to connect with a traceback. The caller logs it, or raises an error.
_is_opening: Final[ContextVar[bool]] = ContextVar("hiveacid_is_opening", default=False)
for _name in (TSocket.__module__, TSSLSocket.__module__):
    logging.getLogger(_name).addFilter(lambda _: not _is_opening.get())

_log = logging.getLogger(__name__)


def open_socket(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    """Connect, or raise ConnectError; the time-out is `connect_timeout_s` until it is changed."""
    thrift_socket = _tls(endpoint, address) if endpoint.transport.is_encrypted else _plain(address)
    thrift_socket.setTimeout(endpoint.connect_timeout_s * 1000)
    token = _is_opening.set(True)
    try:
        thrift_socket.open()
    except TTransportException as error:
        raise ConnectError(f"{address}: {_reason(error)}") from error
    finally:
        _is_opening.reset(token)
    return thrift_socket


def connect_named(
    address: tuple[str, int], timeout: float, source_address: None = None
) -> BoundedSocket:
    """Connect as `socket.create_connection`, but with a time limit on the name lookup."""
    del source_address  # http.client passes this argument
    trouble = OSError(f"{address[0]} has no address")
    addresses = _look_up(
        partial(socket.getaddrinfo, *address, type=socket.SOCK_STREAM), address[0], timeout
    )
    for *_, resolved in OUTAGES.tried(addresses):
        try:
            connected = socket.create_connection(resolved[:2], timeout)
        except OSError as error:
            trouble = error
        else:
            # without this call, the file descriptor would stay non-blocking
            connected.settimeout(None)
            bound = BoundedSocket(fileno=connected.detach())
            bound.settimeout(timeout)
            return bound
    raise trouble


def _look_up(ask: Callable[[], list[Any]], host: str, timeout_s: float) -> list[Any]:
    """Look up a name with a time limit, since a silent name server would block for minutes."""
    try:
        return bounded(ask, timeout_s=timeout_s, name="hiveacid-names")
    except TimeoutError as error:
        raise TimeoutError(
            f"no name server answered for {host} within {timeout_s:g} s; see /etc/resolv.conf"
        ) from error


def is_quiet(connected: BoundedSocket | BoundedTlsSocket) -> bool:
    """Return True if a call can be sent; otherwise the caller closes the connection.

    Data that was not requested usually means that the server has closed the connection: during a
    call, the caller would not know whether it was executed. It may also be a late response, which
    the next call would read as its own.
    """
    timeout_s = connected.gettimeout()
    connected.end_within(None)
    connected.settimeout(0)
    try:
        connected.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True  # the server may have sent TLS session tickets; recv consumes the tickets
    except OSError as error:
        _log.debug("the server disconnected: %s", error)
    finally:
        connected.settimeout(timeout_s)
    return False


def tls_context(endpoint: MetastoreEndpoint) -> ssl.SSLContext:
    """Build the TLS context of the endpoint: trusted CAs and the client certificate."""
    try:
        # Without a CA file, the endpoint trusts this machine's CAs.
        context = ssl.create_default_context(cafile=endpoint.ca_certificate)
        if endpoint.client_certificate is not None:
            # `str` is called for the password and returns "", so an encrypted key causes an error.
            # Without a password argument, OpenSSL would prompt at the terminal.
            context.load_cert_chain(endpoint.client_certificate, endpoint.client_key, password=str)
    except (OSError, ssl.SSLError) as error:
        files = (endpoint.ca_certificate, endpoint.client_certificate, endpoint.client_key)
        raise ConfigurationError(
            f"cannot use the TLS files {', '.join(f for f in files if f)}: {error}. They must be"
            " readable PEM files, the key without a password"
        ) from error
    context.check_hostname = endpoint.verify_host
    context.sslsocket_class = BoundedTlsSocket
    return context


class _Bounded:
    """A mixin for Thrift's sockets that applies the time-out to name lookups and whole calls."""

    def write(self, buff: bytes) -> None:
        """Send a whole message; the message and its response share one time-out."""
        thrift: Any = self
        if thrift.handle is not None:
            thrift.handle.end_within(thrift._timeout)  # noqa: SLF001 - as its own code
        super().write(buff)  # type: ignore[misc] # Thrift has no types

    def _resolveAddr(self) -> Iterator[Any]:  # noqa: N802 - Thrift's name
        ask = super()._resolveAddr  # type: ignore[misc] # Thrift has no types
        thrift: Any = self
        try:
            addresses = _look_up(ask, thrift.host, thrift._timeout)  # noqa: SLF001 - as its own code
        except TimeoutError as error:
            raise TTransportException(TTransportException.NOT_OPEN, inner=error) from error
        return OUTAGES.tried(addresses)


class _PlainSocket(_Bounded, TSocket):  # type: ignore[misc] # Thrift has no types
    """A TSocket that uses `is_quiet` to check whether the connection is open."""

    def _do_open(self, family: int, kind: int) -> BoundedSocket:
        return BoundedSocket(family, kind)

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        return self.handle is not None and is_quiet(self.handle)


class _TlsSocket(_Bounded, TSSLSocket):  # type: ignore[misc] # Thrift has no types
    """A TSSLSocket that uses `is_quiet` to check whether the connection is open."""

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        return self.handle is not None and is_quiet(self.handle)


def _plain(address: Address) -> TSocket:
    return _PlainSocket(address.host, address.port, socket_keepalive=True)


def _tls(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    checks = {} if endpoint.verify_host else {"validate_callback": _any_host}
    return _TlsSocket(
        address.host,
        address.port,
        ssl_context=tls_context(endpoint),
        socket_keepalive=True,
        **checks,
    )


def _any_host(certificate: object, host: object) -> None:
    """Accept every host name; without this callback, TSSLSocket would check host names."""


def _reason(error: TTransportException) -> str:
    cause = getattr(error, "inner", None)
    return str(cause) if cause is not None else str(error)

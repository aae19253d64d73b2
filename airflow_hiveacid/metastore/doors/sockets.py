"""A connected socket to one server, plain or TLS, whether it still is, and whom TLS trusts."""

from __future__ import annotations

import logging
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.metastore.doors.address import ConnectError
from airflow_hiveacid.metastore.doors.waits import bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.doors.address import Address

_log = logging.getLogger(__name__)


def open_socket(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    """Connect; each wait on the socket is bounded by `connect_timeout_s` until the caller says.

    Raises:
        ConnectError: nobody answers there, or the TLS handshake failed.
        ConfigurationError: a certificate file is missing or unreadable.
    """
    found = _tls(endpoint, address) if endpoint.transport.is_encrypted else _plain(address)
    found.setTimeout(endpoint.connect_timeout_s * 1000)
    try:
        found.open()
    except TTransportException as error:
        raise ConnectError(f"{address}: {_reason(error)}") from error
    return found


def connect_named(
    address: tuple[str, int], timeout: float, source_address: None = None
) -> socket.socket:
    """As `socket.create_connection`, whose look-up of the name has no end by itself.

    Raises:
        TimeoutError: the name was not found out in time.
        OSError: nobody answers at any of its addresses.
    """
    del source_address  # as http.client hands it on
    trouble = OSError(f"{address[0]} has no address")
    for *_, place in _look_up(partial(_of_stream, *address), address[0], timeout):
        try:
            return socket.create_connection(place[:2], timeout)
        except OSError as error:
            trouble = error
    raise trouble


def _of_stream(host: str, port: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _look_up(ask: Callable[[], list[Any]], host: str, timeout_s: float) -> list[Any]:
    """What a name server says; a silent one would hold the caller for minutes.

    Raises:
        TimeoutError: nothing, in time.
        OSError: there is no such name.
    """
    try:
        return bounded(ask, timeout_s=timeout_s, name="hiveacid-names")
    except TimeoutError as error:
        raise TimeoutError(
            f"no name server has said within {timeout_s:g} s where {host} is; see /etc/resolv.conf"
        ) from error


def is_quiet(connected: socket.socket) -> bool:
    """Whether a call can be sent: the other side is there and, as between calls, says nothing.

    What comes unasked is the server's goodbye (it ends idle connections, or itself): seen here it
    costs a new connection, seen in a call the doubt whether that was done. Or it is nobody's answer
    and would be taken for that of the next call. A connection of which this is not so is closed.
    """
    timeout_s = connected.gettimeout()
    connected.settimeout(0)
    try:
        connected.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True  # TLS may have sent tickets for its next session, which are read now
    except OSError as error:
        _log.debug("the other side went away: %s", error)
    finally:
        connected.settimeout(timeout_s)
    return False


def tls_context(endpoint: MetastoreEndpoint) -> ssl.SSLContext:
    """Whom to trust and what to show, as the endpoint says.

    Raises:
        ConfigurationError: a certificate file is missing or unreadable.
    """
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


class _Named:
    """Mixed into Thrift's sockets: the look-up of a name ends when connecting would."""

    def _resolveAddr(self) -> list[Any]:  # noqa: N802 - Thrift's name
        ask = super()._resolveAddr  # type: ignore[misc] # Thrift has no types
        thrift: Any = self
        try:
            return _look_up(ask, thrift.host, thrift._timeout)  # noqa: SLF001 - as its own code
        except TimeoutError as error:
            raise TTransportException(TTransportException.NOT_OPEN, inner=error) from error


class _PlainSocket(_Named, TSocket):  # type: ignore[misc] # Thrift has no types
    """TSocket, with our own look at whether it is open."""

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        return self.handle is not None and is_quiet(self.handle)


class _TlsSocket(_Named, TSSLSocket):  # type: ignore[misc] # Thrift has no types
    """TSSLSocket, which cannot see by itself that the other side has gone."""

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
    """Accept every host name: TSSLSocket looks at the name again, whatever the context says."""


def _reason(error: TTransportException) -> str:
    cause = getattr(error, "inner", None)
    return str(cause) if cause is not None else str(error)

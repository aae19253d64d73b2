"""A connected socket to one server, plain or TLS, whether it still is, and whom TLS trusts."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.metastore.doors.address import ConnectError

if TYPE_CHECKING:
    import socket

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.doors.address import Address

_log = logging.getLogger(__name__)


def open_socket(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    """Connect; each wait on the socket is bounded by `connect_timeout_s` until the caller says.

    Raises:
        ConnectError: nobody answers there, or the TLS handshake failed.
        ConfigurationError: a certificate file is missing or unreadable.
    """
    socket = _tls(endpoint, address) if endpoint.transport.is_encrypted else _plain(address)
    socket.setTimeout(endpoint.connect_timeout_s * 1000)
    try:
        socket.open()
    except TTransportException as error:
        raise ConnectError(f"{address}: {_reason(error)}") from error
    return socket


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


class _PlainSocket(TSocket):  # type: ignore[misc] # Thrift has no types
    """TSocket, with our own look at whether it is open."""

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        return self.handle is not None and is_quiet(self.handle)


class _TlsSocket(TSSLSocket):  # type: ignore[misc] # Thrift has no types
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

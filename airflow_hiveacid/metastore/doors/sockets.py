"""A connected socket to one server, plain or TLS, and whom TLS trusts."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.metastore.doors.address import ConnectError

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.doors.address import Address


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


def _plain(address: Address) -> TSocket:
    return TSocket(address.host, address.port, socket_keepalive=True)


def _tls(endpoint: MetastoreEndpoint, address: Address) -> TSocket:
    checks = {} if endpoint.verify_host else {"validate_callback": _any_host}
    return TSSLSocket(
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

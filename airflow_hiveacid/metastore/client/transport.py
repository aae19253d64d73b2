"""Opens a transport to one address of a metastore, and logs in, by the means of `auth`."""

from __future__ import annotations

from typing import Final

from thrift.transport.TTransport import TBufferedTransport, TTransportBase

from airflow_hiveacid.jobs.endpoint import (
    KerberosLogin,
    MetastoreEndpoint,
    PasswordLogin,
    TokenLogin,
)
from airflow_hiveacid.metastore.auth.address import Address, ConnectError
from airflow_hiveacid.metastore.auth.digest import DigestMd5
from airflow_hiveacid.metastore.auth.http_calls import open_http
from airflow_hiveacid.metastore.auth.kerberos import Kerberos
from airflow_hiveacid.metastore.auth.sasl import Mechanism, Plain, SaslTransport, log_in
from airflow_hiveacid.metastore.auth.sockets import open_socket
from airflow_hiveacid.metastore.auth.tokens import read_token

# Large enough to receive long responses, such as partition lists, in few reads.
_BUFFER_BYTES: Final = 64 * 1024


def open_transport(endpoint: MetastoreEndpoint, address: Address) -> TTransportBase:
    """Connect to one address and log in; secrets are read again for each connection.

    Connecting and each step of the login take at most `connect_timeout_s`. Each later call takes at
    most `call_timeout_s`, measured from its first byte to the last byte of its response.
    """
    if endpoint.transport.is_http:
        return open_http(endpoint, address)
    mechanism = _mechanism(endpoint, address)
    socket = open_socket(endpoint, address)
    if mechanism is None:
        transport: TTransportBase = TBufferedTransport(socket, _BUFFER_BYTES)
    else:
        try:
            log_in(socket, mechanism)
        except ConnectError as error:
            socket.close()
            raise type(error)(f"{address}: {error}") from error
        except BaseException:
            socket.close()
            raise
        transport = SaslTransport(socket, mechanism)
    socket.setTimeout(endpoint.call_timeout_s * 1000)
    return transport


def _mechanism(endpoint: MetastoreEndpoint, address: Address) -> Mechanism | None:
    match endpoint.login:
        case KerberosLogin() as login:
            return Kerberos(login, address.host, timeout_s=endpoint.connect_timeout_s)
        case TokenLogin() as login:
            minimum = login.least(is_encrypted=endpoint.transport.is_encrypted)
            return DigestMd5(read_token(login), minimum)
        case PasswordLogin() as login:
            return Plain(login)
        case _:  # the endpoint rejects all other logins over a socket
            return None

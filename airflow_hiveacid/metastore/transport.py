"""How bytes reach one metastore server, and who speaks: the one door for everybody above.

Takes a `MetastoreEndpoint` and one address of it, gives an open Thrift transport on which the login
is done, or an error that says why not. Knows no call and no second address. What carries bytes and
how one logs in are the business of `doors`; here they meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from thrift.transport.TTransport import TBufferedTransport

from airflow_hiveacid.jobs.logins import KerberosLogin, PasswordLogin, TokenLogin
from airflow_hiveacid.metastore.doors.address import ConnectError
from airflow_hiveacid.metastore.doors.digest import DigestMd5
from airflow_hiveacid.metastore.doors.http_calls import open_http
from airflow_hiveacid.metastore.doors.kerberos import Kerberos
from airflow_hiveacid.metastore.doors.password import Plain
from airflow_hiveacid.metastore.doors.sasl import SaslTransport, log_in
from airflow_hiveacid.metastore.doors.sockets import open_socket
from airflow_hiveacid.metastore.doors.tokens import read_token

if TYPE_CHECKING:
    from thrift.transport.TTransport import TTransportBase

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.doors.address import Address
    from airflow_hiveacid.metastore.doors.sasl import Mechanism

# Large answers, such as partition lists, come in few reads.
_BUFFER_BYTES: Final = 64 * 1024


def open_transport(endpoint: MetastoreEndpoint, address: Address) -> TTransportBase:
    """Connect to one address and log in.

    Connecting, each step of the login and each later read or write wait no longer than the
    endpoint's bounds. Secrets are read now.

    Raises:
        LoginRefusedError: the login is not taken, and would not be later.
        ConnectError: nobody answers there, or the TLS handshake or the login failed.
        ConfigurationError: a file or variable that the endpoint names is missing or unreadable.
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
            return DigestMd5(read_token(login), login.protection)
        case PasswordLogin() as login:
            return Plain(login)
        case _:  # the endpoint itself refuses the logins of HTTP here
            return None

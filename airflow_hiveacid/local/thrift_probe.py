"""A probe of a Hive metastore on a port, without any Thrift library.

The probe sends one call, `get_all_databases`, in Thrift's binary protocol. The call has no
argument, is the same in every release, and needs the server's database. An open port is not
sufficient proof, because the server starts to listen before it can answer.

The probe does not log in, even if the server requires a login. Instead, the probe requests an
unknown kind of login, or calls without a login. The server's refusal then proves that the server
answers. A login would not prove more, because the server opens its database before it listens.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from typing import Final

from airflow_hiveacid.local.site import PLAIN, Access, Language

_VERSION_1: Final = 0x8001_0000
_CALL: Final = 1
_REPLY: Final = 2
_METHOD: Final = b"get_all_databases"
_LIST: Final = 15
_SUCCESS_FIELD: Final = 0
_STOP: Final = b"\x00"
_REQUEST: Final = (
    struct.pack(">Ii", _VERSION_1 | _CALL, len(_METHOD)) + _METHOD + struct.pack(">i", 0) + _STOP
)
# SASL statuses. A client begins with START; a server refuses a login with one of `_REFUSALS`.
_START: Final = 1
_REFUSALS: Final = (3, 4)
_NO_MECHANISM: Final = b"LOOKING"
# HTTP statuses for a successful call, and for a call without a token.
_STATUSES: Final = (b"200", b"401")


def answers(host: str, port: int, *, access: Access = PLAIN, timeout_s: float = 5.0) -> bool:
    """Return True if a metastore with this access answers on the port."""
    ask = {
        Language.THRIFT: _lists_databases,
        Language.SASL: _refuses_a_login,
        Language.HTTP: _answers_a_request,
    }[access.language]
    try:
        with _connected(host, port, access, timeout_s) as connection:
            return ask(connection)
    except OSError:
        return False


@contextlib.contextmanager
def _connected(host: str, port: int, access: Access, timeout_s: float) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        if access.authority is None:
            yield connection
            return
        context = ssl.create_default_context(cafile=access.authority)
        with context.wrap_socket(connection, server_hostname=access.host) as encrypted:
            yield encrypted


def _lists_databases(connection: socket.socket) -> bool:
    connection.sendall(_REQUEST)
    # Message type, length of the name, name, sequence number; then the field's type and number.
    head = _receive(connection, 8 + len(_METHOD) + 4 + 3)
    _hang_up(connection)
    return _is_success(head)


def _refuses_a_login(connection: socket.socket) -> bool:
    connection.sendall(struct.pack(">BI", _START, len(_NO_MECHANISM)) + _NO_MECHANISM)
    status, _ = struct.unpack(">BI", _receive(connection, 5))
    _hang_up(connection)
    return status in _REFUSALS


def _answers_a_request(connection: socket.socket) -> bool:
    head = (
        "POST /metastore HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/x-thrift\r\nx-actor-username: probe\r\n"
        f"Content-Length: {len(_REQUEST)}\r\n\r\n"
    )
    connection.sendall(head.encode() + _REQUEST)
    version, _, rest = _receive(connection, 12).partition(b" ")
    _hang_up(connection)
    return version.startswith(b"HTTP/") and rest in _STATUSES


def _is_success(head: bytes) -> bool:
    message, length = struct.unpack_from(">Ii", head)
    if message != _VERSION_1 | _REPLY or head[8 : 8 + length] != _METHOD:
        return False
    kind, number = struct.unpack_from(">bh", head, 8 + length + 4)
    return bool(kind == _LIST and number == _SUCCESS_FIELD)


def _hang_up(connection: socket.socket) -> None:
    if isinstance(connection, ssl.SSLSocket):
        return  # a TLS connection cannot be half closed
    # Closing a connection with unread bytes resets the connection, and the server would log a stack
    # trace.
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(4096):
        pass


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        received += part
    return received

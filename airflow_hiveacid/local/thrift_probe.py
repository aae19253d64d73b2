"""Knows whether a Hive metastore really answers on a port, without any Thrift library.

One call, `get_all_databases`, is written out in Thrift's binary protocol: it needs no argument, is
the same in every release, and its answer proves that the server reached its database. An open port
alone proves nothing: the server listens a moment before it can serve.

Where one has to log in, the probe does not: it asks for a login that nobody knows, or makes a call
without one, and a refusal in the server's own words is the proof that it serves. The server opens
its database before it listens, so nothing more is known of that.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.door import PLAIN, Door, Language

if TYPE_CHECKING:
    from collections.abc import Iterator

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
# Of a login by SASL: "start", and the two ways in which a server says that it goes no further.
_START: Final = 1
_REFUSALS: Final = (3, 4)
_NO_MECHANISM: Final = b"LOOKING"
# What a server says to a call without a token, and to one that it answers.
_STATUSES: Final = (b"200", b"401")


def answers(host: str, port: int, *, door: Door = PLAIN, timeout_s: float = 5.0) -> bool:
    """Tells whether a metastore with this door answers on the port."""
    ask = {
        Language.THRIFT: _lists_databases,
        Language.SASL: _refuses_a_login,
        Language.HTTP: _answers_a_request,
    }[door.language]
    try:
        with _connected(host, port, door, timeout_s) as connection:
            return ask(connection)
    except OSError:
        return False


@contextlib.contextmanager
def _connected(host: str, port: int, door: Door, timeout_s: float) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        if door.authority is None:
            yield connection
            return
        context = ssl.create_default_context(cafile=door.authority)
        with context.wrap_socket(connection, server_hostname=door.host) as encrypted:
            yield encrypted


def _lists_databases(connection: socket.socket) -> bool:
    connection.sendall(_REQUEST)
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
        return  # cannot be closed half
    # Closing on unread bytes resets the connection, which the server logs with a stack trace.
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

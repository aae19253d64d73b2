"""Knows whether a Hive metastore really answers on a port, without any Thrift library.

One call, `get_all_databases`, is written out in Thrift's binary protocol: it needs no argument, is
the same in every release, and its answer proves that the server reached its database. An open port
alone proves nothing: the server listens a moment before it can serve.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

_VERSION_1: Final = 0x8001_0000
_CALL: Final = 1
_REPLY: Final = 2
_METHOD: Final = b"get_all_databases"
_LIST: Final = 15
_SUCCESS_FIELD: Final = 0
_STOP: Final = b"\x00"


def answers(host: str, port: int, *, timeout_s: float = 5.0) -> bool:
    """Tells whether the metastore on the port answers with its list of databases."""
    request = struct.pack(">Ii", _VERSION_1 | _CALL, len(_METHOD)) + _METHOD
    request += struct.pack(">i", 0) + _STOP
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(request)
            head = _receive(connection, 8 + len(_METHOD) + 4 + 3)
            _hang_up(connection)
    except OSError:
        return False
    return _is_success(head)


def _is_success(head: bytes) -> bool:
    message, length = struct.unpack_from(">Ii", head)
    if message != _VERSION_1 | _REPLY or head[8 : 8 + length] != _METHOD:
        return False
    kind, number = struct.unpack_from(">bh", head, 8 + length + 4)
    return bool(kind == _LIST and number == _SUCCESS_FIELD)


def _hang_up(connection: socket.socket) -> None:
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

"""What administrators ask of a name node, in its own words: no JVM has to start for it.

One call a connection, as the user `root`, without Kerberos. A message of Hadoop's RPC is lengths
and fields as protobuf writes them; the numbers of fields are from ClientNamenodeProtocol.proto.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

_PROTOCOL: Final = b"org.apache.hadoop.hdfs.protocol.ClientProtocol"
_AS_IT_IS: Final = (1 << 63) - 1
_LEAVE, _ENTER = 1, 2


@contextmanager
def safe_mode(authority: str) -> Iterator[None]:
    """Let a name node take no changes in the block."""
    _call(authority, b"setSafeMode", _number(1, _ENTER))
    try:
        yield
    finally:
        _call(authority, b"setSafeMode", _number(1, _LEAVE))


def set_quota(
    authority: str, path: str, *, names: int | None = None, space_bytes: int | None = None
) -> None:
    """Say how many names, or bytes of all copies, may lie below a directory."""
    fields = _number(2, names or _AS_IT_IS) + _number(3, space_bytes or _AS_IT_IS)
    _call(authority, b"setQuota", _bytes(1, path.encode()) + fields)


def make_zone(authority: str, path: str, key: str) -> None:
    """Have what is written below a directory, which is empty, encrypted with a key of the KMS."""
    fields = _bytes(1, path.encode()) + _bytes(2, key.encode())
    _call(authority, b"createEncryptionZone", fields)


def _call(authority: str, method: bytes, message: bytes) -> None:
    host, _, port = authority.partition(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as sock:
        sock.sendall(b"hrpc" + bytes((9, 0, 0)))
        context = _bytes(2, _bytes(1, b"root")) + _bytes(3, _PROTOCOL)
        sock.sendall(_frame(_header(-3), context))
        request = _bytes(1, method) + _bytes(2, _PROTOCOL) + _number(3, 1)
        sock.sendall(_frame(_header(0), request, message))
        answer = _exactly(sock, int.from_bytes(_exactly(sock, 4), "big"))
    # call ID, then the status: field 2, a number; 0 is success
    head = answer[1 : 1 + answer[0]]
    assert b"\x10\x00" in head[:6], answer


def _header(call: int) -> bytes:
    zigzag = call * 2 if call >= 0 else -call * 2 - 1
    return _number(1, 2) + _number(2, 0) + _number(3, zigzag) + _bytes(4, uuid.uuid4().bytes)


def _frame(*messages: bytes) -> bytes:
    body = b"".join(_varint(len(m)) + m for m in messages)
    return len(body).to_bytes(4, "big") + body


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = sock.recv(count - len(found))
        assert piece, "the name node has hung up"
        found += piece
    return found

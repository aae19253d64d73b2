"""A stub metastore behind a SASL login, with frames as Java's TSaslServerTransport has them.

The server's halves of the mechanisms are written from their RFCs, apart from the client's.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, Protocol

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportBase

from tests.contract.processor import Struct
from tests.contract.stub_server import StubServer

START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
_NONCE: Final = b"an=odd,nonce"


def _md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)


class Refusal(Exception):  # noqa: N818 - no error of the test
    """The server's half does not take a login."""


class ServerHalf(Protocol):
    """One login, from the server's side."""

    name: str

    def respond(self, response: bytes) -> tuple[int, bytes]:
        """Status and payload. Raises Refusal."""

    def seal(self, message: bytes) -> bytes:
        """As it travels."""

    def unseal(self, message: bytes) -> bytes:
        """As it was meant."""


@dataclass
class PlainHalf:
    """Takes one user with one password."""

    user: str
    password: str
    name: str = "PLAIN"

    def respond(self, response: bytes) -> tuple[int, bytes]:
        if response.split(b"\0") != [b"", self.user.encode(), self.password.encode()]:
            raise Refusal("Error validating the login")
        return COMPLETE, b""

    def seal(self, message: bytes) -> bytes:
        return message

    def unseal(self, message: bytes) -> bytes:
        return message


@dataclass
class DigestHalf:
    """Takes one token; RFC 2831, in the words of its sections 2.1.2, 2.3 and 2.4."""

    identifier: bytes
    password: bytes
    qops: str = "auth-conf,auth-int,auth"
    ciphers: str = "3des,rc4"
    knows_token: bool = True
    name: str = "DIGEST-MD5"
    chosen: str = ""
    _ha1: bytes = b""
    _counts: dict[str, int] = field(default_factory=lambda: {"in": 0, "out": 0})
    _streams: dict[str, Iterator[int]] = field(default_factory=dict)

    def respond(self, response: bytes) -> tuple[int, bytes]:
        if not response:
            return OK, (
                b'realm="default",nonce="%s",qop="%s",charset=utf-8,algorithm=md5-sess,cipher="%s"'
                % (_NONCE, self.qops.encode(), self.ciphers.encode())
            )
        sent = dict(re.findall(rb'([\w-]+)="?([^",]+(?:,nonce)?)"?', response))
        if sent[b"digest-uri"] != b"null/default" or sent[b"nonce"] != _NONCE:
            raise Refusal("digest response format violation")
        user, secret = base64.b64encode(self.identifier), base64.b64encode(self.password)
        if sent[b"username"] != user:
            raise Refusal("DIGEST-MD5: IO error acquiring password")
        self.chosen = sent[b"qop"].decode()
        start = _md5(user + b":default:" + secret).digest()
        self._ha1 = _md5(start + b":" + _NONCE + b":" + sent[b"cnonce"]).digest()

        def proof(verb: bytes) -> bytes:
            a2 = verb + b":null/default" + (b"" if self.chosen == "auth" else b":" + b"0" * 32)
            parts = (
                self._ha1.hex().encode(),
                _NONCE,
                b"00000001",
                sent[b"cnonce"],
                sent[b"qop"],
                _md5(a2).hexdigest().encode(),
            )
            return _md5(b":".join(parts)).hexdigest().encode()

        if sent[b"response"] != proof(b"AUTHENTICATE"):
            raise Refusal("DIGEST-MD5: digest response format violation. Mismatched response.")
        if self.chosen == "auth-conf":
            assert sent[b"cipher"] == b"rc4"
            self._streams = {
                "in": arcfour(self._sealing_key("client-to-server")),
                "out": arcfour(self._sealing_key("server-to-client")),
            }
        return COMPLETE, b"rspauth=" + (proof(b"") if self.knows_token else b"0" * 32)

    def seal(self, message: bytes) -> bytes:
        if self.chosen == "auth":
            return message
        number = self._count("out")
        body = self._encrypted("out", message + self._mac("server-to-client", number, message))
        return body + b"\x00\x01" + number.to_bytes(4, "big")

    def unseal(self, message: bytes) -> bytes:
        if self.chosen == "auth":
            return message
        number = self._count("in")
        assert message[-6:] == b"\x00\x01" + number.to_bytes(4, "big")
        body = self._encrypted("in", message[:-6])
        assert body[-10:] == self._mac("client-to-server", number, body[:-10])
        return body[:-10]

    def _count(self, way: str) -> int:
        self._counts[way] += 1
        return self._counts[way] - 1

    def _encrypted(self, way: str, data: bytes) -> bytes:
        if not self._streams:
            return data
        return bytes(byte ^ next(self._streams[way]) for byte in data)

    def _sealing_key(self, way: str) -> bytes:
        text = f"Digest H(A1) to {way} sealing key magic constant"
        return _md5(self._ha1 + text.encode()).digest()

    def _mac(self, way: str, number: int, message: bytes) -> bytes:
        text = f"Digest session key to {way} signing key magic constant"
        key = _md5(self._ha1 + text.encode()).digest()
        return hmac.new(key, number.to_bytes(4, "big") + message, "md5").digest()[:10]


def arcfour(key: bytes) -> Iterator[int]:
    """The key stream of RC4."""
    box, y = list(range(256)), 0
    for x, swap in enumerate(box.copy()):
        del swap
        y = (y + box[x] + key[x % len(key)]) % 256
        box[x], box[y] = box[y], box[x]
    x = y = 0
    while True:
        x = (x + 1) % 256
        y = (y + box[x]) % 256
        box[x], box[y] = box[y], box[x]
        yield box[(box[x] + box[y]) % 256]


class SaslServer(StubServer):
    """Each connection logs in first, by a half of its own."""

    def __init__(self, half: Callable[[], ServerHalf], **answers: Callable[..., Struct]) -> None:
        self._half = half
        self.halves: list[ServerHalf] = []
        self.frames: list[bytes] = []
        super().__init__(**answers)

    def _serve(self, connection: socket.socket) -> None:
        link = TSocket()
        link.setHandle(connection)
        half = self._half()
        self.halves.append(half)
        with contextlib.suppress(TException, OSError, EOFError, Refusal), connection:
            agree(link, half)
            protocol = TBinaryProtocol(Frames(link, half, self.frames))
            while True:
                self._processor.process(protocol, protocol)


def agree(link: TSocket, half: ServerHalf) -> None:
    """The server's part of the rounds."""
    status, name = _received(link)
    if status != START or name.decode() != half.name:
        _send(link, BAD, b"Unsupported mechanism type " + name)
        raise Refusal(name)
    while True:
        _, response = _received(link)
        try:
            status, payload = half.respond(response)
        except Refusal as refusal:
            _send(link, BAD, str(refusal).encode())
            raise
        _send(link, status, payload)
        if status == COMPLETE:
            return


def _received(link: TSocket) -> tuple[int, bytes]:
    status, length = struct.unpack(">BI", link.readAll(5))
    return status, link.readAll(length) if length else b""


def _send(link: TSocket, status: int, payload: bytes) -> None:
    link.write(struct.pack(">BI", status, len(payload)) + payload)


class Frames(TTransportBase):  # type: ignore[misc]
    """Frames of the server's side; `seen` gets each as it travelled."""

    def __init__(self, link: TSocket, half: ServerHalf, seen: list[bytes]) -> None:
        self._link, self._half, self._seen = link, half, seen
        self._in, self._out = BytesIO(), BytesIO()

    def read(self, size: int) -> bytes:
        data = self._in.read(size)
        if not data:
            frame = self._link.readAll(int.from_bytes(self._link.readAll(4), "big"))
            self._seen.append(frame)
            self._in = BytesIO(self._half.unseal(frame))
            data = self._in.read(size)
        return data

    def write(self, data: bytes) -> None:
        self._out.write(data)

    def flush(self) -> None:
        frame = self._half.seal(self._out.getvalue())
        self._out = BytesIO()
        self._link.write(len(frame).to_bytes(4, "big") + frame)

"""Thrift's SASL transport: a login in several rounds, then messages in signed or encrypted frames.

A login message has one byte of status, four bytes of length, and the payload. A frame has four
bytes of length and the wrapped message (TSaslTransport of Thrift's Java library).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from io import BytesIO
from types import MappingProxyType
from typing import Final, Protocol

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from airflow_hiveacid.format.known_secrets import beginning_of
from airflow_hiveacid.jobs.endpoint import PasswordLogin, Protection
from airflow_hiveacid.metastore.auth.address import (
    ConnectError,
    CountedRefusalError,
    LoginRefusedError,
)
from airflow_hiveacid.metastore.auth.secret import read_secret_text

_MAX_ROUND_BYTES: Final = 1 << 20
# One frame may contain all partitions of a table. A longer frame is invalid.
_MAX_FRAME_BYTES: Final = 1 << 30
_READ_BYTES: Final = 64 * 1024
_MAX_SHOWN: Final = 300


class _Status(enum.IntEnum):
    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class MechanismError(Exception):
    """The server sent an invalid message, during or after the login."""


class WeakProtectionError(MechanismError):
    """The server offers only weaker message protection than required."""


class Mechanism(Protocol):
    """One way to log in, and to wrap messages after it; each connection has its own instance."""

    @property
    def name(self) -> str:
        """The mechanism's name in SASL."""

    @property
    def hint(self) -> str:
        """The likely causes of a refusal, as text for the user."""

    @property
    def refusal(self) -> type[ConnectError]:
        """The error class of a refusal; it is ConnectError if the secret may be renewed."""

    def start(self) -> bytes:
        """Return the client's first message. Raises ConnectError."""

    def answer(self, challenge: bytes) -> bytes:
        """Return the response to a challenge. Raises MechanismError."""

    def finish(self, last: bytes) -> None:
        """Check that the server proved its identity. Raises MechanismError."""

    def wrap(self, message: bytes) -> bytes:
        """Return a message, signed and encrypted as agreed at login. Raises MechanismError."""

    def unwrap(self, message: bytes) -> bytes:
        """Return the original message. Raises MechanismError if it was changed or repeated."""


class SaslTransport(TTransportBase, CReadableTransport):  # type: ignore[misc] # Thrift has no types
    """A transport of frames over a socket after a successful `log_in`. Mutable: it buffers."""

    def __init__(self, socket: TSocket, mechanism: Mechanism) -> None:
        self._socket, self._mechanism = socket, mechanism
        self._out, self._in = BytesIO(), BytesIO()

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Return True if the server still seems connected; send nothing."""
        return bool(self._socket.isOpen())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Append data to the next frame."""
        self._out.write(data)

    def flush(self) -> None:
        """Send the written data as one frame."""
        message, self._out = self._out.getvalue(), BytesIO()
        wrapped = _checked(self._mechanism.wrap, message)
        self._socket.write(struct.pack(">I", len(wrapped)) + wrapped)

    def read(self, size: int) -> bytes:
        """Return at least one byte, at most `size`."""
        while size:
            data = self._in.read(size)
            if data:
                return data
            self._next_frame()
        return b""

    @property
    def cstringio_buf(self) -> BytesIO:
        """The buffer that the compiled protocol reads."""
        return self._in

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """Return a buffer that begins with `partialread` and has at least `reqlen` bytes."""
        data = bytearray(partialread)
        while len(data) < reqlen:
            self._next_frame()
            data += self._in.getvalue()
        self._in = BytesIO(bytes(data))
        return self._in

    def _next_frame(self) -> None:
        (length,) = struct.unpack(">I", _read(self._socket, 4))
        if length > _MAX_FRAME_BYTES:
            raise TTransportException(
                TTransportException.SIZE_LIMIT, f"invalid frame length of {length} bytes"
            )
        self._in = BytesIO(_checked(self._mechanism.unwrap, _read(self._socket, length)))


def log_in(socket: TSocket, mechanism: Mechanism) -> None:
    """Authenticate to the server and agree on how messages are wrapped.

    Raise LoginRefusedError if a retry does not help: the server refuses this login, or offers only
    weak protection. Raise ConnectError if it refuses for now, does not speak SASL, or disconnects.
    """
    first = mechanism.start()
    try:
        _send(socket, _Status.START, mechanism.name.encode())
        _send(socket, _Status.OK, first)
        while True:
            status, payload = _receive(socket)
            if status is _Status.COMPLETE:
                return mechanism.finish(payload)
            if status is not _Status.OK:
                raise _refusal(mechanism, payload)
            _send(socket, _Status.OK, mechanism.answer(payload))
    except MechanismError as error:
        kind = LoginRefusedError if isinstance(error, WeakProtectionError) else ConnectError
        raise kind(f"login by {mechanism.name} failed: {error}") from error
    except (TTransportException, OSError) as error:
        raise ConnectError(
            f"it broke off the login by {mechanism.name} ({error}); possible causes: it does not"
            " support SASL (3.1 does not accept passwords), it requires TLS, or it has no free"
            " worker thread (metastore.server.max.threads). See its log"
        ) from error


def _refusal(mechanism: Mechanism, payload: bytes) -> ConnectError:
    said = beginning_of(payload.decode(errors="replace"), _MAX_SHOWN)
    return mechanism.refusal(
        f"it refused the login by {mechanism.name}: {said}. {mechanism.hint}; if the"
        " reason is an unsupported mechanism, the server accepts no such logins"
    )


def _send(socket: TSocket, status: _Status, payload: bytes) -> None:
    socket.write(struct.pack(">BI", status, len(payload)) + payload)


def _receive(socket: TSocket) -> tuple[_Status, bytes]:
    number, length = struct.unpack(">BI", _read(socket, 5))
    try:
        status = _Status(number)
    except ValueError:
        status = None
    if status is None or status is _Status.START or length > _MAX_ROUND_BYTES:
        raise ConnectError(
            "it does not speak SASL here; possible causes: the port is wrong, only one side uses"
            " TLS"
        )
    return status, _read(socket, length)


def _read(socket: TSocket, size: int) -> bytes:
    # `readAll` would allocate the whole announced length at once.
    data = bytearray()
    while len(data) < size:
        data += socket.read(min(size - len(data), _READ_BYTES))
    return bytes(data)


def _checked(change: Callable[[bytes], bytes], message: bytes) -> bytes:
    try:
        return change(message)
    except MechanismError as error:
        raise TTransportException(TTransportException.UNKNOWN, str(error), inner=error) from error


WORDS: Final[Mapping[Protection, bytes]] = MappingProxyType(
    {
        Protection.AUTHENTICATION: b"auth",
        Protection.INTEGRITY: b"auth-int",
        Protection.PRIVACY: b"auth-conf",
    }
)
"""SASL's names of the protection levels, from weak to strong."""


def strongest(offered: AbstractSet[Protection], least: Protection) -> Protection:
    """Return the strongest offered protection level; WeakProtectionError if it is below `least`."""
    order = list(WORDS)
    best = max(offered, key=order.index, default=None)
    if best is None or order.index(best) < order.index(least):
        names = ", ".join(p.value for p in order if p in offered) or "no known level"
        raise WeakProtectionError(
            f"the metastore offers {names} for message protection (hadoop.rpc.protection), but"
            f" the connection requires at least {least.value}; for a delegation token without TLS"
            f" the default is integrity. Set the metastore's hadoop.rpc.protection to"
            f" {least.value}, or set the connection's protection to an offered level. With"
            " authentication alone, only TLS detects changes to messages in transit"
        )
    return best


class Plain:
    """SASL PLAIN: user and password in clear text, so the connection must use TLS."""

    name: Final = "PLAIN"
    refusal: Final = CountedRefusalError

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login
        # Read the password before connecting, so that an unusable password raises an error here.
        self._response = b"\0".join(
            (b"", login.user.encode(), read_secret_text(login.password).encode())
        )

    @property
    def hint(self) -> str:
        """The likely causes of a refusal; see `Mechanism.hint`."""
        return (
            f"User {self._login.user!r} or the password from {self._login.password} is wrong; a"
            " server gives the same reason if its directory (LDAP) does not answer"
        )

    def start(self) -> bytes:
        """Return user and password; see `Mechanism.start`."""
        return self._response

    def answer(self, challenge: bytes) -> bytes:
        """Raise MechanismError: PLAIN has no challenge."""
        raise MechanismError(f"PLAIN has one round, got a challenge of {len(challenge)} bytes")

    def finish(self, last: bytes) -> None:
        """Accept the end of the login, since TLS has already proved the server's identity."""

    def wrap(self, message: bytes) -> bytes:
        """Return the message unchanged."""
        return message

    def unwrap(self, message: bytes) -> bytes:
        """Return the message unchanged."""
        return message

"""Thrift's SASL transport: a login in rounds, then messages in frames, each as the login agreed.

Takes a connected socket and a `Mechanism`, gives a transport for the compiled protocol. A round is
one byte of status, four of length, and the payload; a frame is four bytes of length and the message
as the mechanism seals it (TSaslTransport of Thrift's Java library).
"""

from __future__ import annotations

import enum
import struct
from io import BytesIO
from typing import TYPE_CHECKING, Final, Protocol

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from airflow_hiveacid.metastore.doors.address import ConnectError, LoginRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from thrift.transport.TSocket import TSocket

_MAX_ROUND_BYTES: Final = 1 << 20
# A catalog of many partitions comes in one frame; above this the length is no length.
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
    """The other side's part of a login, or of a sealed message, is not as it must be."""


class WeakProtectionError(MechanismError):
    """The other side does not protect messages as well as it has to."""


class Mechanism(Protocol):
    """One way to log in, and what it does to messages afterwards. Lives as long as a connection."""

    @property
    def name(self) -> str:
        """As SASL calls it."""

    @property
    def hint(self) -> str:
        """What it may mean, in words, that the server refuses."""

    @property
    def refusal(self) -> type[ConnectError]:
        """What it is that the server refuses: final, unless somebody renews this login."""

    def start(self) -> bytes:
        """The first response. Raises ConnectError."""

    def answer(self, challenge: bytes) -> bytes:
        """The response to a challenge. Raises MechanismError."""

    def finish(self, last: bytes) -> None:
        """Check that the server proved itself. Raises MechanismError."""

    def seal(self, message: bytes) -> bytes:
        """A message as it travels. Raises MechanismError."""

    def unseal(self, message: bytes) -> bytes:
        """A message as it was meant. Raises MechanismError if it was changed or repeated."""


class SaslTransport(TTransportBase, CReadableTransport):  # type: ignore[misc] # Thrift has no types
    """Frames over a socket on which `log_in` has succeeded. Mutable: it buffers."""

    def __init__(self, socket: TSocket, mechanism: Mechanism) -> None:
        self._socket, self._mechanism = socket, mechanism
        self._out, self._in = BytesIO(), BytesIO()

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Whether the other side is still there, as far as one can see without asking."""
        return bool(self._socket.isOpen())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Add to the next frame."""
        self._out.write(data)

    def flush(self) -> None:
        """Send what was written, as one frame."""
        message, self._out = self._out.getvalue(), BytesIO()
        sealed = _checked(self._mechanism.seal, message)
        self._socket.write(struct.pack(">I", len(sealed)) + sealed)

    def read(self, size: int) -> bytes:
        """At least one byte, at most `size`."""
        while size:
            data = self._in.read(size)
            if data:
                return data
            self._next_frame()
        return b""

    @property
    def cstringio_buf(self) -> BytesIO:
        """What the compiled protocol reads from."""
        return self._in

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """A buffer that begins with `partialread` and has at least `reqlen` bytes."""
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
                TTransportException.SIZE_LIMIT, f"a frame of {length} bytes is no frame"
            )
        self._in = BytesIO(_checked(self._mechanism.unseal, _read(self._socket, length)))


def log_in(socket: TSocket, mechanism: Mechanism) -> None:
    """Agree with the server on who speaks, and how messages are sealed.

    Raises:
        LoginRefusedError: it does not take this login or protect it enough, and will not later.
        ConnectError: it does not take it now, does not speak SASL, or broke off.
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
            f"it broke off the login by {mechanism.name} ({error}): it may be a metastore without"
            " SASL (3.1 takes no passwords), or want TLS, or be overloaded; its log says which"
        ) from error


def _refusal(mechanism: Mechanism, payload: bytes) -> ConnectError:
    said = payload[:_MAX_SHOWN].decode(errors="replace")
    return mechanism.refusal(
        f"it refused the login by {mechanism.name}: {said}. {mechanism.hint}; an unsupported"
        " mechanism means that it takes no such login at all"
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
            "it does not speak SASL here: it may be the wrong port, or want TLS, or none"
        )
    return status, _read(socket, length)


def _read(socket: TSocket, size: int) -> bytes:
    # Not `readAll`, which takes memory for all that a length claims, at each of its reads.
    data = bytearray()
    while len(data) < size:
        data += socket.read(min(size - len(data), _READ_BYTES))
    return bytes(data)


def _checked(change: Callable[[bytes], bytes], message: bytes) -> bytes:
    try:
        return change(message)
    except MechanismError as error:
        raise TTransportException(TTransportException.UNKNOWN, str(error), inner=error) from error

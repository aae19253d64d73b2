"""Thrift's binary protocol with a check that a reply belongs to the call.

Thrift's generated clients would accept a late reply to an earlier call.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TTransportBase, TTransportException

UNREADABLE: Final = (OverflowError, ValueError, RecursionError, TypeError)
"""Built-in exceptions of unreadable replies: bad lengths, text that is not UTF-8, wrong types."""

_MOST_CALLS: Final = 1 << 31
_REPLIES: Final = frozenset({TMessageType.REPLY, TMessageType.EXCEPTION})


class MismatchedReplyError(TTransportException):  # type: ignore[misc] # Thrift has no types
    """A reply that does not belong to the call. The connection is no longer usable."""


class CallProtocol(TBinaryProtocolAccelerated):  # type: ignore[misc] # Thrift has no types
    """A protocol that numbers its calls. Mutable: holds the current call's name and number."""

    def __init__(self, transport: TTransportBase) -> None:
        super().__init__(transport, fallback=True)
        self._numbers = count()
        self._name, self._number = "", 0
        self.is_reading = False
        """True while a reply is awaited or read; an error then comes from the reply."""

    def writeMessageBegin(self, name: str, type: int, seqid: int) -> None:  # noqa: A002, N802 - Thrift's
        """Begin a call with a unique sequence ID, since generated clients always send 0."""
        del seqid
        self.is_reading = False
        self._name, self._number = name, next(self._numbers) % _MOST_CALLS
        super().writeMessageBegin(name, type, self._number)

    def writeMessageEnd(self) -> None:  # noqa: N802 - Thrift's name
        """End a call. What follows is its reply, so a later error comes from the reply."""
        super().writeMessageEnd()
        self.is_reading = True

    def readMessageBegin(self) -> tuple[str, int, int]:  # noqa: N802 - Thrift's name
        """Return a reply's name, type and ID; MismatchedReplyError for another call's."""
        name, kind, number = super().readMessageBegin()
        if (name, number) != (self._name, self._number) or kind not in _REPLIES:
            raise MismatchedReplyError(
                TTransportException.UNKNOWN,
                f"expected reply {self._number} to {self._name}, but received message {number} of"
                f" type {kind} for {name[:100]!r}",
            )
        return name, kind, number

    def readMessageEnd(self) -> None:  # noqa: N802 - Thrift's name
        """End a reply."""
        super().readMessageEnd()
        self.is_reading = False

"""Transports to one address of a metastore, their login and protocol, and their errors.

Thrift's generated clients would accept a late reply to an earlier call.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from thrift.protocol.TBase import TExceptionBase
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TTransport import TBufferedTransport, TTransportBase, TTransportException

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.endpoint import (
    KerberosLogin,
    MetastoreEndpoint,
    PasswordLogin,
    TokenLogin,
)
from airflow_hiveacid.metastore.auth.address import Address, ConnectError, NotAdmittedError
from airflow_hiveacid.metastore.auth.http_calls import open_http
from airflow_hiveacid.metastore.auth.kerberos import Kerberos
from airflow_hiveacid.metastore.auth.sasl import DigestMd5, Mechanism, Plain, SaslTransport, log_in
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


def is_slow(error: BaseException | None) -> bool:
    """Return whether an error is a time-out."""
    is_timeout = getattr(error, "type", None) == TTransportException.TIMED_OUT
    return is_timeout or isinstance(error, TimeoutError)


def is_internal(error: BaseException | None) -> bool:
    """Return whether a server failed with an internal error."""
    internal = TApplicationException.INTERNAL_ERROR
    return isinstance(error, TApplicationException) and error.type == internal


def text_of(error: Exception) -> str:
    """Return the server's text of an error, or what else says what it is."""
    message = getattr(error, "message", None)
    return str(message or "") or str(error) or type(error).__name__


UNREADABLE: Final = (OverflowError, ValueError, RecursionError, TypeError)
"""Built-in exceptions of unreadable replies: bad lengths, text that is not UTF-8, wrong types."""

BROKEN: Final = (TTransportException, OSError, EOFError)
"""The errors of a broken connection. If the server closes during a response, the compiled protocol
raises EOFError."""

REFUSALS: Final = (TException, TExceptionBase)
"""The exceptions of our stubs do not derive from TException. Those of hmsclient do."""

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


def may_be_too_large(error: errors.MetastoreCallError | errors.MetastoreUnavailableError) -> bool:
    """Return whether a server may have refused a request, or disconnected, because of its size."""
    cause = error.__cause__
    has_disconnected = isinstance(cause, BROKEN) and not isinstance(cause, NotAdmittedError)
    return isinstance(error, errors.MetastoreCallError) or (has_disconnected and not is_slow(cause))

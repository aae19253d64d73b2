"""Thrift's SASL transport, its frames, and the mechanisms of passwords and delegation tokens.

A login message has one byte of status, four bytes of length, and the payload. A frame has four
bytes of length and the wrapped message (TSaslTransport of Thrift's Java library).

DIGEST-MD5 (RFC 2831), the mechanism of delegation tokens, prescribes MD5. Java servers offer only
RC4 and DES for encryption; this uses RC4.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import re
import secrets
import struct
from collections.abc import Callable, Mapping, Set as AbstractSet
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
from airflow_hiveacid.metastore.auth.tokens import DelegationToken

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


# Java servers register DIGEST-MD5 with the protocol "null" and the server name "default".
_URI: Final = b"null/default"
_COUNT: Final = b"00000001"
# The limit of RFC 2831, 2.1.1 and 2.1.3. The time to parse a challenge is quadratic in the
# challenge's length.
_MAX_CHALLENGE_BYTES: Final = 2048
_MAC_BYTES: Final = 10
_TRAILER_BYTES: Final = 6
_MESSAGE_TYPE: Final = 1
_NUMBERS: Final = 1 << 32
_TO_SERVER: Final = b"client-to-server"
_TO_CLIENT: Final = b"server-to-client"
_DIRECTIVE: Final = re.compile(rb'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,\s"]*))')


class DigestMd5:
    """An implementation of `sasl.Mechanism`. Mutable: it counts messages and keeps cipher state."""

    name: Final = "DIGEST-MD5"
    # A refusal is not final, because the token's owner may replace the token.
    refusal: Final = ConnectError
    hint: Final = (
        "The token has expired, was cancelled, belongs to another metastore, or was lost when a"
        " metastore that keeps tokens in memory restarted"
    )

    def __init__(self, token: DelegationToken, least: Protection) -> None:
        self._user = base64.b64encode(token.identifier)
        self._password = base64.b64encode(token.password)
        self._least = least
        self._own_nonce = base64.b64encode(secrets.token_bytes(24))
        self._protection: Protection | None = None
        self._secret = b""
        self._parts: tuple[bytes, ...] = ()
        self._sent = self._received = 0
        self._outward: Rc4 | None = None
        self._inward: Rc4 | None = None

    def start(self) -> bytes:
        """Return no bytes, because in this mechanism the server sends the first message."""
        return b""

    def answer(self, challenge: bytes) -> bytes:
        """Answer the server's challenge; see `Mechanism.answer`."""
        if self._protection is not None:
            raise MechanismError("the server sent a second challenge")
        offer = _directives(challenge)
        if offer.get(b"algorithm", b"").lower() != b"md5-sess" or not offer.get(b"nonce"):
            raise MechanismError("the server's challenge is not valid DIGEST-MD5")
        self._protection = strongest(_offered(offer), self._least)
        realm, nonce, word = offer.get(b"realm", b""), offer[b"nonce"], WORDS[self._protection]
        self._secret = _md5(_md5(self._user, realm, self._password), nonce, self._own_nonce)
        self._parts = (nonce, _COUNT, self._own_nonce, word)
        fields = [
            (b"charset", b"utf-8"),
            (b"username", _quoted(self._user)),
            (b"realm", _quoted(realm)),
            (b"nonce", _quoted(nonce)),
            (b"nc", _COUNT),
            (b"cnonce", _quoted(self._own_nonce)),
            (b"digest-uri", _quoted(_URI)),
            (b"maxbuf", b"65536"),
            (b"qop", word),
            (b"response", self._proof(b"AUTHENTICATE")),
        ]
        if self._protection is Protection.PRIVACY:
            self._outward = Rc4(self._key(b"Digest H(A1) to %s sealing key", _TO_SERVER))
            self._inward = Rc4(self._key(b"Digest H(A1) to %s sealing key", _TO_CLIENT))
            fields.append((b"cipher", b"rc4"))
        return b",".join(name + b"=" + value for name, value in fields)

    def finish(self, last: bytes) -> None:
        """Check the server's proof that it has the token; see `Mechanism.finish`."""
        proof = _directives(last).get(b"rspauth", b"")
        if self._protection is None or not hmac.compare_digest(proof, self._proof(b"")):
            raise MechanismError("the server did not prove that it knows the token")

    def wrap(self, message: bytes) -> bytes:
        """Sign a message, and encrypt it for privacy; see `Mechanism.wrap`."""
        if self._protection is Protection.AUTHENTICATION:
            return message
        number, self._sent = self._sent, (self._sent + 1) % _NUMBERS
        body = message + self._mac(_TO_SERVER, number, message)
        if self._outward is not None:
            body = self._outward.update(body)
        return body + struct.pack(">HI", _MESSAGE_TYPE, number)

    def unwrap(self, message: bytes) -> bytes:
        """Verify a message, and decrypt it for privacy; see `Mechanism.unwrap`."""
        if self._protection is Protection.AUTHENTICATION:
            return message
        number, self._received = self._received, (self._received + 1) % _NUMBERS
        body, trailer = message[:-_TRAILER_BYTES], message[-_TRAILER_BYTES:]
        if self._inward is not None:
            body = self._inward.update(body)
        meant, mac = body[:-_MAC_BYTES], body[-_MAC_BYTES:]
        is_right = hmac.compare_digest(mac, self._mac(_TO_CLIENT, number, meant))
        if trailer != struct.pack(">HI", _MESSAGE_TYPE, number) or not is_right:
            raise MechanismError("a message was changed, lost or repeated in transit")
        return meant

    def _proof(self, verb: bytes) -> bytes:
        is_bare = self._protection is Protection.AUTHENTICATION
        fields = (verb, _URI) if is_bare else (verb, _URI, b"0" * 32)
        return _hex(_md5(_hex(self._secret), *self._parts, _hex(_md5(*fields))))

    def _key(self, purpose: bytes, way: bytes) -> bytes:
        return _md5(self._secret + purpose % way + b" magic constant")

    def _mac(self, way: bytes, number: int, message: bytes) -> bytes:
        key = self._key(b"Digest session key to %s signing key", way)
        return hmac.digest(key, struct.pack(">I", number) + message, "md5")[:_MAC_BYTES]


def _offered(offer: Mapping[bytes, bytes]) -> set[Protection]:
    words = {word.strip() for word in offer.get(b"qop", b"auth").split(b",")}
    if b"rc4" not in {cipher.strip() for cipher in offer.get(b"cipher", b"").split(b",")}:
        words.discard(WORDS[Protection.PRIVACY])
    return {protection for protection, word in WORDS.items() if word in words}


def _directives(text: bytes) -> dict[bytes, bytes]:
    """Return a dict of a challenge's directives; for a repeated directive, the first value."""
    if len(text) >= _MAX_CHALLENGE_BYTES:
        raise MechanismError(f"a DIGEST-MD5 challenge cannot have {len(text)} bytes")
    directives: dict[bytes, bytes] = {}
    for name, quoted, bare in _DIRECTIVE.findall(text):
        directives.setdefault(name.lower(), re.sub(rb"\\(.)", rb"\1", quoted) or bare)
    return directives


def _quoted(text: bytes) -> bytes:
    return b'"' + re.sub(rb'(["\\])', rb"\\\1", text) + b'"'


def _md5(*parts: bytes) -> bytes:
    # The protocol prescribes MD5. Without `usedforsecurity=False`, a FIPS system would forbid MD5.
    return hashlib.md5(b":".join(parts), usedforsecurity=False).digest()


def _hex(digest: bytes) -> bytes:
    return digest.hex().encode()


class Rc4:
    """The stream cipher RC4 for one direction of one connection. Mutable.

    It is in Python because the libraries of some hosts no longer include RC4. A few megabytes per
    second are enough for metastore calls.

    Example:
        >>> Rc4(b"Key").update(b"Plaintext").hex()
        'bbf316e8d940af0ad3'
    """

    def __init__(self, key: bytes) -> None:
        state, j = list(range(256)), 0
        for i in range(256):
            j = (j + state[i] + key[i % len(key)]) & 255
            state[i], state[j] = state[j], state[i]
        self._state, self._i, self._j = state, 0, 0

    def update(self, data: bytes) -> bytes:
        """Encrypt or decrypt the next bytes; both are the same operation in RC4."""
        state, i, j = self._state, self._i, self._j
        stream = bytearray(len(data))
        for index in range(len(data)):
            i = (i + 1) & 255
            x = state[i]
            j = (j + x) & 255
            y = state[j]
            state[i], state[j] = y, x
            stream[index] = state[(x + y) & 255]
        self._i, self._j = i, j
        mixed = int.from_bytes(stream, "big") ^ int.from_bytes(data, "big")
        return mixed.to_bytes(len(data), "big")

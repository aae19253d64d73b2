"""SASL DIGEST-MD5 (RFC 2831), the login mechanism of Hadoop's delegation tokens.

The protocol prescribes MD5. Java servers offer only RC4 and DES for encryption; this uses RC4.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import struct
from collections.abc import Mapping
from typing import Final

from airflow_hiveacid.jobs.endpoint import Protection
from airflow_hiveacid.metastore.auth.address import ConnectError
from airflow_hiveacid.metastore.auth.sasl import WORDS, MechanismError, strongest
from airflow_hiveacid.metastore.auth.tokens import DelegationToken

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

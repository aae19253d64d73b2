"""Hadoop's delegation tokens, as text and as a credentials file.

Example:
    >>> parse_token("A2lkcwJwdwRraW5kAA")
    DelegationToken(kind='kind', service='')
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import SecretSource, TokenLogin
from airflow_hiveacid.metastore.auth.secret import read_secret

KIND: Final = "HIVE_DELEGATION_TOKEN"
CONTAINER_FILE: Final = "HADOOP_TOKEN_FILE_LOCATION"

# The service name of HiveServer2's tokens (HiveAuthConstants.HS2_CLIENT_TOKEN). HiveServer2's
# tokens have the same kind as the metastore's tokens. Some writers also give this name to the
# metastore's token. So a token with this name is used only if no other token exists.
_HIVE_SERVER: Final = "hiveserver2ClientToken"
_MAGIC: Final = b"HDTS"
# A first byte below this value encodes how many bytes follow (Hadoop's WritableUtils).
_ONE_BYTE: Final = -112
_POSITIVE: Final = -120  # the lowest first byte of a positive number
_ONE_BYTE_MOST: Final = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token; its identifier and password are secret and never shown."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    kind: str
    service: str

    @property
    def owner(self) -> str:
        """The token's user, as the issuing server recorded it: a principal or a short name.

        Raises ValueError if the identifier is not in Hadoop's AbstractDelegationTokenIdentifier
        format.
        """
        return self._named().text()

    @property
    def issued_ms(self) -> int:
        """The token's issue time, in ms since 1970, by the issuer's clock. Raises as `owner`."""
        stream = self._named()
        for _ in ("owner", "renewer", "real user"):
            stream.text()
        return stream.number()

    def _named(self) -> _Stream:
        stream = _Stream(self.identifier)
        if stream.take(1) != b"\0":
            raise ValueError("its identifier has an unknown version")
        return stream


def read_token(login: TokenLogin) -> DelegationToken:
    """Read the login's current token; ConfigurationError unless exactly one may be meant."""
    source = login.token or _container_file()
    content = read_secret(source)
    try:
        if not content.startswith(_MAGIC):
            return parse_token("".join(_ascii(content).split()))
        tokens = named_tokens(content).values()
    except ValueError as error:
        # The content is secret, so the errors above must not contain any part of it. `from None`
        # only hides the cause of the error from the traceback.
        raise ConfigurationError(f"cannot read a delegation token from {source}: {error}") from None
    ours = {token.identifier: token for token in tokens if token.kind == KIND}
    if len(ours) > 1:
        ours = {i: token for i, token in ours.items() if token.service != _HIVE_SERVER}
    if len(ours) != 1:
        kinds = ", ".join(sorted({token.kind for token in tokens})) or "none"
        raise ConfigurationError(
            f"{source} holds {len(ours)} tokens of kind {KIND} instead of one (kinds in it:"
            f" {kinds}). Spark fetches a token if its class path has a hive-site.xml with"
            " hive.metastore.uris, hive.metastore.sasl.enabled and"
            " hive.metastore.kerberos.principal"
        )
    return next(iter(ours.values()))


def parse_token(text: str) -> DelegationToken:
    """Parse the text of `get_delegation_token`; a ValueError does not contain the text."""
    raw = b""
    # Raise the error after this block. Inside the block, the error's context would contain the
    # secret.
    with contextlib.suppress(binascii.Error, ValueError):
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not raw:
        raise ValueError("it is not a token in text form")
    stream = _Stream(raw)
    token = _token(stream)
    if stream.left:
        raise ValueError("it has extra bytes after the token")
    return token


def named_tokens(content: bytes) -> dict[str, DelegationToken]:
    """Return the tokens of a credentials file (format 0) by alias, or raise ValueError."""
    stream = _Stream(content)
    if stream.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not a Hadoop credentials file")
    version = stream.take(1)[0]
    if version:
        raise ValueError(
            f"it has format {version}, but only format 0 can be read, which Hadoop writes for"
            " containers; `hadoop dtutil` writes it with -format java"
        )
    tokens = {}
    for _ in range(stream.number()):
        alias = stream.text()
        tokens[alias] = _token(stream)
    return tokens


def print_credentials(tokens: Mapping[str, DelegationToken]) -> bytes:
    """Serialize a dict from alias to token as a credentials file, which `named_tokens` reads."""
    parts = [_MAGIC, b"\0", _printed(len(tokens))]
    for alias, token in tokens.items():
        for part in (
            alias.encode(),
            token.identifier,
            token.password,
            token.kind.encode(),
            token.service.encode(),
        ):
            parts += [_printed(len(part)), part]
    # The count of secret keys is 0. Secret keys would follow the tokens.
    return b"".join([*parts, _printed(0)])


def _printed(number: int) -> bytes:
    """Encode a non-negative number for `_Stream.number`."""
    if number <= _ONE_BYTE_MOST:
        return bytes([number])
    size = (number.bit_length() + 7) // 8
    return (_ONE_BYTE - size).to_bytes(1, "big", signed=True) + number.to_bytes(size, "big")


def _ascii(content: bytes) -> str:
    if not content.isascii():
        raise ValueError("it is not a token in text form")
    return content.decode("ascii")


def _container_file() -> SecretSource:
    file = os.environ.get(CONTAINER_FILE)
    if not file:
        raise ConfigurationError(
            f"the token login has no secret_from, and ${CONTAINER_FILE}, which YARN sets for"
            " its containers, is not set; set secret_from"
        )
    return SecretSource(file=file)


def _token(stream: _Stream) -> DelegationToken:
    identifier, password = stream.sized(), stream.sized()
    return DelegationToken(
        identifier=identifier, password=password, kind=stream.text(), service=stream.text()
    )


class _Stream:
    """A reader of Hadoop's Writables; truncated data causes a ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._stream = data, BytesIO(data)

    @property
    def left(self) -> int:
        return len(self._data) - self._stream.tell()

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError("it is truncated")
        return self._stream.read(size)

    def number(self) -> int:
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= _ONE_BYTE:
            return first
        if first < _POSITIVE:
            raise ValueError("it has a negative length")
        return int.from_bytes(self.take(_ONE_BYTE - first), "big")

    def sized(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.sized().decode(errors="replace")

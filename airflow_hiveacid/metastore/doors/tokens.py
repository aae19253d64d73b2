"""Hadoop's delegation tokens, as a text and as a file of credentials.

Example:
    >>> parse_token("A2lkcwJwdwRraW5kAA")
    DelegationToken(kind='kind', service='')
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import SecretSource
from airflow_hiveacid.metastore.doors.secret import read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.jobs.logins import TokenLogin

KIND: Final = "HIVE_DELEGATION_TOKEN"
CONTAINER_FILE: Final = "HADOOP_TOKEN_FILE_LOCATION"
"""The variable in which YARN tells a container where its credentials lie."""

# HiveServer2's own tokens are of the same kind (HiveAuthConstants.HS2_CLIENT_TOKEN). Some writers
# put the metastore's under this name, so a token that stands alone is taken whatever it is for.
_HIVE_SERVER: Final = "hiveserver2ClientToken"
_MAGIC: Final = b"HDTS"
# Below this the first byte of a number says how many follow (WritableUtils of Hadoop).
_ONE_BYTE: Final = -112
_POSITIVE: Final = -120
_ONE_BYTE_MOST: Final = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token and what it is for; its two halves are secret, and are never shown."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    kind: str
    service: str

    @property
    def owner(self) -> str:
        """Who enters by it: a principal or a short name, as its server wrote it down.

        Raises:
            ValueError: the identifier is not one of Hadoop's (AbstractDelegationTokenIdentifier).
        """
        return self._named().text()

    @property
    def issued_ms(self) -> int:
        """When its server made it, in milliseconds since 1970 by that one's clock.

        Raises:
            ValueError: as of `owner`.
        """
        stream = self._named()
        for _ in ("owner", "renewer", "real user"):
            stream.text()
        return stream.number()

    def _named(self) -> _Stream:
        """The identifier, behind its version."""
        stream = _Stream(self.identifier)
        if stream.take(1) != b"\0":
            raise ValueError("its identifier is of another version")
        return stream


def read_token(login: TokenLogin) -> DelegationToken:
    """The token that a login names, as it is now.

    Raises:
        ConfigurationError: there is none, or more than one that it could be.
    """
    source = login.token or _container_file()
    content = read_secret(source)
    try:
        if not content.startswith(_MAGIC):
            return parse_token("".join(_ascii(content).split()))
        tokens = parse_credentials(content)
    except ValueError as error:
        # Not only `from None`: what stands there is secret, and nothing raised here holds it.
        raise ConfigurationError(
            f"no delegation token can be read from {source}: {error}"
        ) from None
    ours = {token.identifier: token for token in tokens if token.kind == KIND}
    if len(ours) > 1:
        ours = {i: token for i, token in ours.items() if token.service != _HIVE_SERVER}
    if len(ours) != 1:
        kinds = ", ".join(sorted({token.kind for token in tokens})) or "none"
        raise ConfigurationError(
            f"{source} holds {len(ours)} tokens of kind {KIND}, and one is needed (kinds in it:"
            f" {kinds}). Spark fetches one when its class path has a hive-site.xml with"
            " hive.metastore.uris, hive.metastore.sasl.enabled and"
            " hive.metastore.kerberos.principal"
        )
    return next(iter(ours.values()))


def parse_token(text: str) -> DelegationToken:
    """Read what a metastore answers to `get_delegation_token`.

    Raises:
        ValueError: the text is no token; the message does not show it.
    """
    raw = b""
    # Outside of the handler: an error's context, too, would hold what it could not read.
    with contextlib.suppress(binascii.Error, ValueError):
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if not raw:
        raise ValueError("it is no token that was written as a text")
    stream = _Stream(raw)
    token = _token(stream)
    if stream.left:
        raise ValueError("it has bytes behind a token")
    return token


def parse_credentials(content: bytes) -> list[DelegationToken]:
    """The tokens of a file of credentials, as Hadoop 2 and 3 write it for containers.

    Raises:
        ValueError: it is no such file.
    """
    return list(named_tokens(content).values())


def named_tokens(content: bytes) -> dict[str, DelegationToken]:
    """The same by their aliases, which differ from one writer to the next.

    Raises:
        ValueError: it is no such file.
    """
    stream = _Stream(content)
    if stream.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is no file of Hadoop's credentials")
    version = stream.take(1)[0]
    if version:
        raise ValueError(
            f"it is of format {version}, and only format 0 is read, which Hadoop writes for"
            " containers; `hadoop dtutil` writes it with -format java"
        )
    tokens = {}
    for _ in range(stream.number()):
        alias = stream.text()
        tokens[alias] = _token(stream)
    return tokens


def print_credentials(tokens: Mapping[str, DelegationToken]) -> bytes:
    """Such a file of tokens by their aliases; `named_tokens` reads it."""
    found = [_MAGIC, b"\0", _printed(len(tokens))]
    for alias, token in tokens.items():
        for part in (
            alias.encode(),
            token.identifier,
            token.password,
            token.kind.encode(),
            token.service.encode(),
        ):
            found += [_printed(len(part)), part]
    return b"".join([*found, _printed(0)])  # it ends with how many keys there are beside tokens


def _printed(number: int) -> bytes:
    """A number that is not negative, as `_Stream.number` reads it."""
    if number <= _ONE_BYTE_MOST:
        return bytes([number])
    size = (number.bit_length() + 7) // 8
    return (_ONE_BYTE - size).to_bytes(1, "big", signed=True) + number.to_bytes(size, "big")


def _ascii(content: bytes) -> str:
    if not content.isascii():
        raise ValueError("it is no token that was written as a text")
    return content.decode("ascii")


def _container_file() -> SecretSource:
    file = os.environ.get(CONTAINER_FILE)
    if not file:
        raise ConfigurationError(
            f"the login by token names no place for it, and ${CONTAINER_FILE} is not set, in which"
            " YARN tells its containers where theirs lies; set secret_from"
        )
    return SecretSource(file=file)


def _token(stream: _Stream) -> DelegationToken:
    identifier, password = stream.sized(), stream.sized()
    return DelegationToken(
        identifier=identifier, password=password, kind=stream.text(), service=stream.text()
    )


class _Stream:
    """Reads Hadoop's Writables, and nothing beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._stream = data, BytesIO(data)

    @property
    def left(self) -> int:
        return len(self._data) - self._stream.tell()

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError("it ends in the middle")
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

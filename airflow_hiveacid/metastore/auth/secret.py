"""Secrets: they are read from a file or variable at each use, and never shown in messages."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.known_secrets import keep_secret
from airflow_hiveacid.jobs.logins import KerberosLogin, Login, PasswordLogin, SecretSource
from airflow_hiveacid.metastore.auth.address import Address, ConnectError, CountedRefusalError

# A Hadoop credentials file with many tokens has a few kilobytes.
_MAX_BYTES: Final = 1 << 20
# The first pause is short, because the refused secret may be correct: a metastore also refuses
# logins while its LDAP directory is down. Two tries fit into the default transaction time-out of
# 300 s, and five into half an hour.
_FIRST_PAUSE_S: Final = 120.0
# The key of the secrets' fingerprints. A fingerprint reveals nothing about its secret to a person
# without this key.
_KEY: Final = secrets.token_bytes(32)


def read_secret(source: SecretSource) -> bytes:
    """Return the secret's bytes as stored.

    Raises ConfigurationError if the secret is missing, or too large.
    """
    secret = _from_file(source) if source.file else _from_environment(source)
    if not secret:
        raise ConfigurationError(f"the secret in {source} is empty")
    if secret.isascii():
        keep_secret(secret.decode().strip())
    return secret


def read_secret_text(source: SecretSource) -> str:
    """Return the secret as ASCII text, without the line end that editors add.

    Raises ConfigurationError if `read_secret` failed, or the secret has characters that the
    metastore does not accept.
    """
    text = read_secret(source).decode(errors="replace").rstrip("\r\n")
    if not text:
        raise ConfigurationError(f"the secret in {source} is empty")
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"the secret in {source} contains characters other than visible ASCII, which the"
            " metastore does not accept"
        )
    return text


def _from_file(source: SecretSource) -> bytes:
    try:
        with Path(str(source.file)).open("rb") as stream:
            secret = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the secret in {source}: {error.strerror}. It must exist on every machine"
            " that connects to the metastore and be readable by the connecting process"
        ) from error
    if len(secret) > _MAX_BYTES:
        raise ConfigurationError(f"{source} is too large to hold a secret")
    return secret


def _from_environment(source: SecretSource) -> bytes:
    secret = os.environ.get(str(source.variable))
    if secret is None:
        raise ConfigurationError(
            f"the {source} is not set. Set it in the environment of every process that connects"
            " to the metastore"
        )
    return os.fsencode(secret)


@dataclass(frozen=True, slots=True)
class _Refusal:
    print: bytes
    words: str
    until_s: float
    pause_s: float


class Refusals:
    """The refused logins of one connection, so that a wrong secret is not sent repeatedly.

    LDAP directories and KDCs count wrong passwords and keys, and lock an account after too many
    tries. While a transaction is open, heartbeats and checks of a commit's outcome log in again and
    again. Mutable: it remembers each address's last refusal.
    """

    def __init__(self, login: Login | None) -> None:
        self._login = login
        self._known: dict[Address, _Refusal] = {}

    def check(self, address: Address) -> None:
        """Raise an error if this address recently refused the current secret.

        Raises CountedRefusalError if the pause after the refusal is not over; the message repeats
        the refusal.
        """
        refusal = self._known.get(address)
        is_early = refusal is not None and time.monotonic() < refusal.until_s
        if refusal is not None and is_early and refusal.print == self._print():
            raise CountedRefusalError(
                f"{refusal.words}. The server was not asked again: after a refusal, the same secret"
                f" is not sent for {refusal.pause_s:.0f} s, because too many tries lock the account"
            )

    def note(self, address: Address, error: ConnectError) -> None:
        """Store a counted refusal; each further refusal of the same secret doubles the pause."""
        if not isinstance(error, CountedRefusalError):
            return
        refusal, now_s, fingerprint = self._known.get(address), time.monotonic(), self._print()
        if refusal is not None and refusal.print == fingerprint:
            if now_s < refusal.until_s:
                return  # raised by `check`, before any contact with a server
            pause_s = refusal.pause_s * 2
        else:
            pause_s = _FIRST_PAUSE_S
        self._known[address] = _Refusal(fingerprint, str(error), now_s + pause_s, pause_s)

    def _print(self) -> bytes:
        return hmac.digest(_KEY, self._secret(), "sha256")

    def _secret(self) -> bytes:
        try:
            match self._login:
                case PasswordLogin(password=source):
                    return read_secret(source)
                case KerberosLogin(keytab=str(keytab)):
                    return Path(keytab.removeprefix("FILE:")).read_bytes()
                case _:
                    return b""
        except (OSError, ConfigurationError):
            return b""  # the login itself reports the error

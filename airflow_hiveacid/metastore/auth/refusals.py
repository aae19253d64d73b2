"""Refused logins, so that a wrong secret is not sent repeatedly.

They stand apart from secrets, which Spark's executors read: errors of addresses need Thrift, which
executors do not have.
"""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import KerberosLogin, Login, PasswordLogin
from airflow_hiveacid.metastore.auth.address import Address, ConnectError, CountedRefusalError
from airflow_hiveacid.metastore.auth.secret import read_secret

# The first pause is short, because the refused secret may be correct: a metastore also refuses
# logins while its LDAP directory is down. Two tries fit into the default transaction time-out of
# 300 s, and five into half an hour.
_FIRST_PAUSE_S: Final = 120.0
# The key of the secrets' fingerprints. A fingerprint reveals nothing about its secret to a person
# without this key.
_KEY: Final = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class _Refusal:
    print: bytes
    words: str
    until_s: float
    pause_s: float


class Refusals:
    """The refused logins of one connection, so that a wrong secret is not sent repeatedly. Mutable.

    LDAP directories and KDCs count wrong passwords and keys, and lock an account after too many
    tries. While a transaction is open, heartbeats and checks of a commit log in again and again.
    """

    def __init__(self, login: Login | None) -> None:
        self._login = login
        self._known: dict[Address, _Refusal] = {}

    def check(self, address: Address) -> None:
        """Raise CountedRefusalError if this address lately refused the current secret."""
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

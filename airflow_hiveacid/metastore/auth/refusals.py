"""Servers and logins that failed lately: asked last, or not at all.

A wrong secret is not sent repeatedly. This module stands apart from secrets, which Spark's
executors read: errors of addresses need Thrift, which executors do not have.

Example:
    >>> outages = Outages(clock=lambda: 0.0)
    >>> outages.note("a")
    True
    >>> outages.in_order(["a", "b"])
    ['b', 'a']
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import KerberosLogin, Login, PasswordLogin
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


_ASKED_LAST_S: Final = 60.0

_Address = TypeVar("_Address", bound="Hashable")


class Outages:
    """The servers that failed lately. Mutable and shared by threads: each method is one step."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until_s: dict[Hashable, float] = {}

    def in_order(self, addresses: Iterable[_Address]) -> list[_Address]:
        """Return the addresses in their order, but those that failed lately last.

        After a pause, only one caller asks such a server first: each may wait until a time-out.
        """
        now_s, first, last = self._clock(), [], []
        for address in addresses:
            if self._until_s.get(address, now_s) > now_s:
                last.append(address)
                continue
            if address in self._until_s:
                self._until_s[address] = now_s + _ASKED_LAST_S
            first.append(address)
        return first + last

    def tried(self, addresses: Iterable[_Address]) -> Iterator[_Address]:
        """Yield one server's addresses as in `in_order`; stop after the first one that answers.

        The next address is requested only if the last one failed. A name may have several
        addresses, and each one that is down costs a time-out.
        """
        for address in self.in_order(addresses):
            try:
                yield address
            except GeneratorExit:  # the caller asks no further, because this address answers
                self.forget(address)
                raise
            self.note(address)

    def note(self, address: Hashable) -> bool:
        """Record a failed server; return False if it was known to have failed."""
        is_news = address not in self._until_s
        self._until_s[address] = self._clock() + _ASKED_LAST_S
        return is_news

    def forget(self, address: Hashable) -> None:
        """Forget the failures of a server that answers."""
        self._until_s.pop(address, None)


OUTAGES: Final = Outages()
"""The servers that failed lately for any connection of this process."""

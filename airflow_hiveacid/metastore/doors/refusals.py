"""Which secrets were refused where, so that a wrong one is not tried on and on.

Takes what a login names and what became of it; says when the same must not be tried again yet.
Directories and KDCs count wrong passwords and keys, and lock the account of who tries too often:
heartbeats, and whoever asks what became of a commit, ask for as long as a transaction lives.
"""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import KerberosLogin, PasswordLogin
from airflow_hiveacid.metastore.doors.address import CountedRefusalError
from airflow_hiveacid.metastore.doors.secret import read_secret

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.logins import Login
    from airflow_hiveacid.metastore.doors.address import Address, ConnectError

# Not for ever: a metastore says the same when its directory is away. A transaction, which is given
# up after 300 s of silence if nobody set another time, sees two tries; half an hour sees five.
_FIRST_PAUSE_S: Final = 120.0
# Of no use to who finds it: a print is compared in this process alone.
_KEY: Final = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class _Refusal:
    print: bytes
    words: str
    until_s: float
    pause_s: float


class Refusals:
    """Those of one connection. Mutable: it remembers the last at each address."""

    def __init__(self, login: Login | None) -> None:
        self._login = login
        self._known: dict[Address, _Refusal] = {}

    def check(self, address: Address) -> None:
        """Let a secret be tried that was not refused there, or long ago.

        Raises:
            CountedRefusalError: what was said, once more.
        """
        known = self._known.get(address)
        is_early = known is not None and time.monotonic() < known.until_s
        if known is not None and is_early and known.print == self._print():
            raise CountedRefusalError(
                f"{known.words}. That was said before: the same is sent again after"
                f" {known.pause_s:.0f} s at the earliest, since who tries on is locked out"
            )

    def note(self, address: Address, error: ConnectError) -> None:
        """Remember a refusal that was counted; each of the same secret is for twice as long."""
        if not isinstance(error, CountedRefusalError):
            return
        known, now_s, found = self._known.get(address), time.monotonic(), self._print()
        if known is not None and known.print == found:
            if now_s < known.until_s:
                return  # it was not asked
            pause_s = known.pause_s * 2
        else:
            pause_s = _FIRST_PAUSE_S
        self._known[address] = _Refusal(found, str(error), now_s + pause_s, pause_s)

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
            return b""  # the login itself says what is wrong with it

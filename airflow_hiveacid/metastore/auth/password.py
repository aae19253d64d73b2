"""SASL PLAIN: user and password in clear text, so the connection must use TLS."""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.jobs.logins import PasswordLogin
from airflow_hiveacid.metastore.auth.address import CountedRefusalError
from airflow_hiveacid.metastore.auth.sasl import MechanismError
from airflow_hiveacid.metastore.auth.secret import read_secret_text


class Plain:
    """An implementation of `sasl.Mechanism` that sends messages unchanged."""

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

"""SASL PLAIN: user and password in clear, which is why TLS has to lie below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.metastore.doors.address import CountedRefusalError
from airflow_hiveacid.metastore.doors.sasl import MechanismError
from airflow_hiveacid.metastore.doors.secret import read_secret_text

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.logins import PasswordLogin


class Plain:
    """See `sasl.Mechanism`; messages travel as they are."""

    name: Final = "PLAIN"
    refusal: Final = CountedRefusalError

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login
        # Read before anybody is called: what cannot be sent is said here.
        self._response = b"\0".join(
            (b"", login.user.encode(), read_secret_text(login.password).encode())
        )

    @property
    def hint(self) -> str:
        """See there."""
        return (
            f"User {self._login.user!r} or the password from {self._login.password} is wrong; it"
            " says the same when its own directory (LDAP) does not answer"
        )

    def start(self) -> bytes:
        """See there."""
        return self._response

    def answer(self, challenge: bytes) -> bytes:
        """See there."""
        raise MechanismError(f"PLAIN has one round, found a challenge of {len(challenge)} bytes")

    def finish(self, last: bytes) -> None:
        """See there: the server proves nothing, TLS has."""

    def seal(self, message: bytes) -> bytes:
        """See there."""
        return message

    def unseal(self, message: bytes) -> bytes:
        """See there."""
        return message

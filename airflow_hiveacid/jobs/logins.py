"""How somebody logs in to a metastore, as plain values that cross the seam; each checks itself.

A secret is never in here, only where it lies: in a file, or in an environment variable. It is read
on the machine that opens the door, each time it does.

Example:
    >>> PasswordLogin(user="etl", password=SecretSource.parse("env:METASTORE_PASSWORD")).password
    SecretSource(file=None, variable='METASTORE_PASSWORD')
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.errors import ConfigurationError

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# A principal of two names: the service and the host it runs on.
_SERVICE: Final = re.compile(r"[^/@\s]+/[^/@\s]+(@[^/@\s]+)?\Z")


class Protection(enum.Enum):
    """What is done to each message after a login; the values are those of hadoop.rpc.protection."""

    AUTHENTICATION = "authentication"
    INTEGRITY = "integrity"
    PRIVACY = "privacy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSource:
    """Where a secret lies: in the file, or in the environment variable of this name."""

    file: str | None = None
    variable: str | None = None

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.variable):
            raise ConfigurationError("a secret lies in one place: a file, or a variable")
        if self.variable and not _VARIABLE.match(self.variable):
            # What stands there may be the secret itself, so it is not shown.
            raise ConfigurationError("a secret's environment variable is given by its name")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `file:/path` or `env:NAME`.

        Raises:
            ConfigurationError: the text has another form; the message does not show it.
        """
        kind, _, place = text.strip().partition(":")
        match kind:
            case "file" if place:
                return cls(file=place)
            case "env":
                return cls(variable=place)
            case _:
                raise ConfigurationError(
                    "expected file:/path or env:NAME, where the secret lies, never the secret"
                )

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"environment variable {self.variable}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Kerberos by a keytab, or by the tickets of a cache.

    `service` is the metastore's principal, as `hive/_HOST@REALM`; `_HOST` becomes the host of the
    address that is called, in lower case. With `keytab`, `client` logs in by itself; else the
    tickets of `cache` are used, of the process's own cache if that is None. `protection` is the
    least that will do: the strongest that the metastore offers is taken.
    """

    service: str
    client: str | None = None
    keytab: str | None = None
    cache: str | None = None
    protection: Protection = Protection.AUTHENTICATION

    def __post_init__(self) -> None:
        if not _SERVICE.match(self.service):
            raise ConfigurationError(
                f"the metastore's principal {self.service!r} is not of the form hive/_HOST@REALM"
            )
        if self.keytab and not self.client:
            raise ConfigurationError("a keytab needs the client principal whose key it holds")
        if self.keytab and self.cache:
            raise ConfigurationError("tickets come from a keytab or from a cache, not from both")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """A Hadoop delegation token of the metastore.

    It lies at `token`: its text, or a file of Hadoop's credentials. None is the file that YARN
    gives each container ($HADOOP_TOKEN_FILE_LOCATION). `protection`: see KerberosLogin.
    """

    token: SecretSource | None = None
    protection: Protection = Protection.AUTHENTICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    """User and password, which only a Hive 4 metastore takes; `in_clear` allows it without TLS."""

    user: str
    password: SecretSource
    in_clear: bool = False

    def __post_init__(self) -> None:
        _check_user(self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerLogin:
    """A bearer token (JWT) at each HTTP call; `in_clear` allows it without TLS."""

    bearer: SecretSource
    in_clear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderLogin:
    """A user name in a header of each HTTP call, which the metastore believes."""

    user: str

    def __post_init__(self) -> None:
        _check_user(self.user)


Login = KerberosLogin | TokenLogin | PasswordLogin | BearerLogin | HeaderLogin


def _check_user(user: str) -> None:
    # The server takes bytes for characters, so no other name would arrive as it was sent.
    if not (user and user.isascii() and user.isprintable() and user == user.strip()):
        raise ConfigurationError(f"the user name {user!r} is not made of visible ASCII characters")

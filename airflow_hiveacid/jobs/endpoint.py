"""The addresses and login of a metastore, as plain values without secrets.

Each login checks its own fields. A login never contains a secret, only the name of a file or an
environment variable. The connecting machine reads the secret for each new connection.

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
from airflow_hiveacid.jobs import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# A principal that consists of a service, a host and an optional realm.
_SERVICE: Final = re.compile(r"[^/@\s]+/[^/@\s]+(@[^/@\s]+)?\Z")


class Protection(enum.Enum):
    """The protection of each message after a login, with the values of hadoop.rpc.protection."""

    AUTHENTICATION = "authentication"
    INTEGRITY = "integrity"
    PRIVACY = "privacy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSource:
    """A reference to a secret: the path of a file, or the name of an environment variable."""

    file: str | None = None
    variable: str | None = None

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.variable):
            raise ConfigurationError("give a secret as either a file or an environment variable")
        if self.variable and not _VARIABLE.match(self.variable):
            # The message does not show the value, because it may be the secret itself.
            raise ConfigurationError("give the name of the secret's environment variable")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `file:/path` or `env:NAME`.

        Raises ConfigurationError if the text has neither of these forms. The message does not show
        the text.
        """
        kind, _, value = text.strip().partition(":")
        match kind:
            case "file" if value:
                return cls(file=value)
            case "env":
                return cls(variable=value)
            case _:
                raise ConfigurationError(
                    "expected the place of the secret, as file:/path or env:NAME, not the secret"
                    " itself"
                )

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"environment variable {self.variable}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Kerberos with a keytab, or with the tickets of a cache.

    `service` is the metastore's principal, such as `hive/_HOST@REALM`. `_HOST` is replaced with the
    host in the server's address, in lower case. With `keytab`, the client requests tickets with the
    key of `client`. Without `keytab`, the client reads tickets from `cache`, or from the default
    cache if `cache` is None. `protection` is the minimum level, or None for any level. The client
    uses the strongest level that the metastore offers. Kerberos protects the metastore's offer, so
    an attacker on the network cannot change it.
    """

    service: str
    client: str | None = None
    keytab: str | None = None
    cache: str | None = None
    protection: Protection | None = None

    def __post_init__(self) -> None:
        if not _SERVICE.match(self.service):
            raise ConfigurationError(
                f"the metastore's principal {self.service!r} is not of the form hive/_HOST@REALM"
            )
        if self.keytab and not self.client:
            raise ConfigurationError("give the client principal whose key the keytab contains")
        if self.keytab and self.cache:
            raise ConfigurationError("give either a keytab or a ticket cache, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """A Hadoop delegation token of the metastore.

    `token` refers to the token itself or to a Hadoop credentials file. If `token` is None, the
    client reads the token from the file that YARN gives each container
    ($HADOOP_TOKEN_FILE_LOCATION). `protection` is the minimum level. The default is AUTHENTICATION
    with TLS, and INTEGRITY without TLS. Without TLS, the metastore sends its offer in clear text,
    and an attacker could remove all protection from the offer.
    """

    token: SecretSource | None = None
    protection: Protection | None = None

    def least(self, *, is_encrypted: bool) -> Protection:
        """Return the minimum protection of messages for an encrypted or unencrypted transport."""
        if self.protection is not None:
            return self.protection
        return Protection.AUTHENTICATION if is_encrypted else Protection.INTEGRITY


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    """User and password, for Hive 4 metastores only; `in_clear` allows the login without TLS."""

    user: str
    password: SecretSource
    in_clear: bool = False

    def __post_init__(self) -> None:
        _check_user(self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerLogin:
    """A bearer token (JWT) with each HTTP call; `in_clear` allows the login without TLS."""

    bearer: SecretSource
    in_clear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderLogin:
    """A user name in a header of each HTTP call; the metastore trusts this header."""

    user: str

    def __post_init__(self) -> None:
        _check_user(self.user)


Login = KerberosLogin | TokenLogin | PasswordLogin | BearerLogin | HeaderLogin


def secret_source_of(login: Login | None) -> SecretSource | None:
    """Return where the secret of a login is; None if no field of the login says it.

    Example:
        >>> secret_source_of(BearerLogin(bearer=SecretSource(variable="JWT")))
        SecretSource(file=None, variable='JWT')
    """
    match login:
        case TokenLogin():
            return login.token
        case PasswordLogin():
            return login.password
        case BearerLogin():
            return login.bearer
        case _:
            return None


def _check_user(user: str) -> None:
    # The server decodes each byte as one character, so user names must be ASCII.
    if not (user and user.isascii() and user.isprintable() and user == user.strip()):
        raise ConfigurationError(
            f"the user name {user!r} does not consist of visible ASCII characters"
        )


class Transport(enum.Enum):
    """The protocol that carries Thrift messages to the metastore."""

    PLAIN = "plain"
    TLS = "tls"
    HTTP = "http"
    HTTPS = "https"

    @property
    def is_http(self) -> bool:
        """True if each call is an HTTP request."""
        return self in {Transport.HTTP, Transport.HTTPS}

    @property
    def is_encrypted(self) -> bool:
        """True if the transport uses TLS."""
        return self in {Transport.TLS, Transport.HTTPS}

    @property
    def scheme(self) -> str:
        """The URI scheme of addresses for this transport."""
        return self.value if self.is_http else "thrift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metastore:
    """One metastore: the addresses of its servers, the login, and time limits.

    `uris` are `thrift://host:port`, or over HTTP `http(s)://host:port/path`. The client tries the
    URIs in the given order. `user` is the owner of locks. Without a `login`, the client calls
    `set_ugi` with `user`. If `user` is None, the client does not call `set_ugi`.
    """

    uris: tuple[str, ...]
    transport: Transport = Transport.PLAIN
    login: Login | None = None
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    verify_host: bool = True
    user: str | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    call_timeout_s: float = CALL_TIMEOUT_S

    def __post_init__(self) -> None:
        problem = login_problem(self.transport, self.login)
        if problem is not None:
            raise ConfigurationError(f"metastore {', '.join(self.uris)}: {problem}")


MetastoreEndpoint = Metastore
"""The internal name of the class; users import `Metastore` from `airflow_hiveacid.acid`."""


def login_problem(transport: Transport, login: Login | None) -> str | None:
    """Return why the login cannot use the transport; None if it can."""
    over_http = isinstance(login, BearerLogin | HeaderLogin)
    if transport.is_http and not over_http:
        return f"transport {transport.value} supports login by header or bearer token only"
    if over_http and not transport.is_http:
        return f"header and bearer token need transport http or https, not {transport.value}"
    match login:
        case PasswordLogin() | BearerLogin() if not (transport.is_encrypted or login.in_clear):
            return (
                f"the secret would be sent in clear text over transport {transport.value}; use"
                f" {'https' if transport.is_http else 'tls'}, or set secret_in_clear if you"
                " trust the network"
            )
        case _:
            return None

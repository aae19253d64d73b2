"""A metastore that requires a login, and the additional servers for the login.

Input is a configuration and a kind of login. The servers' files are in the data directory. Output
is the fields of an Airflow connection. The login of a data directory never changes.
"""

from __future__ import annotations

import enum
import fcntl
import json
import shlex
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, assert_never

from airflow_hiveacid.local.errors import LocalServerError, ServerConflictError
from airflow_hiveacid.local.logins import access_kinds as door_kinds
from airflow_hiveacid.local.logins.directory import LocalDirectory, LocalDirectoryConfig
from airflow_hiveacid.local.logins.kdc import LocalKdc, LocalKdcConfig
from airflow_hiveacid.local.logins.openssl import (
    make_certificates,
    make_signer,
    private_folder,
    write_private,
)
from airflow_hiveacid.local.metastore.server import LocalMetastore
from airflow_hiveacid.local.progress import Progress, log_progress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_hiveacid.local.access import Access
    from airflow_hiveacid.local.site import LocalMetastoreConfig

USER: Final = "etl"
_TOKEN_LIFE_S: Final = 30 * 86_400.0


class LoginOption(enum.Enum):
    """The kind of login; the value is the option on the command line."""

    KERBEROS = "kerberos"
    LDAP = "ldap"
    HTTP_JWT = "http-jwt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The fields of a connection to a metastore, with paths of secrets instead of their values.

    `extra` has the additional fields of the connection's form, by name. `environment` has variables
    for every process that connects.
    """

    uri: str
    user: str | None
    extra: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def connection(self) -> str:
        """Return the connection as JSON, for an environment variable that Airflow reads."""
        body = {"conn_type": "hive_acid_metastore", "host": self.uri, "extra": dict(self.extra)}
        return json.dumps(body if self.user is None else {**body, "login": self.user})

    def lines(self) -> tuple[str, ...]:
        """Return the connection as readable lines, with one field in each line."""
        fields = {"host": self.uri, **({"login": self.user} if self.user else {}), **self.extra}
        width = max(map(len, fields))
        return (
            "connection of type hive_acid_metastore:",
            *(f"  {name:{width}}  {value}" for name, value in fields.items()),
            *(f"  set {name}={value} where it is used" for name, value in self.environment.items()),
        )

    def variables(self) -> str:
        """Return shell commands that set variables for the connection `hive_acid_default`."""
        values = {"AIRFLOW_CONN_HIVE_ACID_DEFAULT": self.connection(), **self.environment}
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def login_of(config: LocalMetastoreConfig) -> LoginOption | None:
    """Return the original login of the data directory; None if it has no login."""
    for login in LoginOption:
        if (_folder(config) / login.value).is_dir():
            return login
    return None


def variables_file(config: LocalMetastoreConfig) -> Path:
    """Return the path of the file with the shell commands of `Entrance.variables`."""
    return _folder(config) / "connection.sh"


def start_guarded(
    config: LocalMetastoreConfig, login: LoginOption, progress: Progress = log_progress
) -> tuple[LocalMetastore, Entrance]:
    """Start the servers for a login, then a metastore with the login; `config.access` is replaced.

    Raises:
        MissingProgramError: A package is not installed.
        LocalServerError: The release does not support the login; or see `LocalMetastore.start`.
        ServerConflictError: The directory was created for a different login, or without a login.
    """
    found = login_of(config)
    if found is not login and (found is not None or (config.data_dir / "schema-version").exists()):
        made = f"--{found.value}" if found else "use without a login"
        raise ServerConflictError(
            f"{config.data_dir} was created for {made}; use another --dir with --{login.value}"
        )
    if login is not LoginOption.KERBEROS and not config.version.startswith("4"):
        raise LocalServerError(
            f"Hive {config.version} does not support --{login.value} and would accept every user."
            " Use --version 4.0.1"
        )
    private_folder(_folder(config))
    try:
        with (_folder(config) / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            access, entrance = _beside(config, login, progress)
        metastore = LocalMetastore(replace(config, access=access), progress=progress)
        metastore.start()
    except BaseException:
        if not LocalMetastore(config).is_running():
            stop_beside(config, progress)
        raise
    entrance = replace(entrance, uri=metastore.uri)
    write_private(variables_file(config), entrance.variables())
    return metastore, entrance


def stop_beside(config: LocalMetastoreConfig, progress: Progress = log_progress) -> None:
    """Stop the servers that were started for a login, if any."""
    _kdc(config, progress).stop()
    _directory(config, progress).stop()


def with_access(config: LocalMetastoreConfig) -> LocalMetastoreConfig:
    """Return the configuration with the original access of its data directory.

    With this access, the command line can inspect a metastore that requires a login.
    """
    login = login_of(config)
    # If the servers for the login have stopped, the settings are unknown. In this case, no client
    # can log in, so nothing needs the settings.
    with suppress(LocalServerError):
        if login is not None:
            return replace(config, access=_access(config, login, log_progress))
    return config


def _beside(
    config: LocalMetastoreConfig, login: LoginOption, progress: Progress
) -> tuple[Access, Entrance]:
    match login:
        case LoginOption.KERBEROS:
            kdc = _kdc(config, progress)
            kdc.start()
            client = kdc.keytab(USER)
            extra = {
                "authentication": "kerberos",
                "kerberos_service": f"hive/_HOST@{kdc.config.realm}",
                "kerberos_client": kdc.principal(USER),
                "kerberos_keytab": str(client),
                "protection": "privacy",
            }
            environment = {"KRB5_CONFIG": str(kdc.configuration)}
            entrance = Entrance(uri="", user=None, extra=extra, environment=environment)
        case LoginOption.LDAP:
            directory = _directory(config, progress)
            directory.start()
            entrance = _inside_tls(config, "tls", "password", f"file:{directory.password_file}")
        case LoginOption.HTTP_JWT:
            signer = make_signer(_folder(config) / login.value)
            token = signer.folder / f"{USER}.jwt"
            write_private(token, f"{signer.token(USER, life_s=_TOKEN_LIFE_S)}\n")
            entrance = _inside_tls(config, "https", "bearer", f"file:{token}")
        case _:
            assert_never(login)
    return _access(config, login, progress), entrance


def _inside_tls(
    config: LocalMetastoreConfig, transport: str, authentication: str, secret_from: str
) -> Entrance:
    extra = {
        "transport": transport,
        "authentication": authentication,
        "secret_from": secret_from,
        "ca_certificate": str(make_certificates(_folder(config) / "tls").authority),
    }
    user = USER if authentication == "password" else None
    return Entrance(uri="", user=user, extra=extra)


def _access(config: LocalMetastoreConfig, login: LoginOption, progress: Progress) -> Access:
    if login is LoginOption.KERBEROS:
        return door_kinds.kerberos(_kdc(config, progress))
    certificates = make_certificates(_folder(config) / "tls")
    if login is LoginOption.LDAP:
        return door_kinds.in_tls(door_kinds.ldap(_directory(config, progress).uri), certificates)
    return door_kinds.in_tls(
        door_kinds.bearer(make_signer(_folder(config) / login.value)), certificates
    )


def _kdc(config: LocalMetastoreConfig, progress: Progress) -> LocalKdc:
    folder = _folder(config) / LoginOption.KERBEROS.value
    return LocalKdc(
        LocalKdcConfig(data_dir=folder, ends_with_parent=config.ends_with_parent),
        progress=progress,
    )


def _directory(config: LocalMetastoreConfig, progress: Progress) -> LocalDirectory:
    folder = _folder(config) / LoginOption.LDAP.value
    return LocalDirectory(
        LocalDirectoryConfig(data_dir=folder, user=USER, ends_with_parent=config.ends_with_parent),
        progress=progress,
    )


def _folder(config: LocalMetastoreConfig) -> Path:
    return config.data_dir / "login"

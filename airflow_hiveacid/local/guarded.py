"""Knows how a metastore that wants a login and the servers behind that login belong together.

Takes a configuration and a kind of login, starts what it needs inside the data directory, and says
what to fill into a connection. A directory stays with the kind it was made for.
"""

from __future__ import annotations

import enum
import fcntl
import json
import shlex
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, assert_never

from airflow_hiveacid.local import door_kinds
from airflow_hiveacid.local.directory import LocalDirectory, LocalDirectoryConfig
from airflow_hiveacid.local.errors import LocalServerError, ServerConflictError
from airflow_hiveacid.local.kdc import LocalKdc, LocalKdcConfig
from airflow_hiveacid.local.metastore import LocalMetastore
from airflow_hiveacid.local.openssl import (
    make_certificates,
    make_signer,
    private_folder,
    write_private,
)
from airflow_hiveacid.local.progress import Progress, log_progress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_hiveacid.local.door import Door
    from airflow_hiveacid.local.site import LocalMetastoreConfig

USER: Final = "etl"
_TOKEN_LIFE_S: Final = 30 * 86_400.0


class Login(enum.Enum):
    """How one logs in; the value is the command's option."""

    KERBEROS = "kerberos"
    LDAP = "ldap"
    HTTP_JWT = "http-jwt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """What to fill into a connection, and what its processes need; places of secrets, no secret.

    `extra` are the fields of the connection's form by name; `environment` is wanted by everybody
    who connects.
    """

    uri: str
    user: str | None
    extra: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def connection(self) -> str:
        """The connection as Airflow reads it from a variable."""
        body = {"conn_type": "hive_acid_metastore", "host": self.uri, "extra": dict(self.extra)}
        return json.dumps(body if self.user is None else {**body, "login": self.user})

    def lines(self) -> tuple[str, ...]:
        """The same for people, one field a line."""
        fields = {"host": self.uri, **({"login": self.user} if self.user else {}), **self.extra}
        width = max(map(len, fields))
        return (
            "connection of type hive_acid_metastore:",
            *(f"  {name:{width}}  {value}" for name, value in fields.items()),
            *(
                f"  with {name}={value} where it is used"
                for name, value in self.environment.items()
            ),
        )

    def variables(self) -> str:
        """Lines for a shell that set the connection `hive_acid_default`, and what it needs."""
        values = {"AIRFLOW_CONN_HIVE_ACID_DEFAULT": self.connection(), **self.environment}
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def login_of(config: LocalMetastoreConfig) -> Login | None:
    """What the data directory was made for; None if everybody may enter."""
    for login in Login:
        if (_folder(config) / login.value).is_dir():
            return login
    return None


def variables_file(config: LocalMetastoreConfig) -> Path:
    """Where the lines for a shell lie."""
    return _folder(config) / "connection.sh"


def start_guarded(
    config: LocalMetastoreConfig, login: Login, progress: Progress = log_progress
) -> tuple[LocalMetastore, Entrance]:
    """Starts what the login needs and, behind it, the metastore; `config.door` is replaced.

    Raises:
        MissingProgramError: A package is not installed.
        LocalServerError: The release has no such login, or as `LocalMetastore.start`.
        ServerConflictError: The directory was made for another login, or for none.
    """
    found = login_of(config)
    if found is not login and (found is not None or (config.data_dir / "schema-version").exists()):
        made = f"--{found.value}" if found else "everybody"
        raise ServerConflictError(
            f"{config.data_dir} was made for {made}; give --{login.value} another --dir"
        )
    if login is not Login.KERBEROS and not config.version.startswith("4"):
        raise LocalServerError(
            f"a metastore of Hive {config.version} knows no --{login.value}: it would let everybody"
            " in. Take --version 4.0.1"
        )
    private_folder(_folder(config))
    try:
        with (_folder(config) / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            door, entrance = _beside(config, login, progress)
        metastore = LocalMetastore(replace(config, door=door), progress=progress)
        metastore.start()
    except BaseException:
        if not LocalMetastore(config).is_running():
            stop_beside(config, progress)
        raise
    entrance = replace(entrance, uri=metastore.uri)
    write_private(variables_file(config), entrance.variables())
    return metastore, entrance


def stop_beside(config: LocalMetastoreConfig, progress: Progress = log_progress) -> None:
    """Ends what was started for a login; nothing when there is none."""
    _kdc(config, progress).stop()
    _directory(config, progress).stop()


def with_door(config: LocalMetastoreConfig) -> LocalMetastoreConfig:
    """The configuration with the door of its directory, for who only looks at its server."""
    login = login_of(config)
    # What lies behind the login may not run any more; then nobody can say more than: it is shut.
    with suppress(LocalServerError):
        if login is not None:
            return replace(config, door=_door(config, login, log_progress))
    return config


def _beside(
    config: LocalMetastoreConfig, login: Login, progress: Progress
) -> tuple[Door, Entrance]:
    match login:
        case Login.KERBEROS:
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
        case Login.LDAP:
            directory = _directory(config, progress)
            directory.start()
            entrance = _inside_tls(config, "tls", "password", f"file:{directory.password_file}")
        case Login.HTTP_JWT:
            signer = make_signer(_folder(config) / login.value)
            token = signer.folder / f"{USER}.jwt"
            write_private(token, f"{signer.token(USER, life_s=_TOKEN_LIFE_S)}\n")
            entrance = _inside_tls(config, "https", "bearer", f"file:{token}")
        case _:
            assert_never(login)
    return _door(config, login, progress), entrance


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


def _door(config: LocalMetastoreConfig, login: Login, progress: Progress) -> Door:
    if login is Login.KERBEROS:
        return door_kinds.kerberos(_kdc(config, progress))
    certificates = make_certificates(_folder(config) / "tls")
    if login is Login.LDAP:
        return door_kinds.in_tls(door_kinds.ldap(_directory(config, progress).uri), certificates)
    return door_kinds.in_tls(
        door_kinds.bearer(make_signer(_folder(config) / login.value)), certificates
    )


def _kdc(config: LocalMetastoreConfig, progress: Progress) -> LocalKdc:
    folder = _folder(config) / Login.KERBEROS.value
    return LocalKdc(
        LocalKdcConfig(data_dir=folder, ends_with_parent=config.ends_with_parent),
        progress=progress,
    )


def _directory(config: LocalMetastoreConfig, progress: Progress) -> LocalDirectory:
    folder = _folder(config) / Login.LDAP.value
    return LocalDirectory(
        LocalDirectoryConfig(data_dir=folder, user=USER, ends_with_parent=config.ends_with_parent),
        progress=progress,
    )


def _folder(config: LocalMetastoreConfig) -> Path:
    return config.data_dir / "login"

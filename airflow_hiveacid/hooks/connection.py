"""Settings of an Airflow connection of type `hive_acid_metastore`; no other module parses them.

Every error message names the connection and the field. `provider_info.py` has the labels and texts
of the fields in Airflow's form.

Example:
    >>> connection = ConnectionFields(conn_id="hms", host="a,b:9084", extra={"call_timeout_s": 5})
    >>> parse_settings(connection).endpoint.uris
    ('thrift://a:9083', 'thrift://b:9084')
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.extras import Extras, extras_of
from airflow_hiveacid.hooks.logins import parse_login
from airflow_hiveacid.jobs import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S, LOCK_TIMEOUT_S, Engine
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport, login_problem
from airflow_hiveacid.provider_info import get_provider_info

if TYPE_CHECKING:
    from airflow.sdk import Connection

log = logging.getLogger(__name__)

CONN_TYPE: Final = "hive_acid_metastore"
EXTRAS: Final[tuple[str, ...]] = tuple(get_provider_info()["connection-types"][0]["conn-fields"])
"""The extras of a connection, those of Airflow's form; any other extra is an error."""
DEFAULT_PORT: Final = 9083
_MAX_PORT: Final = 65535
_NO_COMMA: Final = re.compile(r"[\s;|]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFields:
    """The fields of an Airflow connection that this provider uses.

    The password is left out, because all of these fields are sent to the Spark driver.
    """

    conn_id: str
    host: str = ""
    port: int | None = None
    login: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Connection) -> ConnectionFields:
        """Copy the fields of Airflow's connection.

        Raises ConfigurationError if the connection is of another type, so a call could send the
        login's name to a server that is no metastore, or if its extra is not a JSON object.
        """
        if connection.conn_type != CONN_TYPE:
            raise ConfigurationError(
                f"connection {connection.conn_id!r} is of type {connection.conn_type!r}, not"
                f" {CONN_TYPE!r}; nothing was sent to its host. Name a connection to a metastore"
            )
        extra = extras_of(connection)
        unused = {
            "password": connection.password,
            "schema": connection.schema,
            "host": connection.host if extra.get("uris") else None,
        }
        _warn_of_unused(connection.conn_id, tuple(name for name in unused if unused[name]))
        return cls(
            conn_id=connection.conn_id,
            host=connection.host or "",
            port=connection.port,
            login=connection.login or None,
            extra=extra,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreSettings:
    """The settings of a connection, such as the metastore, time limits and the result directory.

    `result_dir` is a URI, or None if all drivers run on the Airflow worker. `conflict_policy`
    applies if neither the job nor its table sets a conflict policy. `engine` applies if the task
    chooses none. `allow_unsafe_expressions` allows SQL to call Java code and to read the driver's
    files.
    """

    conn_id: str
    endpoint: MetastoreEndpoint
    lock_timeout_s: float = LOCK_TIMEOUT_S
    result_dir: str | None = None
    conflict_policy: ConflictPolicy = ConflictPolicy.HIVE
    engine: Engine = Engine.AUTO
    allow_unsafe_expressions: bool = False


@cache  # a sensor reads its connection at every poll
def _warn_of_unused(conn_id: str, fields: tuple[str, ...]) -> None:
    for name in fields:
        instead = {"password": "; give secret_from", "host": ": uris replace it"}.get(name, "")
        log.warning("connection %s: field %s is not used%s", conn_id, name, instead)


def parse_settings(connection: ConnectionFields) -> MetastoreSettings:
    """Parse and check the fields of a connection."""
    extras = Extras(connection.conn_id, connection.extra)
    extras.check_known(EXTRAS)
    transport = extras.choice("transport", Transport.PLAIN)
    verify_host = extras.truth("verify_host", default=True)
    certificates = {
        name: extras.text(name) for name in ("ca_certificate", "client_certificate", "client_key")
    }
    if not transport.is_encrypted:
        for name, value in certificates.items():
            if value:
                better = "https" if transport.is_http else "tls"
                raise extras.wrong(
                    name, f"is set, but transport is {transport.value}; set transport to {better}"
                )
        if not verify_host:
            raise extras.wrong(
                "verify_host", f"is false, but transport is {transport.value}; it needs TLS"
            )
    if bool(certificates["client_certificate"]) != bool(certificates["client_key"]):
        raise extras.wrong("client_key", "must be set together with client_certificate")
    login = parse_login(extras, connection.login)
    problem = login_problem(transport, login)
    if problem is not None:
        raise extras.wrong("authentication", problem)
    return MetastoreSettings(
        conn_id=connection.conn_id,
        endpoint=MetastoreEndpoint(
            uris=_uris(connection, extras, transport),
            transport=transport,
            login=login,
            ca_certificate=certificates["ca_certificate"],
            client_certificate=certificates["client_certificate"],
            client_key=certificates["client_key"],
            verify_host=verify_host,
            user=connection.login,
            connect_timeout_s=extras.seconds("connect_timeout_s", default=CONNECT_TIMEOUT_S),
            call_timeout_s=extras.seconds("call_timeout_s", default=CALL_TIMEOUT_S),
        ),
        lock_timeout_s=extras.seconds("lock_timeout_s", default=LOCK_TIMEOUT_S, may_be_zero=True),
        result_dir=extras.text("result_dir"),
        conflict_policy=extras.choice("conflict_policy", ConflictPolicy.HIVE),
        engine=extras.choice("engine", Engine.AUTO),
        allow_unsafe_expressions=extras.truth("allow_unsafe_expressions", default=False),
    )


def _uris(connection: ConnectionFields, extras: Extras, transport: Transport) -> tuple[str, ...]:
    listed = extras.text("uris")
    name, text = ("uris", listed) if listed else ("host", connection.host)
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if not servers:
        raise extras.wrong(
            "host", "is empty, and so is the extra 'uris'; set one to the metastore's address"
        )
    read = _Servers(extras, name, transport, connection.port or DEFAULT_PORT)
    return tuple(read.uri(server) for server in servers)


@dataclass(frozen=True, slots=True)
class _Servers:
    extras: Extras
    name: str
    transport: Transport
    default_port: int

    def uri(self, server: str) -> str:
        scheme = self.transport.scheme
        if set("@?#") & set(server):
            # Do not show the address: it may contain a password.
            raise self._wrong("has an address with a user, a query or a fragment; remove it")
        if _NO_COMMA.search(server):
            raise self._wrong(f"{server!r} is no address; separate several addresses by commas")
        try:
            parts = urlsplit(server if "://" in server else f"{scheme}://{server}")
        except ValueError:
            raise self._wrong(f"{server!r} is not a valid address") from None
        try:
            port = self.default_port if parts.port is None else parts.port
        except ValueError:
            raise self._wrong(f"{server!r} has no valid port") from None
        path = parts.path.rstrip("/")
        if parts.scheme != scheme or not parts.hostname or (path and not self.transport.is_http):
            form = f"{scheme}://host:port{'/path' if self.transport.is_http else ''}"
            raise self._wrong(
                f"expected host, host:port or {form}, as transport is {self.transport.value};"
                f" found {server!r}"
            )
        if not 0 < port <= _MAX_PORT:
            raise self._wrong(f"{server!r} has no valid port")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return f"{scheme}://{host}:{port}{path}"

    def _wrong(self, problem: str) -> ConfigurationError:
        return self.extras.wrong(self.name, problem)

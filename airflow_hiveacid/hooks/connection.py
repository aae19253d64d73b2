"""How an Airflow connection of type `hive_acid_metastore` becomes settings: parsed once, here.

Takes the connection as Airflow hands it over; gives frozen, checked values. Nothing below this
module sees a dict of extras. Every complaint names the connection and the field.

Example:
    >>> connection = ConnectionFields(conn_id="hms", host="a,b:9084", extra={"call_timeout_s": 5})
    >>> parse_settings(connection).endpoint.uris
    ('thrift://a:9083', 'thrift://b:9084')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Connection

DEFAULT_PORT: Final = 9083
DEFAULT_LOCK_TIMEOUT_S: Final = 300.0
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFields:
    """The fields of a connection that count; a password is not among them, as none is used yet."""

    conn_id: str
    host: str = ""
    port: int | None = None
    login: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Connection) -> ConnectionFields:
        """Take them from Airflow's connection."""
        return cls(
            conn_id=connection.conn_id,
            host=connection.host or "",
            port=connection.port,
            login=connection.login or None,
            extra=connection.extra_dejson,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreSettings:
    """What a connection says: how to reach the metastore, how long to wait, where results go.

    `result_dir` is a URI, or None when jobs run with the driver on the Airflow worker.
    """

    conn_id: str
    endpoint: MetastoreEndpoint
    lock_timeout_s: float = DEFAULT_LOCK_TIMEOUT_S
    result_dir: str | None = None


def parse_settings(connection: ConnectionFields) -> MetastoreSettings:
    """Read and check a connection.

    Raises:
        ConfigurationError: a field is wrong; the message names it and the connection.
    """
    extras = _Extras(connection)
    transport = extras.transport()
    certificates = {
        name: extras.text(name) for name in ("ca_certificate", "client_certificate", "client_key")
    }
    if transport is Transport.PLAIN:
        for name, value in certificates.items():
            if value:
                raise extras.wrong(name, "is set, but transport is plain; set transport to tls")
    if bool(certificates["client_certificate"]) != bool(certificates["client_key"]):
        raise extras.wrong("client_key", "and client_certificate belong together; set both or none")
    return MetastoreSettings(
        conn_id=connection.conn_id,
        endpoint=MetastoreEndpoint(
            uris=_uris(connection, extras),
            transport=transport,
            ca_certificate=certificates["ca_certificate"],
            client_certificate=certificates["client_certificate"],
            client_key=certificates["client_key"],
            verify_host=extras.truth("verify_host", default=True),
            user=connection.login,
            connect_timeout_s=extras.seconds("connect_timeout_s", default=10.0),
            call_timeout_s=extras.seconds("call_timeout_s", default=120.0),
        ),
        lock_timeout_s=extras.seconds("lock_timeout_s", default=DEFAULT_LOCK_TIMEOUT_S),
        result_dir=extras.text("result_dir"),
    )


@dataclass(frozen=True, slots=True)
class _Extras:
    """Typed access to the extras; a form may store numbers and truth values as text."""

    connection: ConnectionFields

    def wrong(self, name: str, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"connection {self.connection.conn_id!r}, field {name!r}: {problem}"
        )

    def text(self, name: str) -> str | None:
        value = self.connection.extra.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.wrong(name, f"expected text, found {value!r}")
        return value.strip()

    def transport(self) -> Transport:
        value = self.text("transport") or Transport.PLAIN.value
        try:
            return Transport(value.lower())
        except ValueError:
            known = ", ".join(t.value for t in Transport)
            raise self.wrong("transport", f"expected one of {known}, found {value!r}") from None

    def truth(self, name: str, *, default: bool) -> bool:
        value = self.connection.extra.get(name)
        match str("" if value is None else value).strip().lower():
            case "":
                return default
            case "true" | "1" | "yes":
                return True
            case "false" | "0" | "no":
                return False
            case _:
                raise self.wrong(name, f"expected true or false, found {value!r}")

    def seconds(self, name: str, *, default: float) -> float:
        value = self.connection.extra.get(name)
        if value is None or value == "":
            return default
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = float("nan")
        if not 0 < seconds < float("inf"):
            raise self.wrong(name, f"expected seconds above 0, found {value!r}")
        return seconds


def _uris(connection: ConnectionFields, extras: _Extras) -> tuple[str, ...]:
    listed = extras.text("uris")
    name, text = ("uris", listed) if listed else ("host", connection.host)
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if not servers:
        raise extras.wrong(
            "host", "is empty, and so is the extra 'uris'; one of them names the metastore"
        )
    return tuple(_uri(server, connection.port or DEFAULT_PORT, extras, name) for server in servers)


def _uri(server: str, default_port: int, extras: _Extras, name: str) -> str:
    parts = urlsplit(server if "://" in server else f"thrift://{server}")
    try:
        port = parts.port or default_port
    except ValueError:
        raise extras.wrong(name, f"{server!r} has no valid port") from None
    if parts.scheme != "thrift" or not parts.hostname or parts.path.strip("/"):
        raise extras.wrong(
            name, f"expected host, host:port or thrift://host:port, found {server!r}"
        )
    if not 0 < port <= _MAX_PORT:
        raise extras.wrong(name, f"{server!r} has no valid port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"thrift://{host}:{port}"

"""Knows the settings of a metastore on this machine, and how they become its configuration files.

Takes a `LocalMetastoreConfig` and a port, gives the settings as a mapping and as XML. Knows no
process. A password lives in the written file alone (mode 0600): never in a command line, a log, a
`repr` or an environment variable.

Example:
    >>> from pathlib import Path
    >>> config = LocalMetastoreConfig(version="4.0.1", data_dir=Path("/data"), txn_timeout_s=20)
    >>> settings(config, port=9083)["metastore.txn.timeout"]
    '20000ms'
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never
from xml.sax.saxutils import escape

from airflow_hiveacid.local.door import PLAIN, Door
from airflow_hiveacid.local.releases import HIVE_4, HiveRelease

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST: Final = "127.0.0.1"
_MAX_PORT: Final = 65_535
_PASSWORD_KEY: Final = "javax.jdo.option.ConnectionPassword"  # noqa: S105 -- the key, not a value
_ALWAYS: Final = (
    "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    "org.apache.hadoop.hive.metastore.RuntimeStatsCleanerTask",
)
_REAPER_OF_3: Final = (
    "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService",
    "org.apache.hadoop.hive.metastore.txn.AcidWriteSetService",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DerbyDatabase:
    """The embedded database, in the data directory. Serialises everything on one lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase:
    """An existing, empty PostgreSQL database, or one that holds this release's schema."""

    host: str
    port: int
    name: str
    user: str
    password: str = field(repr=False)


Database = DerbyDatabase | PostgresDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMetastoreConfig:
    """What to start, and where.

    Attributes:
        version: A release of `releases.py`.
        data_dir: Everything the server keeps; made when missing.
        port: Thrift port on 127.0.0.1; 0 takes a free one.
        database: Where the server keeps its tables.
        door: How one enters: transport, login, and where they are set.
        txn_timeout_s: Seconds of silence after which a transaction is aborted.
        housekeeping_interval_s: Seconds between two rounds of the reaper that does it.
        initiator_on: Whether the server queues compactions by itself. 3.1 knows one switch for
            initiator and cleaner; there the cleaner comes along.
        cleaner_on: Whether the server removes obsolete directories (4.x).
        heap_mb: The server's heap; the schema tool gets the same.
        log_level: Of the server's log.
        start_timeout_s: Seconds until a server that does not answer is given up.
        ends_with_parent: Whether the server dies with the process that started it, however that
            dies (Linux). For tests; a server for people outlives the shell command. The kernel
            watches the thread that called `start`, so let that be one that lasts.
        extra_settings: Any other key of metastore-site.xml; wins over everything above.
    """

    version: str = HIVE_4.version
    data_dir: Path
    port: int = 0
    database: Database = DerbyDatabase()
    door: Door = PLAIN
    txn_timeout_s: float = 300.0
    housekeeping_interval_s: float = 5.0
    initiator_on: bool = False
    cleaner_on: bool = False
    heap_mb: int = 512
    log_level: str = "WARN"
    start_timeout_s: float = 120.0
    ends_with_parent: bool = False
    extra_settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Checks every value that a server would choke on later.

        Raises:
            ValueError: Names the value.
        """
        HiveRelease.of(self.version)
        if not self.data_dir.is_absolute():
            raise ValueError(f"data_dir must be absolute, not {self.data_dir}")
        if not 0 <= self.port <= _MAX_PORT:
            raise ValueError(f"port must lie between 0 and {_MAX_PORT}, not {self.port}")
        for name in ("txn_timeout_s", "housekeeping_interval_s", "start_timeout_s", "heap_mb"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.version.startswith(self.door.releases):
            raise ValueError(
                f"a metastore of Hive {self.version} has no such login: it would let everybody in"
            )

    @property
    def release(self) -> HiveRelease:
        """The release of `version`."""
        return HiveRelease.of(self.version)

    @property
    def warehouse(self) -> Path:
        """Folder of managed tables: where transactional tables live."""
        return self.data_dir / "warehouse"

    @property
    def external_warehouse(self) -> Path:
        """Folder of external tables; 4.x insists that it is not the managed one."""
        return self.data_dir / "external"

    @property
    def derby_dir(self) -> Path:
        """Folder of the embedded database."""
        return self.data_dir / "derby"


def settings(config: LocalMetastoreConfig, *, port: int) -> dict[str, str]:
    """Returns the whole metastore-site.xml as a mapping, password included."""
    interval = _milliseconds(config.housekeeping_interval_s)
    always = _ALWAYS + (_REAPER_OF_3 if config.release.reaper_in_always_tasks else ())
    return {
        **_database_settings(config),
        "metastore.warehouse.dir": config.warehouse.as_uri(),
        "metastore.warehouse.external.dir": config.external_warehouse.as_uri(),
        "metastore.thrift.port": str(port),
        "metastore.thrift.bind.host": HOST,
        "metastore.txn.timeout": _milliseconds(config.txn_timeout_s),
        # Off by default in 4.x, and then nobody reaps silent transactions.
        "metastore.housekeeping.threads.on": "true",
        "metastore.acid.housekeeper.interval": interval,
        "metastore.timedout.txn.reaper.interval": interval,
        "metastore.task.threads.always": ",".join(always),
        "metastore.compactor.initiator.on": str(config.initiator_on).lower(),
        "metastore.compactor.cleaner.on": str(config.cleaner_on).lower(),
        # By its older name: both releases have a slip in the other one.
        "hive.metastore.event.db.notification.api.auth": "false",
        **config.door.settings,
        **config.extra_settings,
    }


def fingerprint(config: LocalMetastoreConfig) -> str:
    """Digests the settings, less port and passwords: equal for servers that behave alike."""
    facts = settings(config, port=0)
    facts = {key: value for key, value in facts.items() if not _is_secret(key)}
    facts["version"] = config.version
    facts |= {f"core-site {key}": value for key, value in config.door.core_settings.items()}
    facts |= {f"jvm {flag}": "" for flag in config.door.jvm_flags}
    text = "\n".join(f"{key}={value}" for key, value in sorted(facts.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_secret(key: str) -> bool:
    return key == _PASSWORD_KEY or key.endswith(".password")


def write_conf(config: LocalMetastoreConfig, *, port: int) -> Path:
    """Writes the configuration folder and returns it; it goes first on the class path."""
    conf = config.data_dir / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    # The server reads the first, its compactor threads the second: without it they would look for
    # work in a database of their own.
    for name in ("metastore-site.xml", "hive-site.xml"):
        _write_private(conf / name, _to_xml(settings(config, port=port)))
    _write_private(conf / "core-site.xml", _to_xml(config.door.core_settings))
    _write_private(conf / "metastore-log4j2.properties", _log4j2(config.log_level))
    return conf


def _database_settings(config: LocalMetastoreConfig) -> dict[str, str]:
    database = config.database
    match database:
        case DerbyDatabase():
            return {
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:{config.derby_dir};create=true",
            }
        case PostgresDatabase():
            location = f"{database.host}:{database.port}/{database.name}"
            return {
                "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{location}",
                "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
                "javax.jdo.option.ConnectionUserName": database.user,
                _PASSWORD_KEY: database.password,
            }
        case _:
            assert_never(database)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _to_xml(values: Mapping[str, str]) -> str:
    properties = "".join(
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in values.items()
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{properties}</configuration>\n'
    )


def _log4j2(level: str) -> str:
    return "\n".join(
        (
            "status = error",
            "appender.console.type = Console",
            "appender.console.name = console",
            "appender.console.target = SYSTEM_ERR",
            "appender.console.layout.type = PatternLayout",
            "appender.console.layout.pattern = %d{ISO8601} %p %c{2} [%t] %m%n",
            f"rootLogger.level = {level}",
            "rootLogger.appenderRef.console.ref = console",
            # Both warn at every start about settings of the server's own.
            "logger.datanucleus.name = DataNucleus",
            "logger.datanucleus.level = error",
            "logger.hikari.name = com.zaxxer.hikari",
            "logger.hikari.level = error",
            "",
        )
    )


def _write_private(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        os.fchmod(stream.fileno(), 0o600)  # a file of an earlier run may be wider
        stream.write(text)

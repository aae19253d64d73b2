"""The settings, configuration files and clients' access of a metastore on this machine.

A password is only in the configuration file (mode 0600), never in a command line, a log, a `repr`
or an environment variable. Starts no process.

Example:
    >>> from pathlib import Path
    >>> config = LocalMetastoreConfig(version="4.0.1", data_dir=Path("/data"), txn_timeout_s=20)
    >>> settings(config, port=9083)["metastore.txn.timeout"]
    '20000ms'
    >>> PLAIN.uri(9083)
    'thrift://127.0.0.1:9083'
"""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, assert_never
from xml.sax.saxutils import escape

from airflow_hiveacid.local.process import ServerConfig
from airflow_hiveacid.local.releases import HIVE_4, HiveRelease


class Language(enum.Enum):
    """The protocol of a client's first message."""

    THRIFT = "thrift"
    SASL = "sasl"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The access of clients to a metastore: protocol, login, and the server settings for both.

    Attributes:
        language: The protocol of the server.
        host: The server's host name for clients, as in certificates and principals.
        settings: Settings of metastore-site.xml, including passwords.
        core_settings: Settings of core-site.xml for Hadoop.
        jvm_flags: Flags of the server's JVM.
        class_path: Folders and jars to add to the server's class path.
        authority: The certificate of the server's certificate authority; None without TLS.
        releases: The major versions of Hive that support this access.
    """

    language: Language = Language.THRIFT
    host: str = "127.0.0.1"
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    core_settings: Mapping[str, str] = field(default_factory=dict)
    jvm_flags: tuple[str, ...] = ()
    class_path: tuple[Path, ...] = ()
    authority: Path | None = None
    releases: tuple[str, ...] = ("3", "4")

    def uri(self, port: int) -> str:
        """Return the URI with which clients connect to the server on this port."""
        if self.language is not Language.HTTP:
            return f"thrift://{self.host}:{port}"
        return f"http{'s' if self.authority else ''}://{self.host}:{port}/metastore"


PLAIN: Final = Access()


HOST: Final = "127.0.0.1"
_MAX_PORT: Final = 65_535
_PASSWORD_KEY: Final = "javax.jdo.option.ConnectionPassword"  # noqa: S105 -- the key, not a value
_ALWAYS: Final = (
    "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    "org.apache.hadoop.hive.metastore.RuntimeStatsCleanerTask",
)
_SERVICES_OF_3: Final = (
    "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService",
    "org.apache.hadoop.hive.metastore.txn.AcidOpenTxnsCounterService",
    "org.apache.hadoop.hive.metastore.txn.AcidWriteSetService",
)
_TASKS_OF_4_1: Final = (
    "txn.service.AcidHouseKeeperService",
    "txn.service.CompactionHouseKeeperService",
    "txn.service.AcidTxnCleanerService",
    "txn.service.AcidOpenTxnsCounterService",
    "MaterializationsRebuildLockCleanerTask",
    "PartitionManagementTask",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DerbyDatabase:
    """The embedded Derby database in the data directory; one lock serialises all operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase:
    """An existing PostgreSQL database, either empty or with the schema of this release."""

    host: str
    port: int
    name: str
    user: str
    password: str = field(repr=False)


Database = DerbyDatabase | PostgresDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMetastoreConfig(ServerConfig):
    """The location and settings of a metastore.

    Attributes:
        version: A release in `releases.py`.
        access: The transport, the login, and their settings.
        txn_timeout_s: The server aborts a transaction after this many seconds without a heartbeat.
        housekeeping_interval_s: The time between two searches for timed-out transactions, in
            seconds.
        initiator_on: True if the server queues compactions itself. In 3.1, this setting also starts
            the cleaner.
        cleaner_on: True if the server removes obsolete directories (4.x).
        heap_mb: The heap size of the server and of the schema tool, in MiB.
        extra_settings: Additional settings of metastore-site.xml. These settings override all other
            settings.
    """

    version: str = HIVE_4.version
    database: Database = DerbyDatabase()
    access: Access = PLAIN
    txn_timeout_s: float = 300.0
    housekeeping_interval_s: float = 5.0
    initiator_on: bool = False
    cleaner_on: bool = False
    heap_mb: int = 512
    log_level: str = "WARN"
    start_timeout_s: float = 120.0
    extra_settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the values early, so that the server does not fail later."""
        HiveRelease.of(self.version)
        ServerConfig.__post_init__(self)
        if not 0 <= self.port <= _MAX_PORT:
            raise ValueError(f"port must lie between 0 and {_MAX_PORT}, not {self.port}")
        for name in ("txn_timeout_s", "housekeeping_interval_s", "start_timeout_s", "heap_mb"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.version.startswith(self.access.releases):
            raise ValueError(
                f"Hive {self.version} does not support this login and would accept every user."
                f" Use version {HIVE_4.version}"
            )

    @property
    def release(self) -> HiveRelease:
        """The release of `version`."""
        return HiveRelease.of(self.version)

    @property
    def warehouse(self) -> Path:
        """The folder of managed tables; all transactional tables are managed."""
        return self.data_dir / "warehouse"

    @property
    def external_warehouse(self) -> Path:
        """The folder of external tables; 4.x requires a folder outside of the managed folder."""
        return self.data_dir / "external"

    @property
    def derby_dir(self) -> Path:
        """The folder of the embedded database."""
        return self.data_dir / "derby"


def settings(config: LocalMetastoreConfig, *, port: int) -> dict[str, str]:
    """Return all settings of metastore-site.xml as a mapping, including the password."""
    interval = _milliseconds(config.housekeeping_interval_s)
    always = _ALWAYS + (_SERVICES_OF_3 if config.release.reaper_in_always_tasks else ())
    return {
        **_database_settings(config),
        "metastore.warehouse.dir": config.warehouse.as_uri(),
        "metastore.warehouse.external.dir": config.external_warehouse.as_uri(),
        "metastore.thrift.port": str(port),
        "metastore.thrift.bind.host": HOST,
        "metastore.txn.timeout": _milliseconds(config.txn_timeout_s),
        # By default, 4.x would never abort transactions that have timed out.
        "metastore.housekeeping.threads.on": "true",
        "metastore.acid.housekeeper.interval": interval,
        "metastore.timedout.txn.reaper.interval": interval,
        "metastore.task.threads.always": ",".join(always),
        "metastore.compactor.initiator.on": str(config.initiator_on).lower(),
        "metastore.compactor.cleaner.on": str(config.cleaner_on).lower(),
        # This setting has its old name here, because both releases misspell the new name.
        "hive.metastore.event.db.notification.api.auth": "false",
        **_remote_tasks(config.release),
        **config.access.settings,
        **config.extra_settings,
    }


def _remote_tasks(release: HiveRelease) -> dict[str, str]:
    # By default, 4.1 and 4.2 start a task of Iceberg, whose jar is not on the class path.
    if not release.newer_schema:
        return {}
    tasks = ",".join(f"org.apache.hadoop.hive.metastore.{name}" for name in _TASKS_OF_4_1)
    return {"metastore.task.threads.remote": tasks}


def fingerprint(config: LocalMetastoreConfig) -> str:
    """Return a digest, equal for equal settings; it ignores the port and passwords."""
    facts = settings(config, port=0)
    facts = {key: value for key, value in facts.items() if not _is_secret(key)}
    facts["version"] = config.version
    facts |= {f"core-site {key}": value for key, value in config.access.core_settings.items()}
    facts |= {f"jvm {flag}": "" for flag in config.access.jvm_flags}
    text = "\n".join(f"{key}={value}" for key, value in sorted(facts.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_secret(key: str) -> bool:
    return key == _PASSWORD_KEY or key.endswith(".password")


def write_conf(config: LocalMetastoreConfig, *, port: int) -> Path:
    """Write the configuration folder, which must be first on the class path; return it."""
    conf = config.data_dir / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    # The server reads the first file, and its compactor threads read the second file. Without the
    # second file, the threads would connect to a different database.
    for name in ("metastore-site.xml", "hive-site.xml"):
        _write_private(conf / name, _to_xml(settings(config, port=port)))
    _write_private(conf / "core-site.xml", _to_xml(config.access.core_settings))
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
            # Without this setting, both libraries log warnings about the server's own settings at
            # every start.
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
        os.fchmod(stream.fileno(), 0o600)  # an earlier run's file may have a wider mode
        stream.write(text)

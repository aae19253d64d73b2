"""Checks of a running metastore for harmful settings; jobs, connections and `check` report them."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.port import MetastorePort

_REAPER: Final = "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService"
# The heartbeat interval is half the time-out, so one heartbeat may be lost.
_SHORTEST_TIMEOUT_S: Final = 10.0
# Each setting has a new and an old name in MetastoreConf. A hive-site.xml may use either name. The
# server looks up only the exact name that a client requests.
_SWITCHES: Final = {
    # The thread that aborts timed-out transactions starts with the initiator
    # (HiveMetaStore.startHouseKeeperService).
    MetastoreGeneration.V3: ("metastore.compactor.initiator.on", "hive.compactor.initiator.on"),
    MetastoreGeneration.V4: (
        "metastore.housekeeping.threads.on",
        "hive.metastore.housekeeping.threads.on",
    ),
}
_INITIATOR_NAMES: Final = _SWITCHES[MetastoreGeneration.V3]
_WORKER_NAMES: Final = ("metastore.compactor.worker.threads", "hive.compactor.worker.threads")
_CLEANER_NAMES: Final = ("metastore.compactor.cleaner.on", "hive.compactor.cleaner.on")
_HISTORY_NAMES: Final = (
    "metastore.txn.use.minhistorywriteid",
    "hive.txn.use.minhistorywriteid",
)
_SINCE_4_2: Final = "metastore.msck.smallfiles.avgsize"
"""A setting that servers have, with a default, since Hive 4.2.0."""


class Concern(enum.Enum):
    """The kind of a finding."""

    NO_REAPER = "no_reaper"
    SHORT_TIMEOUT = "short_timeout"
    NO_COMPACTOR = "no_compactor"
    LATE_CLEANER = "late_cleaner"
    MISSING_CALLS = "missing_calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingFinding:
    """A setting that should change; `text` gives the reason and the new value."""

    concern: Concern
    text: str

    def __str__(self) -> str:
        return self.text


log = logging.getLogger("hiveacid")


def log_findings(client: MetastorePort) -> None:
    """Log a warning for each setting of a metastore that should change."""
    for finding in preflight(client):
        log.warning("%s", finding)


def preflight(client: MetastorePort) -> tuple[SettingFinding, ...]:
    """Return a finding for each setting of a metastore that should change."""
    return tuple(_findings(client))


def _findings(client: MetastorePort) -> Iterator[SettingFinding]:
    if not _is_reaping(client):
        yield SettingFinding(
            concern=Concern.NO_REAPER,
            text="this metastore does not end transactions of clients that died, so their locks"
            " stay until an administrator aborts them; set"
            f" {_SWITCHES[client.generation][0]}=true, or add {_REAPER} to"
            " metastore.task.threads.always",
        )
    if client.generation is MetastoreGeneration.V3 and not _has_compactor(client):
        yield SettingFinding(
            concern=Concern.NO_COMPACTOR,
            text="this Hive 3.1 metastore runs no compactor, and only its compactor removes aborted"
            " transactions and completed components: its tables TXNS, TXN_COMPONENTS and"
            " COMPLETED_TXN_COMPONENTS grow with each write; set"
            f" {_INITIATOR_NAMES[0]}=true and {_WORKER_NAMES[0]}=1, or let a server that has both"
            " compact each table regularly (ALTER TABLE ... COMPACT 'major')",
        )
    if client.generation is MetastoreGeneration.V4 and _has_late_cleaner(client):
        yield SettingFinding(
            concern=Concern.LATE_CLEANER,
            text="the cleaner of Hive 4.2.0 fails while transactions are open (an error about the"
            f' number ""), and tries again only after 5 minutes; set {_HISTORY_NAMES[0]}=false, or'
            f" {_CLEANER_NAMES[0]}=false and let this provider clean",
        )
    if client.missing_calls:
        yield SettingFinding(
            concern=Concern.MISSING_CALLS,
            text=f"this metastore lacks {', '.join(client.missing_calls)} of Hive 4: it is"
            " untested, and this provider does not compact there (docs/reference/distributions.md)",
        )
    if client.txn_timeout_s < _SHORTEST_TIMEOUT_S:
        yield SettingFinding(
            concern=Concern.SHORT_TIMEOUT,
            text=f"metastore.txn.timeout is {client.txn_timeout_s:g} s; a short pause of a busy"
            " client may end its transaction. Hive's own default is 300 s",
        )


def _has_late_cleaner(client: MetastorePort) -> bool:
    """Return True if the server's own cleaner has the fault of 4.2.0's default mode."""
    return (
        _is_true(client, _CLEANER_NAMES)
        and _is_true(client, _HISTORY_NAMES)
        and client.config_value(_SINCE_4_2, "") != ""
    )


def _has_compactor(client: MetastorePort) -> bool:
    return _is_true(client, _INITIATOR_NAMES) and any(
        client.config_value(n, "0").strip() not in ("", "0") for n in _WORKER_NAMES
    )


def _is_reaping(client: MetastorePort) -> bool:
    # Servers of both generations always run the classes in this list, even if the settings in
    # `_SWITCHES` are false.
    if _REAPER in client.config_value("metastore.task.threads.always", ""):
        return True
    return _is_true(client, _SWITCHES[client.generation])


def _is_true(client: MetastorePort, names: Sequence[str]) -> bool:
    return any(client.config_value(name, "false").strip().lower() == "true" for name in names)

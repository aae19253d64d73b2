"""What is wrong with a metastore that answers: settings under which its users will suffer.

Takes a client, gives findings as values; each reads as a sentence for people. Reads settings,
changes nothing. The driver asks at a job's start, the Test button when somebody looks.

Example:
    for finding in preflight(client):
        log.warning("%s", finding)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.port import MetastorePort

_REAPER: Final = "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService"
# Heartbeats come at half of it, and one of them may be lost.
_SHORTEST_TIMEOUT_S: Final = 10.0
# MetastoreConf gives each setting a new name and an old one. The server looks a setting up by the
# very name it is asked for, and a site may use either.
_SWITCHES: Final = {
    # Its reaper starts with the initiator (HiveMetaStore.startHouseKeeperService).
    MetastoreGeneration.V3: ("metastore.compactor.initiator.on", "hive.compactor.initiator.on"),
    MetastoreGeneration.V4: (
        "metastore.housekeeping.threads.on",
        "hive.metastore.housekeeping.threads.on",
    ),
}


class Concern(enum.Enum):
    """What a finding is about."""

    NO_REAPER = "no_reaper"
    SHORT_TIMEOUT = "short_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One setting that should be changed; its text says why, and to what."""

    concern: Concern
    text: str

    def __str__(self) -> str:
        return self.text


def preflight(client: MetastorePort) -> tuple[Finding, ...]:
    """What should be changed in a metastore's settings; nothing if all is well.

    Raises:
        MetastoreUnavailableError: no server answers.
        MetastoreVersionError: the server is too old to be used at all.
    """
    found = []
    if not _is_reaping(client):
        switch = _SWITCHES[client.generation][0]
        found.append(
            Finding(
                concern=Concern.NO_REAPER,
                text=(
                    "nothing here ends the transactions of clients that died, so their locks stay"
                    f" until somebody aborts them; set {switch}=true, or add {_REAPER} to"
                    " metastore.task.threads.always"
                ),
            )
        )
    if client.txn_timeout_s < _SHORTEST_TIMEOUT_S:
        found.append(
            Finding(
                concern=Concern.SHORT_TIMEOUT,
                text=(
                    f"metastore.txn.timeout is {client.txn_timeout_s:g} s; a pause of a busy client"
                    " may end its transaction. Hive's own default is 300 s"
                ),
            )
        )
    return tuple(found)


def _is_reaping(client: MetastorePort) -> bool:
    # A class on that list runs whatever the switches say, on both generations.
    if _REAPER in client.config_value("metastore.task.threads.always", ""):
        return True
    names = _SWITCHES[client.generation]
    return any(client.config_value(name, "false").strip().lower() == "true" for name in names)

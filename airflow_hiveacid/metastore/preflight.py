"""What is wrong with a metastore that answers: settings under which its users will suffer.

Takes a client, gives sentences for people. Reads settings, changes nothing.

Example:
    for sentence in warnings(client):
        print(sentence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.port import MetastorePort

_REAPER_OF_3: Final = "AcidHouseKeeperService"
# Heartbeats come at half of it, and one of them may be lost.
_SHORTEST_TIMEOUT_S: Final = 10.0


def warnings(client: MetastorePort) -> tuple[str, ...]:
    """Sentences about settings that should be changed; none if all is well.

    Raises:
        MetastoreVersionError: the server is too old to be used at all.
    """
    found = []
    if not _is_reaping(client):
        found.append(
            "Nobody ends the transactions of dead clients here: their locks stay for ever. Set"
            " metastore.housekeeping.threads.on=true (Hive 4), or on Hive 3.1"
            " metastore.compactor.initiator.on=true"
        )
    if client.txn_timeout_s < _SHORTEST_TIMEOUT_S:
        found.append(
            f"metastore.txn.timeout is {client.txn_timeout_s:g} s; a pause of a busy client may end"
            " its transaction. Hive's own default is 300 s"
        )
    return tuple(found)


def _is_reaping(client: MetastorePort) -> bool:
    if client.generation is MetastoreGeneration.V4:
        return _is_on(client, "metastore.housekeeping.threads.on")
    always = client.config_value("metastore.task.threads.always", "")
    return _REAPER_OF_3 in always or _is_on(client, "metastore.compactor.initiator.on")


def _is_on(client: MetastorePort, name: str) -> bool:
    return client.config_value(name, "false").strip().lower() == "true"

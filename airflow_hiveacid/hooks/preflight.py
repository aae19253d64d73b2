"""Whether a metastore is fit for ACID work, and what is wrong with it, in one sentence or two.

Takes an endpoint; gives the text that the Test button shows. The one thing that a working server
hides is whether it ends transactions of clients that died: by default no metastore does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.client import connect

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort

_REAPER_TASK: Final = "AcidHouseKeeperService"


def inspect_metastore(endpoint: MetastoreEndpoint) -> str:
    """Ask a metastore what it is and whether it looks after dead transactions.

    Raises:
        MetastoreUnavailableError: no server answers.
        MetastoreVersionError: it is too old.
    """
    with connect(endpoint) as client:
        found = _GENERATIONS[client.generation]
        timeout_s = client.txn_timeout_s
        advice = "" if _has_reaper(client) else f" WARNING: {_NO_REAPER[client.generation]}"
    return (
        f"Reached {found} at {', '.join(endpoint.uris)}; its transactions time out after"
        f" {timeout_s:.0f} s.{advice}"
    )


_GENERATIONS: Final = {
    MetastoreGeneration.V3: "a Hive 3 metastore",
    MetastoreGeneration.V4: "a Hive 4 metastore",
}
_CONSEQUENCE: Final = (
    "nothing ends the transactions of clients that died, so their locks stay until somebody aborts"
    " them; set "
)
_NO_REAPER: Final = {
    MetastoreGeneration.V3: (
        f"{_CONSEQUENCE}metastore.compactor.initiator.on=true, or add"
        " org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService to"
        " metastore.task.threads.always."
    ),
    MetastoreGeneration.V4: f"{_CONSEQUENCE}metastore.housekeeping.threads.on=true.",
}


def _has_reaper(client: MetastorePort) -> bool:
    match client.generation:
        case MetastoreGeneration.V4:
            return _is_on(client, "metastore.housekeeping.threads.on")
        case MetastoreGeneration.V3:
            # Its reaper starts with the initiator, or as a task that always runs (HiveMetaStore).
            always = client.config_value("metastore.task.threads.always", "")
            return _REAPER_TASK in always or _is_on(client, "metastore.compactor.initiator.on")


def _is_on(client: MetastorePort, name: str) -> bool:
    # The server looks a setting up by the very name it is asked for; a site may use the old one.
    old_name = f"hive.{name}" if "housekeeping" in name else name.replace("metastore", "hive", 1)
    found = (client.config_value(n, "false").strip().lower() for n in (name, old_name))
    return "true" in found

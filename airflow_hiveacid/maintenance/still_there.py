"""Why a file of a table is still there: what keeps it, or who can remove it.

Input is a table and the path of a file. Output is a reason. A planned cleaning gives the reasons of
replaced, aborted and staged files. The table's state gives the reasons of the other files. This
module changes nothing, and needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format.names import is_below_hidden
from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.format.state.selection import DirectoryStatus
from airflow_hiveacid.format.table import PartitionInfo, TableInfo
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import TableCleaning
from airflow_hiveacid.maintenance.neighbours import Neighbours
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.listing import list_table

LIVE: Final = "it belongs to the table's current state"
"""The reason of a file that readers read."""

_HIDDEN: Final = "it is staged or hidden; remove it after its writer has ended"
_UNKNOWN: Final = "it belongs to no state of the table; move it away or remove it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StillThere:
    """The reasons of one table's files. Mutable, because it plans a partition's cleaning once."""

    client: MetastorePort
    cleaning: TableCleaning
    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, client: MetastorePort, table: TableInfo, on_step: Callable[[str], None]
    ) -> StillThere:
        """Read the facts that all partitions need."""
        spec = CleanSpec.of_table(str(table.ref), plan_only=True)
        cleaning = TableCleaning.of(client, table.ref, spec, on_step, Neighbours())
        return cls(client=client, cleaning=cleaning)

    def why(self, partition: PartitionInfo | None, path: str) -> str:
        """Return why a file is still there.

        `path` is relative to the location of the partition, or of the table if the file is outside
        all partitions (None).
        """
        location = self.cleaning.table.location if partition is None else partition.location
        if location not in self._known:
            self._known[location] = self._reasons(partition)
        reasons = self._known[location]
        reason = reasons.get(path) or reasons.get(path.partition("/")[0])
        return reason or (_HIDDEN if is_below_hidden(path) else _UNKNOWN)

    def _reasons(self, partition: PartitionInfo | None) -> dict[str, str]:
        if partition is None:
            return _planned(self.cleaning.finish(self.client, ()))
        table = self.cleaning.table
        txns = self.client.valid_txns()
        write_ids = self.client.valid_write_ids([table.ref], txns)[table.ref]
        state = resolve(list_table(partition.location), write_ids, txns, table.kind)
        return {
            **{file.path: LIVE for file in state.originals},
            **{
                d.text: LIVE if d.status is DirectoryStatus.LIVE else f"it is {d.why}"
                for d in state.directories
            },
            **_planned([self.cleaning.clean(self.client, partition)]),
        }


def _planned(outcomes: Iterable[CleaningOutcome]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for outcome in outcomes:
        reasons |= {r.path: f"clean the table to remove it: {r.why}" for r in outcome.removed}
        reasons |= {r.path: f"cleaning keeps it: {r.why}" for r in outcome.kept}
    return reasons

"""Whether somebody has committed beside a compaction what its policy lets it fail for.

Takes what a partition looked like when the compaction began; lists it again when asked. The
metastore does not look: to it a compaction changes nothing. So this look is what counts as the end
of a compaction: who commits between it and the commit itself, a moment later, is the later of the
two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import WriteConflictError
from airflow_hiveacid.format.rivals import come_since, first_rival
from airflow_hiveacid.format.winner import Winner
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from airflow_hiveacid.format.policies import ConflictPolicy, Doing
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookout:
    """One partition, `there` as it was, and `began` what of its table was committed then."""

    client: MetastorePort
    table: TableRef
    location: str
    policy: ConflictPolicy
    doing: Doing
    there: frozenset[str]
    began: ValidWriteIdList

    def check(self, txn: Transaction) -> None:
        """See that nobody has come first.

        Raises:
            WriteConflictError: somebody has.
        """
        now = txn.newest(self.table)
        names = list_directories(*open_location(self.location))
        deeds = come_since(names, self.there, self.began, (now.write_ids(self.table), now.txns))
        rival = first_rival(deeds, self.policy, self.client.generation, self.doing)
        if rival is not None:
            raise WriteConflictError(
                txn_id=txn.txn_id,
                reason=f"{self.location.rstrip('/')}/{rival.directory} was committed while this"
                f" compaction was at work, and the policy {self.policy.value} lets only the first"
                " of the two",
                winner=Winner(
                    write_id=rival.write_id, did=rival.doing.value, directory=rival.directory
                ),
            )

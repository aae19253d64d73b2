"""Detection of concurrent commits that conflict with a compaction under its policy.

The input is a listing of the partition from the beginning of the compaction; the check lists the
partition again. The metastore does not check compactions for conflicts, since a compaction changes
no rows. So the time of this check counts as the compaction's commit time. A transaction that
commits after this check counts as later, even if it commits before the compaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hiveacid.format.errors import Winner, WriteConflictError
from airflow_hiveacid.format.policies import ConflictPolicy, WriteKind
from airflow_hiveacid.format.rivals import come_since, first_rival
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalCheck:
    """The check of one partition.

    `there` contains the directories that existed when the compaction began; `began` contains the
    write IDs that were valid then.
    """

    client: MetastorePort
    table: TableRef
    location: str
    policy: ConflictPolicy
    doing: WriteKind
    there: frozenset[str]
    began: ValidWriteIdList

    def check(self, txn: MetastoreTransaction) -> None:
        """Check that no conflicting transaction has committed since the compaction began.

        Raises:
            WriteConflictError: a conflicting transaction has committed.
        """
        newest = txn.newest(self.table)
        names = list_directories(*open_location(self.location))
        foreign_writes = come_since(
            names, self.there, self.began, (newest.write_ids(self.table), newest.txns)
        )
        rival = first_rival(foreign_writes, self.policy, self.client.generation, self.doing)
        if rival is not None:
            raise WriteConflictError(
                txn_id=txn.txn_id,
                reason=f"{self.location.rstrip('/')}/{rival.directory} was committed while this"
                f" compaction was running, and the policy {self.policy.value} allows only the first"
                " of the two commits",
                winner=Winner(
                    write_id=rival.write_id, did=rival.doing.value, directory=rival.directory
                ),
            )

"""Check, without requesting a lock, whether a request for a lock would have to wait.

All functions of this module block, so a trigger must call them outside the event loop. Logs contain
a lock's transaction, user and job, but never its host.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.errors import PartitionNotFoundError
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.format.words import age, age_text, first_few
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.locks import in_the_way
from airflow_hiveacid.metastore.transactions.fencing import job_key_in
from airflow_hiveacid.storage.values.partition_values import partition_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.locks import LockInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeLock:
    """A lock that the metastore would grant at once; `partition` is empty for the whole table."""

    table: str
    partition: str
    lock: str

    def record(self) -> dict[str, str]:
        """Return the fields as plain values, for XCom."""
        return {"table": self.table, "partition": self.partition, "lock": self.lock}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockLook:
    """The result of one poll: the locks that a request would have to wait for."""

    wanted: FreeLock
    in_the_way: tuple[LockInfo, ...]

    @property
    def due(self) -> tuple[FreeLock, ...]:
        """A tuple with the free lock, or an empty tuple if a request would have to wait."""
        return () if self.in_the_way else (self.wanted,)

    def __str__(self) -> str:
        partition = f"/{self.wanted.partition}" if self.wanted.partition else ""
        what = f"{self.wanted.table}{partition}: a request for a {self.wanted.lock} lock"
        if not self.in_the_way:
            return f"{what} would not wait"
        return f"{what} would wait for: {first_few([_holder(lock) for lock in self.in_the_way])}"


def look_at_locks(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, lock: str
) -> LockLook:
    """Poll the metastore's locks once.

    Args:
        endpoint: the metastore.
        table: `db.table`.
        partition: `month=1`; None means a lock on the whole table.
        lock: a value of `LockType`.

    Raises:
        TableNotFoundError: the table does not exist.
        PartitionNotFoundError: `partition` does not name exactly the table's partition columns.
        MetastoreVersionError: the metastore has no such type of lock.
        MetastoreUnavailableError: the metastore does not answer.
    """
    ref = TableRef.parse(table)
    name = PartitionName.parse(partition) if partition else None
    with connect(endpoint) as client:
        found = client.get_source(ref)
        # The partition need not exist, because the next task may create it.
        columns = tuple(column.name for column in found.partition_columns)
        if name is not None and name.columns != columns:
            raise PartitionNotFoundError(table=ref, partition=partition)
        # Request all locks, because a lock on the table's database also blocks the request.
        held = in_the_way(
            client.show_locks(),
            ref,
            name,
            LockType(lock),
            client.generation,
            key_of=partial(_values, found.partition_columns),
        )
    wanted = FreeLock(table=table, partition=partition or "", lock=lock)
    return LockLook(wanted=wanted, in_the_way=held)


def _values(columns: Sequence[Column], name: PartitionName) -> PartitionName:
    """Return a partition's name with its values as Hive reads them: `month=01` becomes `month=1`.

    The metastore compares locks as text. But Hive locks the normal spelling of the name that an SQL
    statement gives, so a lock on either spelling may be in the way of the next task. A text that is
    not a value of its column's type stays as it is.
    """
    if name.columns != tuple(column.name for column in columns):
        return name  # the lock is older than a table of this name with other partition columns
    pairs = zip(name.values, partition_texts(columns, name), strict=True)
    return PartitionName(
        name.columns, tuple(text if normal is None else normal for text, normal in pairs)
    )


def _holder(lock: LockInfo) -> str:
    where = ".".join(name for name in (lock.db, lock.table) if name)
    place = f"{where}/{lock.partition}" if lock.partition else where
    since = age_text(age(lock.acquired_s))
    details = (
        f"user {lock.user}" if lock.user else "",
        f"job {job_key_in(lock.agent_info)}" if lock.agent_info else "",
        f"{lock.state.value} {since} ago" if since else lock.state.value,
    )
    return (
        f"{lock.lock_type.value} on {place} by transaction {lock.txn_id}"
        f" ({', '.join(filter(None, details))})"
    )

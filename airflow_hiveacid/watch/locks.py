"""Check, without requesting a lock, whether a request for a lock would have to wait.

Logs contain a lock's transaction, user and job, but never its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial as bind

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.errors import PartitionNotFoundError
from airflow_hiveacid.format.table import Column, PartitionName, TableRef
from airflow_hiveacid.format.words import age, age_text, first_few
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.locks import LockComponent, LockInfo, in_the_way
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.fencing import job_key_in
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.watch import Observation


def free_lock(
    client: MetastorePort, ref: TableRef, partition: str | None, lock_type: LockType
) -> Observation:
    """Poll the metastore's locks once; None as `partition` means a lock on the whole table.

    Raises PartitionNotFoundError unless `partition` names exactly the table's partition columns,
    or if it does not exist and a value is not of its column's type; and MetastoreVersionError if
    the metastore has no such type of lock.
    """
    name = PartitionName.parse(partition) if partition else None
    table = client.get_source(ref)
    if name is not None:
        if name.columns != tuple(column.name for column in table.partition_columns):
            raise PartitionNotFoundError(table=ref, partition=partition)
        # The partition need not exist, because the next task may create it. But a misspelt value,
        # such as `month=x`, is no other spelling of a partition that may be locked.
        texts = partition_texts(table.partition_columns, name)
        if texts.count(None) > name.values.count(None):
            partitions_of(client, table, partition)
    # Request all locks, because a lock on the table's database also blocks the request.
    blocking = in_the_way(
        client.show_locks(),
        [LockComponent(table=ref, lock_type=lock_type, operation=None, partition=name)],
        client.generation,
        key_of=bind(_normal_name, table.partition_columns),
    )
    kind = lock_type.value
    request = f"{ref}{f'/{partition}' if partition else ''}: a request for a {kind} lock"
    if blocking:
        holders = first_few([_holder(lock) for lock in blocking])
        return Observation(summary=f"{request} would wait for: {holders}")
    finding = {"table": str(ref), "partition": partition or "", "lock": kind}
    return Observation(summary=f"{request} would not wait", findings=(finding,))


def _normal_name(columns: Sequence[Column], name: PartitionName) -> PartitionName:
    """Return a partition's name with its values as Hive reads them: `month=01` becomes `month=1`.

    The metastore compares locks as text. But Hive locks the normal spelling of the name that an SQL
    statement gives, so a lock on either spelling may be in the way of the next task. A text that is
    not a value of its column's type stays as it is.
    """
    if name.columns != tuple(column.name for column in columns):
        return name  # the lock is older than a table of this name with other partition columns
    # Hive 3.1 lists names in lower case, so also the `T` before the time of a timestamp.
    upper = tuple(
        text.upper() if text and column.type == "timestamp" else text
        for column, text in zip(columns, name.values, strict=True)
    )
    normal = partition_texts(columns, PartitionName(name.columns, upper))
    pairs = zip(name.values, normal, strict=True)
    return PartitionName(name.columns, tuple(old if new is None else new for old, new in pairs))


def _holder(lock: LockInfo) -> str:
    place = f"{lock.full_name}/{lock.partition}" if lock.partition else lock.full_name
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

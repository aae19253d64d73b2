"""Open transactions that may read the files of one table.

Takes a metastore and a table. Returns the transactions that a cleaner must wait for. Readers
register tables in MIN_HISTORY_LEVEL or MIN_HISTORY_WRITE_ID, but no Thrift call returns these
records, so readers are identified by their locks. In case of doubt, a transaction is a reader:

* with a lock on the table, one of its partitions, or its database; also a running compaction of
  this provider, even before it locks the table to publish its result.
* without locks, because it may already have its snapshot and take locks later. Examples are
  streaming batches, replication, and readers that never take locks.
* with locks only on other tables, unless its client is Hive, Trino or this provider. Queries of
  Hive and jobs of this provider request all their locks at once, and Trino locks a table before it
  takes its snapshot of it. Others, such as spark-acid, take one snapshot and then lock table by
  table.
* of another client, if the metastore's configuration enables reads without locks
  (`hive.acid.lockless.reads.enabled` of Hive 4). Then only locks of this provider show what is
  read.

See docs/decisions/cleaning.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.records import Reader
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.locks import LockInfo, presence_of_compactions
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.fencing import is_of_this_provider, job_key_in

_LOCKLESS: Final = "hive.acid.lockless.reads.enabled"
# The agent info of a query's lock: Hive's query ID (user, time, UUID), or Trino's query ID.
_QUERY: Final = re.compile(
    r".*_\d{14}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{8}_\d{6}_\d{5}_[0-9a-z]+", re.DOTALL
)


def possible_readers(
    client: MetastorePort,
    ref: TableRef,
    txns: ValidTxnList,
    *,
    now_s: Callable[[], float] = time.time,
) -> tuple[Reader, ...]:
    """Return the open transactions that may read a table, sorted by ID.

    The locks are read after `txns`: a transaction that ends in between has no lock, and so counts
    as a reader, which only delays the cleaning. `now_s` returns the local time.
    """
    if not txns.open:
        return ()
    locks: dict[int, list[LockInfo]] = {}
    for lock in client.show_locks():
        if lock.txn_id is not None and lock.is_asked:
            locks.setdefault(lock.txn_id, []).append(lock)
    are_complete = _locks_are_complete(client)
    whys = {t: _why(ref, locks.get(t, ()), are_complete=are_complete) for t in txns.open}
    reasons = {txn_id: why for txn_id, why in whys.items() if why}
    if not reasons:
        return ()
    owners = {txn.txn_id: txn for txn in client.open_txns_info()}
    readers = []
    for txn_id, why in sorted(reasons.items()):
        owner, txn_locks = owners.get(txn_id), locks.get(txn_id, ())
        started_s = None if owner is None else owner.started_s
        readers.append(
            Reader(
                txn_id=txn_id,
                why=why,
                user="" if owner is None else owner.user,
                host="" if owner is None else owner.host,
                job_key=next((job_key_in(lock.agent_info) for lock in txn_locks), ""),
                open_for_s=None if started_s is None else max(0.0, round(now_s() - started_s)),
            )
        )
    return tuple(readers)


def _why(ref: TableRef, locks: Sequence[LockInfo], *, are_complete: bool) -> str | None:
    """Return why a transaction with these locks may read a table; None if it cannot."""
    if not locks:
        return "it has no lock, so it may read any table"
    for lock in locks:
        if lock.covers(ref) or lock.covers(presence_of_compactions(ref)):
            return f"it has requested a {lock.lock_type.value} lock on {lock.full_name}"
    foreign_locks = [lock for lock in locks if not is_of_this_provider(lock.agent_info)]
    if not are_complete and foreign_locks:
        return f"{_LOCKLESS}=true, so it may read tables without a lock"
    if any(_QUERY.fullmatch(lock.agent_info) is None for lock in foreign_locks):
        return "its client may lock further tables later, so the transaction may read any table"
    return None


def _locks_are_complete(client: MetastorePort) -> bool:
    """Return True if transactions of other engines lock every table that they read."""
    if client.generation is MetastoreGeneration.V3:
        return True
    return client.config_value(_LOCKLESS, "false").strip().lower() != "true"

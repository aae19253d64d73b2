"""Open transactions that may read the files of one table.

Takes a metastore and a table. Returns the transactions that a cleaner must wait for. Readers
register tables in MIN_HISTORY_LEVEL or MIN_HISTORY_WRITE_ID, but no Thrift call returns these
records. So this module identifies readers by their locks. In case of doubt, a transaction counts as
a reader:

* A transaction with a lock on the table, one of its partitions, or its database is a reader. A
  running compaction of this provider counts as a reader of its table, even before it locks the
  table to publish its result.
* A transaction without locks counts as a reader, because it may already have its snapshot and take
  locks later. Examples are streaming batches, replication, and readers that never take locks.
* A transaction with locks only on other tables is not a reader if its client is Hive, Trino or this
  provider. Queries of Hive and jobs of this provider request all their locks at once. Queries of
  Trino lock a table before they take their snapshot of it. Other clients, such as spark-acid, take
  one snapshot and then lock table by table. So these clients may still read this table.
* Hive 4 can read without locks (`hive.acid.lockless.reads.enabled`). If the metastore's
  configuration enables such reads, only locks of this provider show which tables are read.

See docs/decisions/cleaning.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.records.maintenance import Reader
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

    The locks are read after `txns`. If a transaction ends between the two calls, its lock is gone.
    So the transaction counts as a reader. A transaction that wrongly counts as a reader only delays
    the cleaning.

    Args:
        client: the metastore.
        ref: the table.
        txns: the open transactions.
        now_s: a function that returns the local time, to compute how long each transaction has been
            open.
    """
    if not txns.open:
        return ()
    locks: dict[int, list[LockInfo]] = {}
    for lock in client.show_locks():
        if lock.txn_id is not None and lock.is_asked:
            locks.setdefault(lock.txn_id, []).append(lock)
    are_complete = _locks_are_complete(client)
    whys = {t: _why(ref, locks.get(t, ()), are_complete=are_complete) for t in txns.open}
    found = {txn_id: why for txn_id, why in whys.items() if why}
    if not found:
        return ()
    owners = {one.txn_id: one for one in client.open_txns_info()}
    readers = []
    for txn_id, why in sorted(found.items()):
        owner, held = owners.get(txn_id), locks.get(txn_id, ())
        started_s = None if owner is None else owner.started_s
        readers.append(
            Reader(
                txn_id=txn_id,
                why=why,
                user="" if owner is None else owner.user,
                host="" if owner is None else owner.host,
                job_key=next((job_key_in(lock.agent_info) for lock in held), ""),
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
            what = ".".join(name for name in (lock.db, lock.table) if name)
            return f"it has requested a {lock.lock_type.value} lock on {what}"
    others = [lock for lock in locks if not is_of_this_provider(lock.agent_info)]
    if not are_complete and others:
        return f"{_LOCKLESS}=true, so it may read tables without a lock"
    if any(_QUERY.fullmatch(lock.agent_info) is None for lock in others):
        return "its client may lock further tables later, so the transaction may read any table"
    return None


def _locks_are_complete(client: MetastorePort) -> bool:
    """Return True if transactions of other engines lock every table that they read."""
    if client.generation is MetastoreGeneration.V3:
        return True
    return client.config_value(_LOCKLESS, "false").strip().lower() != "true"

"""Snapshots of tables for a reader, held by a transaction with a shared lock: cleaners wait."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError, TableChangedError
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs import READ_LOCK_TIMEOUT_S
from airflow_hiveacid.jobs.endpoint import Metastore
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.listed_tables import changed_parts
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.plan.statements.dml import check_readable
from airflow_hiveacid.reading.table_view import is_still_all, reading

_MOST_BEGINNINGS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """A snapshot of some tables, valid inside the `with` block that returned it.

    `confirm_alive` raises an error if the snapshot's transaction has ended; `ensure_alive` asks the
    metastore only after failed heartbeats. `taken_s` returns a time before the snapshot was taken,
    by the metastore's clock, or None if it does not report its
    time.
    """

    client: MetastorePort
    snapshot: Snapshot
    tables: dict[TableRef, TableInfo]
    confirm_alive: Callable[[], None] = lambda: None
    ensure_alive: Callable[[], None] = lambda: None
    taken_s: Callable[[], float | None] = lambda: None

    def table(self, name: str) -> TableInfo:
        """Return a table of the snapshot; refuse one that it does not include."""
        ref = TableRef.parse(name)
        if ref not in self.tables:
            raise ConfigurationError(
                f"the snapshot does not include table {ref}, only"
                f" {', '.join(map(str, self.tables))}; name all tables when you take it"
            )
        return self.tables[ref]


@contextmanager
def read_snapshot(
    metastore: Metastore,
    tables: Sequence[str],
    *,
    job_key: str,
    lock_timeout_s: float = READ_LOCK_TIMEOUT_S,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[ReadSnapshot]:
    """Hold one snapshot of these tables during the `with` block.

    Args:
        metastore: the metastore's addresses and login.
        tables: full names; the snapshot shows all tables at the same point in time.
        job_key: shown in SHOW LOCKS. A later reader with the same key ends the transaction of an
            earlier reader.
        lock_timeout_s: how long to wait for another transaction's exclusive lock.
        on_step: called at each step of the transaction.

    Raises:
        InputError: a table is missing, or of a kind that cannot be read.
        LockNotAcquiredError: another transaction is overwriting one of the tables.
    """
    terms = JobTerms(job_key=job_key, lock_timeout_s=lock_timeout_s, on_step=on_step)
    with (
        connect(metastore) as client,
        held_snapshot(client, tables, terms) as snapshot,
    ):
        yield snapshot


@contextmanager
def held_snapshot(
    client: MetastorePort, tables: Sequence[str], terms: JobTerms
) -> Iterator[ReadSnapshot]:
    """Hold a snapshot over an open connection; see `read_snapshot`.

    The `attempt` of a reader in a task is the ID of the task's try. No earlier try, nor a kill
    request for it, ends a later one. A process that kills the job finds the reader's lock like a
    writer's (docs/decisions/restarts.md). If a table's definition or partitions have changed before
    the locks were granted, the reader starts over.

    Raises:
        TableChangedError: the definition changes again and again.
    """
    refs = [TableRef.parse(name) for name in tables]
    infos = _readable_tables(client, refs)
    changed: dict[TableRef, str] = {}
    with closing(Handover(client)) as handover, ExitStack() as reader:
        for beginning in range(_MOST_BEGINNINGS):
            reads = [reading(client, info) for info in infos.values()]
            if beginning == _MOST_BEGINNINGS - 1:
                # Lock the whole tables: partitions may change too often for their locks.
                reads = [dataclasses.replace(access, partitions=None) for access in reads]
            txn = reader.enter_context(
                begin(
                    client,
                    terms,
                    reads=reads,
                    handover=handover,
                )
            )
            # The reader may have waited for a lock of ALTER TABLE, and other clients take none.
            newest = _readable_tables(client, refs)
            changed = {ref: changed_parts(newest[ref], info) for ref, info in infos.items()}
            if not any(changed.values()) and all(is_still_all(client, access) for access in reads):
                yield ReadSnapshot(
                    client=client,
                    snapshot=txn.snapshot,
                    tables=infos,
                    confirm_alive=txn.confirm_alive,
                    ensure_alive=txn.ensure_alive,
                    taken_s=txn.seen_after_s,
                )
                return
            infos = newest
            txn.leave_to(handover)
            reader.close()
    ref, what = next((ref, what) for ref, what in changed.items() if what)
    raise TableChangedError(table=ref, what=what)


def _readable_tables(client: MetastorePort, refs: Sequence[TableRef]) -> dict[TableRef, TableInfo]:
    infos = {ref: client.get_source(ref) for ref in refs}
    for info in infos.values():
        check_readable(info)
    return infos

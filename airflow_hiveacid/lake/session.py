"""An open connection to a metastore, and the snapshots that its tables hold.

A transaction, a snapshot and a call each get a client of their own: it belongs to one thread.
"""

from __future__ import annotations

import dataclasses
import getpass
import logging
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.arrow import LIBRARY_LIMITS, Limits
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.format.words import escape_our_log
from airflow_hiveacid.jobs import LOCK_TIMEOUT_S
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobSpec
from airflow_hiveacid.jobs.statements import TransactionSpec
from airflow_hiveacid.metastore.listed_tables import changed_parts
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.preflight import log_findings
from airflow_hiveacid.metastore.transactions import Clock, JobTerms
from airflow_hiveacid.reading.snapshots import ReadSnapshot, held_snapshot
from airflow_hiveacid.writing.job import WritingJob

log = logging.getLogger("hiveacid")
escape_our_log()

_KEY: Final = "python"
_NO_STATEMENT: Final = TransactionSpec(statements=())
_SINCE: Final = "since it was loaded. Call refresh() on the table, then scan() again"
_NO_SPARK: Final = "Use simpler terms, or a HiveAcid operator or PySpark program"


class HeldSnapshot:
    """A snapshot of one table that stays open until it is closed, or until it is garbage.

    Mutable, and shared by threads: it stores why it was closed.
    """

    def __init__(self, client: MetastorePort, table: TableInfo, terms: JobTerms) -> None:
        self.table = table
        self._guard = threading.Lock()
        self._why_closed = self._remedy = ""
        with ExitStack() as stack:
            stack.enter_context(client)
            self._snapshot = stack.enter_context(held_snapshot(client, [str(table.ref)], terms))
            found = self._snapshot.tables[table.ref]
            changed = changed_parts(found, table)
            if changed:
                raise errors.TableChangedError(table=table.ref, what=changed, since=_SINCE)
            # Also at the end of the process, so that cleaners need not wait for a time-out.
            self._end = weakref.finalize(self, _end, stack.pop_all(), table.ref, os.getpid())

    @contextmanager
    def opened(self, *, asks: bool = True) -> Iterator[ReadSnapshot]:
        """Use the snapshot's transaction and client in a block, in one thread at a time.

        Without `asks`, rely on the heartbeats, and ask the metastore only if they have failed.

        Raises:
            SnapshotClosedError: the snapshot is closed, or its transaction has ended.
        """
        with self._guard:
            self.check()
            try:
                if asks:
                    self._snapshot.confirm_alive()
                else:
                    self._snapshot.ensure_alive()
            except errors.TransactionError as error:
                why = f"the metastore has ended its transaction ({error})"
                raise errors.SnapshotClosedError(table=self.table.ref, why=why) from error
            yield self._snapshot

    @property
    def is_closed(self) -> bool:
        """True if this process has closed the snapshot."""
        return bool(self._why_closed)

    def check(self) -> None:
        """Raise a SnapshotClosedError if this process has closed the snapshot."""
        if self._why_closed:
            raise errors.SnapshotClosedError(
                table=self.table.ref, why=self._why_closed, remedy=self._remedy
            )

    def close(self, why: str, remedy: str = "") -> None:
        """End the snapshot's transaction; `why` and `remedy` are for readers that come later."""
        with self._guard:
            self._why_closed, self._remedy = self._why_closed or why, self._remedy or remedy
            self._end()


def _end(stack: ExitStack, ref: TableRef, process_id: int) -> None:
    if os.getpid() != process_id:
        return  # a fork shares the connection, but the snapshot is its parent's
    try:
        stack.close()
    except errors.HiveAcidError as error:
        # Nothing is lost: the metastore ends the transaction when its heartbeats stop.
        log.info("the snapshot of table=%s did not end cleanly: %s", ref, error)


@dataclass(slots=True, kw_only=True)
class Session:
    """A connection's terms, and its open snapshots. Mutable: it stores whether it is closed.

    `conflict_policy` is for tables without one; `own_policy`, if it is not None, for all tables.
    """

    client: MetastorePort
    endpoint: MetastoreEndpoint
    limits: Limits = LIBRARY_LIMITS
    lock_timeout_s: float = LOCK_TIMEOUT_S
    heartbeat_s: float | None = None
    conflict_policy: ConflictPolicy = ConflictPolicy.HIVE
    own_policy: ConflictPolicy | None = None
    clock: Clock = field(default_factory=Clock)
    is_closed: bool = False
    _is_checked: bool = False
    _snapshots: weakref.WeakSet[HeldSnapshot] = field(default_factory=weakref.WeakSet)

    @contextmanager
    def connected(self) -> Iterator[MetastorePort]:
        """Yield a client for one call or job; the first one logs harmful settings of the server."""
        with self._clone() as client:
            if not self._is_checked:
                log_findings(client)
                self._is_checked = True
            yield client

    def snapshot(self, table: TableInfo) -> HeldSnapshot:
        """Take a snapshot of a table, and hold it."""
        terms = JobTerms(
            job_key=None,
            lock_timeout_s=self.lock_timeout_s,
            heartbeat_s=self.heartbeat_s,
            clock=self.clock,
        )
        snapshot = HeldSnapshot(self._clone(), table, terms)
        self._snapshots.add(snapshot)
        return snapshot

    @contextmanager
    def job(self, job: Job = _NO_STATEMENT, *, key: str | None = None) -> Iterator[WritingJob]:
        """Yield a job that writes; without a key, the job is done once for each call.

        By default, its statements are not yet known.
        """
        spec = JobSpec(
            job_key=f"{_KEY}/{key or f'{_user()}@{socket.gethostname()}/{uuid.uuid4().hex}'}",
            metastore=self.endpoint,
            job=job,
            lock_timeout_s=self.lock_timeout_s,
            conflict_policy=self.own_policy,
            default_conflict_policy=self.conflict_policy,
            heartbeat_s=self.heartbeat_s,
        )
        with self.connected() as client:
            terms = dataclasses.replace(JobTerms.of(spec), clock=self.clock)
            yield WritingJob(spec=spec, client=client, terms=terms)

    def release(self, ref: TableRef, why: str) -> None:
        """Close the snapshots of a table, because their locks are in the way."""
        for snapshot in [*self._snapshots]:
            if snapshot.table.ref == ref:
                snapshot.close(why)

    def close(self) -> None:
        """Close every snapshot and the connection."""
        self.is_closed = True
        for snapshot in [*self._snapshots]:
            snapshot.close("its connection is closed", "Connect again with acid.connect")
        self.client.close()

    def _clone(self) -> MetastorePort:
        if self.is_closed:
            raise errors.ConfigurationError(
                "this connection is closed; open another with acid.connect"
            )
        return self.client.clone()


@contextmanager
def without_spark(ref: TableRef) -> Iterator[None]:
    """Name the table and this library's remedy in an error that only Spark could avoid."""
    try:
        yield
    except errors.SparkNeededError as error:
        remedy = _NO_SPARK
        if error.limit:
            remedy = (
                f"Pass limits=Limits({error.limit}=...) to acid.connect, split the change, or use a"
                " HiveAcid operator or PySpark program"
            )
        raise errors.SparkNeededError(
            reason=error.reason, limit=error.limit, table=error.table or ref, remedy=remedy
        ) from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"

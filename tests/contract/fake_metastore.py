"""A small honest metastore in memory, of either generation; the contract tests hold it to that.

Takes the calls of `MetastorePort` through `FakeClient`; keeps databases, transactions, locks and
the compaction queue of one `FakeMetastore`, which any number of clients share. Its rules are those
of `docs` and `format/conflicts.py`, its oddities those seen on 3.1.3 and 4.0.1. For unit tests
alone.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockLevel,
    LockState,
    MetastoreGeneration,
    conflict,
    may_share,
)
from airflow_hiveacid.format.errors import (
    MetastoreCallError,
    TransactionAbortedError,
    Winner,
    WriteConflictError,
)
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.table import (
    Column,
    Constraints,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore.catalog import transactional_kind
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import TxnState, TxnType
from airflow_hiveacid.metastore.transactions import Clock

WRITES: Final = frozenset({DataOperation.INSERT, DataOperation.UPDATE, DataOperation.DELETE})


@dataclass(frozen=True, slots=True)
class Written:
    """One line of TXN_COMPONENTS: what a transaction writes."""

    table: TableRef
    partition: PartitionName | None
    operation: DataOperation


@dataclass(slots=True)
class Txn:
    """One transaction. Mutable: a line of the server's table."""

    txn_id: TxnId
    txn_type: TxnType
    user: str
    heard_s: float
    started_s: float | None = None
    state: TxnState = TxnState.OPEN
    components: set[Written] = field(default_factory=set)
    is_forgotten: bool = False


EPOCH_S = 1_790_000_000.0
"""What this server takes the time to have been when its clock was at 0."""


@dataclass(slots=True)
class Lock:
    """One lock request. Mutable: it waits, then it holds."""

    lock_id: LockId
    request: LockRequest
    user: str
    state: LockState = LockState.WAITING
    blocked_by: LockId | None = None
    acquired_s: float | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """One line of WRITE_SET: a change that later committers are compared with."""

    txn_id: TxnId
    commit_id: TxnId
    written: Written


class FakeMetastore:
    """The server's memory and rules. Thread-safe: every public method takes the one lock."""

    def __init__(
        self, generation: MetastoreGeneration, clock: Clock, *, txn_timeout_s: float = 20.0
    ) -> None:
        self.generation = generation
        self.missing_calls: tuple[str, ...] = ()
        self.clock = clock
        self.txn_timeout_s = txn_timeout_s
        self.guard = threading.RLock()
        self.metastore_id = str(uuid.uuid4())
        self.databases: dict[str, str] = {"default": "file:/warehouse"}
        self.tables: dict[TableRef, TableInfo] = {}
        self.constraints: dict[TableRef, Constraints] = {}
        self.primary_keys: dict[TableRef, tuple[str, ...]] = {}
        self.partitions: dict[TableRef, dict[PartitionName, dict[str, str]]] = {}
        self.places: dict[tuple[TableRef, PartitionName], str] = {}
        self.births: dict[tuple[TableRef, PartitionName], int] = {}
        self.schemas: dict[tuple[TableRef, PartitionName], tuple[Column, ...]] = {}
        self.txns: dict[TxnId, Txn] = {}
        self.write_ids: dict[TableRef, dict[TxnId, WriteId]] = {}
        self.next_write_id: dict[TableRef, WriteId] = {}
        self.locks: dict[LockId, Lock] = {}
        self.write_set: list[Committed] = []
        self.queue: dict[int, CompactionEntry] = {}
        self.min_history: dict[TxnId, dict[TableRef, WriteId]] = {}
        self.settings: dict[str, str] = {}
        self.has_event_log = False
        self.logged: dict[TableRef, dict[WriteId, int]] = {}
        self._tables_made = 0
        self.faults: list[Fault] = []
        self.beats: list[tuple[TxnId, float]] = []

    def now_s(self) -> float:
        """What time it is here, seconds since 1970: nobody else's clock."""
        return EPOCH_S + self.clock.monotonic()

    # Faults for tests

    def break_next(self, method: str, error: Exception, *, is_done: bool) -> None:
        """Let the next call of a method raise, before or after it took effect."""
        self.faults.append(Fault(method=method, error=error, is_done=is_done))

    def take_fault(self, method: str, *, is_done: bool) -> None:
        """Raise the first fault planted for this method and moment."""
        for fault in self.faults:
            if fault.method == method and fault.is_done is is_done:
                self.faults.remove(fault)
                raise fault.error

    def forget_empty_transactions(self) -> None:
        """What an initiator does now and then: aborted transactions that wrote nothing vanish."""
        with self.guard:
            for txn in self.txns.values():
                if txn.state is TxnState.ABORTED and not txn.components:
                    txn.is_forgotten = True

    def clean_write_ids(self) -> None:
        """What 4.x does now and then: which transaction had a write ID is forgotten where it is
        committed and older than all that are not (CleanTxnToWriteIdTableFunction)."""
        with self.guard:
            pending = [
                txn.txn_id
                for txn in self.txns.values()
                if txn.state is not TxnState.COMMITTED and not txn.is_forgotten
            ]
            lowest = min(pending, default=len(self.txns) + 1)
            for known in self.write_ids.values():
                for txn_id in [t for t in known if t < lowest]:
                    del known[txn_id]

    # Transactions

    def reap(self) -> None:
        """Abort whoever was silent for longer than the time-out."""
        for txn in self.txns.values():
            silent_s = self.clock.monotonic() - txn.heard_s
            if txn.state is TxnState.OPEN and silent_s > self.txn_timeout_s:
                self.end(txn, TxnState.ABORTED)

    def open(self, user: str, txn_type: TxnType) -> TxnId:
        txn_id = TxnId(len(self.txns) + 1)
        self.txns[txn_id] = Txn(txn_id, txn_type, user, self.clock.monotonic(), self.now_s())
        return txn_id

    def alive(self, txn_id: TxnId) -> Txn:
        """The open transaction, heard just now."""
        txn = self.txns.get(txn_id)
        if txn is None or txn.is_forgotten or txn.state is TxnState.COMMITTED:
            raise TransactionAbortedError(txn_id=txn_id, reason="no such transaction")
        if txn.state is TxnState.ABORTED:
            raise TransactionAbortedError(txn_id=txn_id, reason="already aborted")
        txn.heard_s = self.clock.monotonic()
        return txn

    def end(self, txn: Txn, state: TxnState) -> None:
        txn.state = state
        self.min_history.pop(txn.txn_id, None)
        held = [i for i, lock in self.locks.items() if lock.request.txn_id == txn.txn_id]
        for lock_id in held:
            del self.locks[lock_id]

    def commit(self, txn_id: TxnId) -> None:
        known = self.txns.get(txn_id)
        if known is not None and known.state is TxnState.COMMITTED and self._remembers(known):
            return
        txn = self.alive(txn_id)
        commit_id = TxnId(len(self.txns))
        for written in txn.components:
            rival = self._rival(txn_id, written)
            if rival is not None:
                self.end(txn, TxnState.ABORTED)
                raise WriteConflictError(
                    txn_id=txn_id,
                    reason=f"write conflict, committed by {rival.txn_id}",
                    winner=Winner(txn_id=rival.txn_id),
                )
        self.write_set += [Committed(txn_id, commit_id, written) for written in txn.components]
        for ref, given in self.write_ids.items():
            if txn_id in given:
                self.logged.setdefault(ref, {})[given[txn_id]] = int(self.now_s())
        self._note_commit(txn)
        self.end(txn, TxnState.COMMITTED)

    def _note_commit(self, txn: Txn) -> None:
        """4.x: the entry of a compaction, in whatever state, learns which transaction is next."""
        for entry_id, entry in self.queue.items():
            if entry.txn_id == txn.txn_id and entry.state.is_pending:
                next_txn_id = TxnId(len(self.txns) + 1)
                self.queue[entry_id] = replace(
                    entry, next_txn_id=next_txn_id, committed_s=self.now_s()
                )

    def _remembers(self, txn: Txn) -> bool:
        # 3.1 keeps no line of a committed transaction that wrote nothing.
        return self.generation is MetastoreGeneration.V4 or bool(txn.components)

    def _rival(self, txn_id: TxnId, mine: Written) -> Committed | None:
        for other in self.write_set:
            theirs = other.written
            is_same = (theirs.table, theirs.partition) == (mine.table, mine.partition)
            is_meanwhile = other.commit_id >= txn_id
            if (
                is_same
                and is_meanwhile
                and conflict(mine.operation, theirs.operation, self.generation)
            ):
                return other
        return None

    # Locks

    def enqueue(self, request: LockRequest, user: str) -> Lock:
        txn = self.alive(request.txn_id)
        lock = Lock(LockId(max(self.locks, default=0) + 1), request, user)
        for component in request.components:
            if component.operation in WRITES and component.is_transactional:
                self._note(txn, component)
        self.locks[lock.lock_id] = lock
        self.try_grant(lock)
        return lock

    def _note(self, txn: Txn, component: LockComponent) -> None:
        is_late = component.is_dynamic_partition_write
        if is_late and self.generation is MetastoreGeneration.V3:
            return
        txn.components.add(Written(component.table, component.partition, component.operation))

    def try_grant(self, lock: Lock) -> None:
        if lock.state is not LockState.WAITING:
            return
        for earlier in sorted(self.locks):
            if earlier >= lock.lock_id:
                break
            if self._blocks(self.locks[earlier], lock):
                lock.blocked_by = earlier
                return
        lock.state, lock.blocked_by = LockState.ACQUIRED, None
        lock.acquired_s = self.now_s()

    def _blocks(self, held: Lock, wanted: Lock) -> bool:
        if held.request.txn_id == wanted.request.txn_id:
            return False
        return any(
            _overlap(mine, theirs)
            and not may_share(
                mine.lock_type,
                theirs.lock_type,
                self.generation,
                requested_level=mine.level,
                held_level=theirs.level,
            )
            for mine in wanted.request.components
            for theirs in held.request.components
        )

    # Tables

    def next_table_id(self) -> int | None:
        self._tables_made += 1
        return None if self.generation is MetastoreGeneration.V3 else self._tables_made

    def put_table(self, table: TableInfo) -> None:
        if table.ref in self.tables:
            raise MetastoreCallError(method="create_table", reason=f"{table.ref} already exists")
        if table.sort_columns and table.parameters.get("transactional") == "true":
            raise MetastoreCallError(
                method="create_table", reason=f"{table.ref} cannot be transactional: it is sorted"
            )
        self.tables[table.ref] = table
        self.partitions[table.ref] = {}

    def add_partition(self, ref: TableRef, name: PartitionName, place: str | None) -> None:
        self.partitions[ref][name] = {}
        if place is not None:
            self.places[ref, name] = place
        self.births[ref, name] = int(self.clock.monotonic())
        self.schemas[ref, name] = self.tables[ref].columns

    def rename(self, old: TableRef, new: TableRef) -> None:
        """Everything that goes by a table's name goes by the new one (TxnHandler.onRename)."""
        if new in self.tables:
            raise MetastoreCallError(method="alter_table", reason=f"new table {new} already exists")
        table = self.tables.pop(old)
        if table.location == f"{self.databases[old.db]}/{old.name}":
            table = replace(table, location=f"{self.databases[new.db]}/{new.name}")
        self.tables[new] = replace(table, ref=new)
        for by_name in (self.partitions, self.write_ids, self.next_write_id):
            if old in by_name:
                by_name[new] = by_name.pop(old)
        self.logged.pop(old, None)
        for by_partition in (self.places, self.births, self.schemas):
            for name in [name for ref, name in by_partition if ref == old]:
                by_partition[new, name] = by_partition.pop((old, name))
        for txn in self.txns.values():
            txn.components = {
                replace(c, table=new) if c.table == old else c for c in txn.components
            }
        self.write_set = [
            replace(done, written=replace(done.written, table=new))
            if done.written.table == old
            else done
            for done in self.write_set
        ]
        self.queue = {
            i: replace(entry, table=new) if entry.table == old else entry
            for i, entry in self.queue.items()
        }

    def forget_entries(self, is_dropped: Callable[[CompactionEntry], bool]) -> None:
        """Remove the queue entries of a dropped table or partition (TxnHandler.cleanupRecords)."""
        self.queue = {i: entry for i, entry in self.queue.items() if not is_dropped(entry)}

    def set_parameters(self, ref: TableRef, parameters: dict[str, str]) -> None:
        kind, found = transactional_kind(parameters), self.tables[ref]
        if found.kind is TransactionalKind.FULL_ACID is not kind:
            reason = "TBLPROPERTIES with 'transactional'='true' cannot be unset"
            raise MetastoreCallError(method="alter_table", reason=reason)
        self.tables[ref] = replace(found, kind=kind, parameters=parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A call that is going to fail, before it took effect or after."""

    method: str
    error: Exception
    is_done: bool


def _overlap(one: LockComponent, other: LockComponent) -> bool:
    if one.table != other.table:
        return False
    wholes = LockLevel.TABLE in {one.level, other.level}
    return wholes or one.partition == other.partition

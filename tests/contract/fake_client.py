"""The client of a `FakeMetastore`: `MetastorePort` without a wire."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockState,
    MetastoreGeneration,
    recorded_as,
)
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    UNPARTITIONED,
    Column,
    Constraints,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore import catalog
from airflow_hiveacid.metastore.catalog import NewTable, TableChange
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionResponse,
    CompactionState,
    CompactionType,
    fitting_job_id,
)
from airflow_hiveacid.metastore.half_exchange import missing_table
from airflow_hiveacid.metastore.locks import LockInfo, LockRequest, LockResponse
from airflow_hiveacid.metastore.port import OpenTxn, TxnState, TxnType
from tests.contract.fake_metastore import EPOCH_S, FakeMetastore, Txn, Written

_P = ParamSpec("_P")
_R = TypeVar("_R")
_DEFAULT_POOL: Final = "default"


def served(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Runs a method under the server's lock, after reaping, and lets planted faults happen."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        server: FakeMetastore = args[0].server  # type: ignore[attr-defined]
        name = method.__name__
        with server.guard:
            server.reap()
            server.take_fault(name, is_done=False)
            answer = method(*args, **kwargs)
            server.take_fault(name, is_done=True)
            return answer

    return call


class FakeClient:
    """One connection to a fake metastore."""

    def __init__(self, server: FakeMetastore, *, user: str = "tester") -> None:
        self.server = server
        self.user = user

    @property
    def generation(self) -> MetastoreGeneration:
        return self.server.generation

    @property
    def missing_calls(self) -> tuple[str, ...]:
        return self.server.missing_calls

    @property
    def metastore_id(self) -> str:
        return self.server.metastore_id

    @property
    def txn_timeout_s(self) -> float:
        return self.server.txn_timeout_s

    def config_value(self, name: str, default: str) -> str:
        return self.server.settings.get(name, default)

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        """A fault of this server is over at the next call; nobody has to wait for its end."""
        del left_s

    def clone(self, *, call_timeout_s: float | None = None) -> Self:
        del call_timeout_s
        return type(self)(self.server, user=self.user)

    def close(self) -> None:
        """There is nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Catalog

    @served
    def list_databases(self) -> tuple[str, ...]:
        return tuple(sorted(self.server.databases))

    @served
    def list_tables(self, db: str) -> tuple[str, ...]:
        return tuple(sorted(ref.name for ref in self.server.tables if ref.db == db))

    @served
    def create_database(self, name: str, location: str | None = None) -> None:
        place = location or f"file:/warehouse/{name.lower()}.db"
        self.server.databases.setdefault(name.lower(), place)

    @served
    def drop_database(self, name: str) -> None:
        if any(ref.db == name.lower() for ref in self.server.tables):
            raise errors.MetastoreCallError(method="drop_database", reason=f"{name} is not empty")
        self.server.databases.pop(name.lower(), None)

    @served
    def get_table(self, ref: TableRef) -> TableInfo:
        if ref not in self.server.tables:
            raise missing_table(self, ref)
        return self._table(ref)

    @served
    def get_source(self, ref: TableRef) -> TableInfo:
        return self.get_table(ref)

    @served
    def constraints(self, ref: TableRef) -> Constraints:
        return self.server.constraints.get(ref, Constraints())

    @served
    def primary_key(self, ref: TableRef) -> tuple[str, ...]:
        return self.server.primary_keys.get(ref, ())

    @served
    def create_table(self, table: NewTable) -> TableInfo:
        struct = catalog.table_struct(table)
        struct.sd.location = (
            table.location or f"{self.server.databases[table.ref.db]}/{table.ref.name}"
        )
        struct.id = self.server.next_table_id()
        struct.createTime = int(self.server.now_s())
        info = catalog.table_info(struct)
        if self.generation is MetastoreGeneration.V4 and info.kind is TransactionalKind.NONE:
            info = replace(info, parameters={**info.parameters, "EXTERNAL": "TRUE"})
        self.server.put_table(info)
        return info

    @served
    def drop_table(self, ref: TableRef, *, delete_data: bool = True, purge: bool = False) -> None:
        del delete_data, purge
        self._table(ref)
        del self.server.tables[ref], self.server.partitions[ref]
        self.server.write_ids.pop(ref, None)
        self.server.next_write_id.pop(ref, None)
        self.server.logged.pop(ref, None)
        self.server.forget_entries(lambda entry: entry.table == ref)

    @served
    def change_table(self, ref: TableRef, change: TableChange) -> None:
        table = self._table(ref)
        changed = {column.name: column for column in change.changed}
        columns = (*(changed.get(c.name, c) for c in table.columns), *change.added)
        self.server.tables[ref] = replace(table, columns=columns)
        for place in self.server.schemas if change.cascade else ():
            if place[0] == ref:
                self.server.schemas[place] = columns
        if change.name is not None:
            self.server.rename(ref, change.name)

    @served
    def set_table_parameters(self, ref: TableRef, parameters: Mapping[str, str | None]) -> None:
        merged = {**self._table(ref).parameters, **parameters}
        self.server.set_parameters(ref, {k: v for k, v in merged.items() if v is not None})

    @served
    def list_partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        self._table(table.ref)
        return self._partitions(table, tuple(self.server.partitions[table.ref]))

    @served
    def partition_names(self, table: TableInfo) -> tuple[PartitionName, ...]:
        self._table(table.ref)
        if not table.is_partitioned:
            return (UNPARTITIONED,)
        return tuple(sorted(self.server.partitions[table.ref], key=str))

    @served
    def get_partitions(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> tuple[PartitionInfo, ...]:
        there = self.server.partitions[table.ref]
        return self._partitions(table, tuple(n for n in dict.fromkeys(names) if n in there))

    @served
    def add_partitions(
        self,
        table: TableInfo,
        names: Sequence[PartitionName],
        *,
        locations: Mapping[PartitionName, str] | None = None,
    ) -> tuple[PartitionInfo, ...]:
        self._table(table.ref)
        for name in names if table.is_partitioned else ():
            if name not in self.server.partitions[table.ref]:
                self.server.add_partition(table.ref, name, (locations or {}).get(name))
        return self._partitions(table, tuple(dict.fromkeys(names)))

    @served
    def drop_partitions(
        self, table: TableInfo, names: Sequence[PartitionName], *, purge: bool = False
    ) -> None:
        del purge
        self._table(table.ref)
        for name in names:
            self.server.partitions[table.ref].pop(name, None)
        gone = set(names)
        self.server.forget_entries(lambda e: e.table == table.ref and e.partition in gone)

    @served
    def partition_births(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> dict[PartitionName, int]:
        there = self.server.partitions[table.ref]
        births = self.server.births
        return {name: births.get((table.ref, name), 0) for name in names if name in there}

    @served
    def forget_statistics(
        self,
        table: TableInfo,
        partitions: Sequence[PartitionName],
        *,
        write_id: WriteId,
        write_ids: ValidWriteIdList,
    ) -> int:
        del write_id, write_ids
        if not table.is_partitioned:
            kept = catalog.without_statistics(self._table(table.ref).parameters)
            if kept is not None:
                self.server.set_parameters(table.ref, kept)
            return int(kept is not None)
        there = self.server.partitions[table.ref]
        marked = [n for n in partitions if catalog.STATISTICS_FLAG in there.get(n, {})]
        for name in marked:
            del there[name][catalog.STATISTICS_FLAG]
        return len(marked)

    def _table(self, ref: TableRef) -> TableInfo:
        if ref not in self.server.tables:
            raise errors.TableNotFoundError(table=ref)
        return self.server.tables[ref]

    def _partitions(
        self, table: TableInfo, names: tuple[PartitionName, ...]
    ) -> tuple[PartitionInfo, ...]:
        if not table.is_partitioned:
            return catalog.whole_table(table)
        found = (
            PartitionInfo(
                name=name,
                location=self.server.places.get((table.ref, name))
                or table.default_partition_location(name),
                storage=table.storage if table.kind is TransactionalKind.INSERT_ONLY else None,
                columns=self._own_columns(table, name),
            )
            for name in names
        )
        return catalog.by_name(tuple(found))

    def _own_columns(self, table: TableInfo, name: PartitionName) -> tuple[Column, ...] | None:
        """Those of a partition that has others than its table."""
        if table.kind is not TransactionalKind.INSERT_ONLY:
            return None
        found = self.server.schemas.get((table.ref, name), table.columns)
        return None if found == table.columns else found

    # Transactions

    @served
    def open_txn(self, txn_type: TxnType = TxnType.DEFAULT) -> TxnId:
        return self.server.open(self.user, txn_type)

    @served
    def commit_txn(self, txn_id: TxnId) -> None:
        self.server.commit(txn_id)

    @served
    def abort_txn(self, txn_id: TxnId) -> bool:
        txn = self.server.txns.get(txn_id)
        if txn is None or txn.is_forgotten or txn.state is TxnState.COMMITTED:
            return False
        self.server.end(txn, TxnState.ABORTED)
        return True

    @served
    def heartbeat(self, txn_id: TxnId) -> None:
        self.server.alive(txn_id)
        self.server.beats.append((txn_id, self.server.clock.monotonic()))

    @served
    def allocate_write_id(self, txn_id: TxnId, ref: TableRef) -> WriteId:
        self.server.alive(txn_id)
        known = self.server.write_ids.setdefault(ref, {})
        if txn_id not in known:
            known[txn_id] = self.server.next_write_id.get(ref, WriteId(1))
            self.server.next_write_id[ref] = WriteId(known[txn_id] + 1)
        return known[txn_id]

    @served
    def valid_txns(self) -> ValidTxnList:
        by_state = {
            state: tuple(t for t, txn in self._remembered().items() if txn.state is state)
            for state in (TxnState.OPEN, TxnState.ABORTED)
        }
        return ValidTxnList(
            high_watermark=TxnId(len(self.server.txns)),
            open=by_state[TxnState.OPEN],
            aborted=by_state[TxnState.ABORTED],
        )

    @served
    def open_but_compactions(self) -> frozenset[TxnId]:
        return frozenset(
            txn_id
            for txn_id, txn in self._remembered().items()
            if txn.state is TxnState.OPEN and txn.txn_type is not TxnType.COMPACTION
        )

    @served
    def valid_write_ids(
        self, refs: Iterable[TableRef], txns: ValidTxnList
    ) -> dict[TableRef, ValidWriteIdList]:
        return {ref: self._write_ids(ref, txns) for ref in sorted(set(refs))}

    @served
    def max_write_id(self, ref: TableRef) -> WriteId:
        return WriteId(self.server.next_write_id.get(ref, WriteId(1)) - 1)

    @served
    def add_write_ids_to_min_history(
        self, txn_id: TxnId, lowest: Mapping[TableRef, WriteId]
    ) -> None:
        if self.generation is MetastoreGeneration.V4:
            self.server.min_history[txn_id] = dict(lowest)

    @served
    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        ref: TableRef,
        names: Sequence[PartitionName],
        operation: DataOperation,
    ) -> None:
        del write_id
        txn = self.server.alive(txn_id)
        txn.components = {
            written
            for written in txn.components
            if written.table != ref or written.partition is not None
        }
        txn.components |= {Written(ref, name, recorded_as(operation)) for name in names}

    @served
    def open_txns_info(self) -> tuple[OpenTxn, ...]:
        return tuple(
            OpenTxn(
                txn_id=txn_id,
                state=txn.state,
                user=txn.user,
                host="fake",
                started_s=txn.started_s,
                last_heartbeat_s=EPOCH_S + txn.heard_s,
            )
            for txn_id, txn in self._remembered().items()
            if txn.state is not TxnState.COMMITTED
        )

    def _remembered(self) -> dict[TxnId, Txn]:
        return {i: txn for i, txn in self.server.txns.items() if not txn.is_forgotten}

    def _write_ids(self, ref: TableRef, txns: ValidTxnList) -> ValidWriteIdList:
        given = self.server.write_ids.get(ref, {})
        last = WriteId(self.server.next_write_id.get(ref, WriteId(1)) - 1)
        high = max((w for t, w in given.items() if t <= txns.high_watermark), default=last)
        known = {t: w for t, w in given.items() if w <= high}
        # Whoever began after the list of transactions was taken counts as open.
        opened = tuple(w for t, w in known.items() if t in txns.open or t > txns.high_watermark)
        aborted = tuple(w for t, w in known.items() if t in txns.aborted)
        minimum = min(opened, default=None)
        invalid = (*opened, *aborted)
        if self.generation is MetastoreGeneration.V4 and invalid and len(invalid) == len(known):
            # Nothing valid is known any more: the list ends at the lowest that is not.
            high = min(invalid)
            opened, aborted = (w for w in opened if w == high), (w for w in aborted if w == high)
        return ValidWriteIdList(
            table=ref,
            high_watermark=high,
            open=tuple(opened),
            aborted=tuple(aborted),
            min_open_write_id=minimum,
        )

    @served
    def logged_commits(self, ref: TableRef) -> Mapping[WriteId, int]:
        return dict(self.server.logged.get(ref, {})) if self.server.has_event_log else {}

    # Locks

    @served
    def lock(self, request: LockRequest) -> LockResponse:
        if not request.components:
            raise errors.MetastoreCallError(
                method="lock", reason="a lock request without components"
            )
        lock = self.server.enqueue(request, self.user)
        return LockResponse(lock_id=lock.lock_id, state=lock.state)

    @served
    def check_lock(self, lock_id: LockId, txn_id: TxnId) -> LockResponse:
        self.server.alive(txn_id)
        lock = self.server.locks.get(lock_id)
        if lock is None:
            raise errors.TransactionAbortedError(txn_id=txn_id, reason=f"no such lock {lock_id}")
        self.server.try_grant(lock)
        return LockResponse(lock_id=lock_id, state=lock.state)

    @served
    def unlock(self, lock_id: LockId) -> None:
        lock = self.server.locks.get(lock_id)
        if lock is not None and lock.state is LockState.WAITING:
            del self.server.locks[lock_id]

    @served
    def show_locks(
        self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        found = [
            LockInfo(
                lock_id=lock.lock_id,
                txn_id=lock.request.txn_id,
                db=component.table.db,
                table=component.table.name,
                partition=None if component.partition is None else str(component.partition),
                state=lock.state,
                lock_type=component.lock_type,
                user=lock.user,
                host="fake",
                agent_info=lock.request.agent_info,
                acquired_s=lock.acquired_s,
                blocked_by=lock.blocked_by,
            )
            for lock in self.server.locks.values()
            for component in lock.request.components
            if ref in (None, component.table)
        ]
        return tuple(lock for lock in found if txn_id in (None, lock.txn_id))

    # Compaction queue

    @served
    def request_compaction(
        self,
        ref: TableRef,
        partition: PartitionName | None,
        compaction_type: CompactionType,
        *,
        pool: str | None = None,
    ) -> CompactionResponse:
        is_v3 = self.generation is MetastoreGeneration.V3
        if is_v3 and pool is not None:
            raise errors.MetastoreVersionError("3.1 has no pools")
        for entry in self.server.queue.values():
            if (entry.table, entry.partition) == (ref, partition) and self._is_in_the_way(entry):
                return CompactionResponse(
                    entry_id=entry.entry_id if is_v3 else None,
                    accepted=False,
                    state=entry.state if is_v3 else CompactionState.REFUSED,
                    message=None if is_v3 else f"already {entry.state.value}, id={entry.entry_id}",
                )
        entry_id = max(self.server.queue, default=0) + 1
        self.server.queue[entry_id] = CompactionEntry(
            entry_id=entry_id,
            table=ref,
            partition=partition,
            compaction_type=compaction_type,
            state=CompactionState.INITIATED,
            pool=None if is_v3 else pool or _DEFAULT_POOL,
        )
        return CompactionResponse(entry_id=entry_id, accepted=True, state=CompactionState.INITIATED)

    def _is_in_the_way(self, entry: CompactionEntry) -> bool:
        """4.x also refuses to compact again, before it was cleaned, what nobody wrote to since."""
        if entry.state is CompactionState.READY_FOR_CLEANING:
            write_ids = self._write_ids(entry.table, self.valid_txns())
            return entry.highest_write_id == CompactorWriteIdList.of(write_ids).high_watermark
        return entry.state in (CompactionState.INITIATED, CompactionState.WORKING)

    @served
    def show_compactions(
        self, ref: TableRef | None = None, partition: PartitionName | None = None
    ) -> tuple[CompactionEntry, ...]:
        return tuple(
            entry
            for entry in reversed(self.server.queue.values())
            if ref in (None, entry.table) and partition in (None, entry.partition)
        )

    @served
    def find_next_compaction(
        self, worker_id: str, *, worker_version: str, pool: str | None = None
    ) -> ClaimedCompaction | None:
        self._needs_v4("find_next_compact2")
        for entry in self.server.queue.values():
            is_waiting = entry.state is CompactionState.INITIATED
            if is_waiting and entry.pool == (pool or _DEFAULT_POOL):
                working = replace(
                    entry,
                    state=CompactionState.WORKING,
                    worker_id=worker_id,
                    worker_version=worker_version,
                )
                self._put(working)
                return ClaimedCompaction.of_entry(working)
        return None

    @served
    def update_compactor_state(self, claim: ClaimedCompaction, txn_id: TxnId) -> None:
        # A line of TXN_COMPONENTS: an aborted compaction is not forgotten before it is cleaned.
        written = Written(claim.table, claim.partition, DataOperation.SELECT)
        self.server.alive(txn_id).components.add(written)
        self._change(
            claim,
            "update_compactor_state",
            txn_id=txn_id,
            highest_write_id=claim.highest_write_id,
            run_as=claim.run_as or self.user,
        )

    @served
    def set_job_id(self, claim: ClaimedCompaction, job_id: str) -> None:
        self._change(claim, "set_hadoop_jobid", job_id=fitting_job_id(job_id))

    @served
    def mark_compacted(self, claim: ClaimedCompaction) -> None:
        state = CompactionState.READY_FOR_CLEANING
        self._change(claim, "mark_compacted", state=state, worker_id=None)

    @served
    def mark_cleaned(self, claim: ClaimedCompaction) -> None:
        if not claim.highest_write_id:
            raise ValueError(f"compaction {claim.entry_id} has no highest write ID to clean up to")
        self._change(claim, "mark_cleaned", state=CompactionState.SUCCEEDED)

    @served
    def mark_failed(self, claim: ClaimedCompaction) -> None:
        self._finish(claim, "mark_failed", CompactionState.FAILED)

    @served
    def mark_refused(self, claim: ClaimedCompaction) -> None:
        self._finish(claim, "mark_refused", CompactionState.REFUSED)

    def _finish(self, claim: ClaimedCompaction, method: str, state: CompactionState) -> None:
        self._change(claim, method, state=state, error_message=claim.error_message)

    def _change(self, claim: ClaimedCompaction, method: str, **changes: object) -> None:
        self._needs_v4(method)
        entry = self.server.queue.get(claim.entry_id)
        if entry is None or not entry.state.is_pending:
            raise errors.MetastoreCallError(method=method, reason="no such entry in the queue")
        self._put(replace(entry, **changes))  # type: ignore[arg-type]

    def _put(self, entry: CompactionEntry) -> None:
        self.server.queue[entry.entry_id or 0] = entry

    def _needs_v4(self, method: str) -> None:
        if self.generation is MetastoreGeneration.V3:
            raise errors.MetastoreVersionError(f"the metastore does not know the call {method}")

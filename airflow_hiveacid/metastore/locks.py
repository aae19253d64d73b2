"""The locks that a job requests, and the locks that the metastore lists.

Example:
    >>> flights = TableInfo(ref=TableRef("demo", "flights"), location="file:/f", columns=())
    >>> delete = TableAccess(table=flights, operations=frozenset({DataOperation.DELETE}))
    >>> [c.lock_type.name for c in components_for([], [delete], MetastoreGeneration.V4)]
    ['SHARED_WRITE']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.conflicts import (
    ConflictPolicy,
    DataOperation,
    LockLevel,
    LockState,
    LockType,
    MetastoreGeneration,
    lock_type_for,
    lock_under,
    may_share,
    recorded_under,
)
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef, TransactionalKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """The operations of a job on one table.

    `partitions` are those that the job accesses; None for an unpartitioned table, and if they
    depend on the rows. `policy` decides which locks a write requests, and which operations the
    metastore records.
    """

    table: TableInfo
    operations: frozenset[DataOperation]
    partitions: tuple[PartitionName, ...] | None = None
    policy: ConflictPolicy = ConflictPolicy.HIVE

    @property
    def ref(self) -> TableRef:
        """The table's name."""
        return self.table.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class LockComponent:
    """A lock on one table or partition for one operation.

    `partition` is None for the whole table. `operation` is None for a change of definitions, which
    touches no rows. If `is_dynamic_partition_write`, the partitions are recorded later with
    `add_dynamic_partitions`.
    """

    table: TableRef
    lock_type: LockType
    operation: DataOperation | None
    partition: PartitionName | None = None
    is_transactional: bool = True
    is_dynamic_partition_write: bool = False

    @property
    def level(self) -> LockLevel:
        """TABLE or PARTITION."""
        return LockLevel.TABLE if self.partition is None else LockLevel.PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """The locks that one transaction requests; the server grants all of them or none.

    `agent_info` has at most 128 characters; SHOW LOCKS shows it.
    """

    txn_id: TxnId
    components: tuple[LockComponent, ...]
    agent_info: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockResponse:
    """The state of a lock request. `message` is the server's reason, if any (4.x)."""

    lock_id: LockId
    state: LockState
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """One component of any client's lock request, as `show_locks` lists it.

    Names have the server's spelling. `partition` is None for a lock on a table or database. `table`
    is None for a lock on a database. `acquired_s` is seconds since 1970 by the server's clock.
    `blocked_by` is the lock that this lock waits for.
    """

    lock_id: LockId
    txn_id: TxnId | None
    db: str
    table: str | None
    partition: str | None
    state: LockState
    lock_type: LockType
    user: str
    host: str
    agent_info: str
    acquired_s: float | None = None
    blocked_by: LockId | None = None

    @property
    def is_asked(self) -> bool:
        """True if later requests may wait for the lock; an unknown state counts."""
        return self.state not in (LockState.ABORT, LockState.NOT_ACQUIRED)

    @property
    def is_of_compactor(self) -> bool:
        """True if only compactors request such a lock; no reader or writer ever waits for it."""
        return (self.table or "").lower().startswith(_COMPACTORS)

    @property
    def level(self) -> LockLevel:
        """DB, TABLE or PARTITION."""
        if not self.table:
            return LockLevel.DB
        return LockLevel.PARTITION if self.partition else LockLevel.TABLE

    def covers(self, ref: TableRef) -> bool:
        """Return whether this lock is on the table, one of its partitions or its database."""
        if self.db.lower() != ref.db.lower():
            return False
        return not self.table or self.table.lower() == ref.name.lower()

    @property
    def name(self) -> tuple[str, str]:
        """The database and table in lower case; of a lock on a database, the table is empty."""
        return self.db.lower(), (self.table or "").lower()

    @property
    def full_name(self) -> str:
        """The database and table, joined by a dot; of a lock on a database, the database alone."""
        return f"{self.db}.{self.table}" if self.table else self.db

    def __str__(self) -> str:
        where = f"{self.full_name}/{self.partition}" if self.partition else self.full_name
        return (
            f"{self.lock_type.value} on {where} by transaction {self.txn_id} of"
            f" {self.user}@{self.host} ({self.agent_info or 'no agent info'}, {self.state.value})"
        )


def concerning(locks: Iterable[LockInfo], ref: TableRef | None) -> tuple[LockInfo, ...]:
    """Return the locks that concern a table; without a table, return all."""
    names = () if ref is None else names_around(ref)
    return tuple(lock for lock in locks if ref is None or lock.name in names)


def names_around(ref: TableRef) -> tuple[tuple[str, str], ...]:
    """Return the `LockInfo.name` of the locks on a table, its database and its compactions."""
    tables = ("", ref.name, presence_of_compactions(ref).name, lock_of_compactors(ref).name)
    return tuple((ref.db.lower(), table.lower()) for table in tables)


def components_for(
    reads: Sequence[TableAccess], writes: Sequence[TableAccess], generation: MetastoreGeneration
) -> tuple[LockComponent, ...]:
    """Return the components of one lock request without duplicates, sorted by table and partition.

    Partitions are locked if they are known in advance, otherwise the table; for a write, the table
    lock is then marked as a dynamic partition write.
    """
    components = [c for a in reads for c in _read_components(a)]
    components += [c for a in writes for c in _write_components(a, generation)]
    return tuple(sorted(dict.fromkeys(components), key=_order))


def components_to_define(
    ref: TableRef,
    partitions: Sequence[PartitionName],
    lock_type: LockType,
    generation: MetastoreGeneration,
) -> tuple[LockComponent, ...]:
    """Return the locks for DDL: on these partitions, or on the table.

    The table is locked if no partition is given, or if 3.1 would change a name (`_have_one_name`).
    """
    names: Iterable[PartitionName | None] = (None,)
    if partitions and _have_one_name(partitions, generation):
        names = sorted(partitions, key=str)
    return tuple(
        LockComponent(table=ref, lock_type=lock_type, operation=None, partition=partition)
        for partition in names
    )


def in_the_way(
    locks: Iterable[LockInfo],
    components: Iterable[LockComponent],
    generation: MetastoreGeneration,
    *,
    key_of: Callable[[PartitionName], Hashable] = str,
) -> tuple[LockInfo, ...]:
    """Return the locks that block a new request for these components.

    `locks` are the listed locks of any table. `key_of` returns equal keys for two spellings of one
    partition, such as `month=01` and `month=1` of an int column.
    """

    def key(partition: str) -> Hashable:
        # 3.1 lists names in lower case
        text = partition.lower() if generation is MetastoreGeneration.V3 else partition
        try:
            return key_of(PartitionName.parse(text))
        except InvalidNameError:  # another client may lock any name
            return text

    # A request may have thousands of partitions, and so may the locks: look each up once. An empty
    # set means the whole table.
    requests: defaultdict[tuple[TableRef, LockType, LockLevel], set[Hashable]] = defaultdict(set)
    for part in components:
        keys = requests[part.table, part.lock_type, part.level]
        if part.partition is not None:
            keys.add(key(str(part.partition)))

    def is_in_the_way(lock: LockInfo) -> bool:
        return lock.is_asked and any(
            lock.covers(ref)
            and not may_share(
                kind, lock.lock_type, generation, requested_level=level, held_level=lock.level
            )
            and (not keys or not lock.partition or key(lock.partition) in keys)
            for (ref, kind, level), keys in requests.items()
        )

    for _, kind, _ in requests:
        may_share(kind, LockType.SHARED_READ, generation)  # refuse what 3.1 lacks, locks or not
    return tuple(filter(is_in_the_way, locks))


def blockers_of(
    request: LockRequest,
    lock_id: LockId,
    locks: Sequence[LockInfo],
    generation: MetastoreGeneration,
) -> tuple[LockInfo, ...]:
    """Return one lock of each earlier request that a waiting request has to wait for.

    `locks` are all locks of the server, including those of the request. The lock that the server
    names as the obstacle comes first, then the granted locks, then those that wait, too.
    """
    obstacle_ids = {lock.blocked_by for lock in locks if lock.lock_id == lock_id}
    earlier = [k for k in locks if k.lock_id < lock_id and k.txn_id != request.txn_id]
    blockers = {lock.lock_id: lock for lock in earlier if lock.lock_id in obstacle_ids}
    for lock in in_the_way(earlier, request.components, generation):
        blockers[lock.lock_id] = lock

    def order(lock: LockInfo) -> tuple[bool, bool, LockId]:
        return lock.lock_id not in obstacle_ids, lock.state is not LockState.ACQUIRED, lock.lock_id

    return tuple(sorted(blockers.values(), key=order))


_PRESENCE: Final = "hiveacid_at_work_on_"
_COMPACTORS: Final = "hiveacid_compaction_of_"


def presence_of_compactions(ref: TableRef) -> TableRef:
    """Return the artificial table name that compactions of a table lock while they work.

    They hold no lock on the table before they publish (docs/decisions/compaction.md). This lock
    shows them to other copies of the job, and to a process that kills the job.
    """
    return TableRef(ref.db, f"{_PRESENCE}{ref.name}")


def lock_of_compactors(ref: TableRef) -> TableRef:
    """Return the artificial table name, each of whose partitions only one compactor can lock."""
    return TableRef(ref.db, f"{_COMPACTORS}{ref.name}")


def real_table(ref: TableRef) -> TableRef:
    """Return the table to which an artificial table name belongs; a real name is returned as is."""
    return TableRef(ref.db, ref.name.removeprefix(_PRESENCE).removeprefix(_COMPACTORS))


def presence_component(name: TableRef) -> LockComponent:
    """Return a component that locks the name of `presence_of_compactions`; it never has to wait."""
    return LockComponent(
        table=name,
        lock_type=LockType.SHARED_READ,
        operation=DataOperation.SELECT,
        is_transactional=False,
    )


def named_behind_table_lock(
    writes: Sequence[TableAccess], components: Sequence[LockComponent]
) -> tuple[TableAccess, ...]:
    """Return writes with a table lock whose known partitions must be recorded later."""
    through_table = {c.table for c in components if c.is_dynamic_partition_write}
    return tuple(a for a in writes if a.partitions and a.ref in through_table)


def _read_components(access: TableAccess) -> Iterator[LockComponent]:
    transactional = access.table.kind is not TransactionalKind.NONE
    for partition in access.partitions or (None,):
        yield LockComponent(
            table=access.ref,
            lock_type=lock_type_for(DataOperation.SELECT),
            operation=DataOperation.SELECT,
            partition=partition if access.table.is_partitioned else None,
            is_transactional=transactional,
        )


def _write_components(
    access: TableAccess, generation: MetastoreGeneration
) -> Iterator[LockComponent]:
    partitions: Iterable[PartitionName | None] = (None,)
    if access.table.is_partitioned and _have_one_name(access.partitions or (), generation):
        partitions = access.partitions or (None,)
    for partition in partitions:
        for operation in access.operations:
            yield LockComponent(
                table=access.ref,
                lock_type=lock_under(access.policy, generation, operation),
                operation=recorded_under(access.policy, operation),
                partition=partition,
                is_dynamic_partition_write=access.table.is_partitioned and partition is None,
            )


def _have_one_name(partitions: Iterable[PartitionName], generation: MetastoreGeneration) -> bool:
    # 3.1 lowercases the whole partition name in locks (TxnHandler.normalizeCase), but not in
    # add_dynamic_partitions. With a mixed-case value, the server would record a partition under two
    # names. The server would then miss conflicts and compactions of the partition.
    if generation is not MetastoreGeneration.V3:
        return True
    return all(str(p) == str(p).lower() for p in partitions)


def _order(component: LockComponent) -> tuple[str, str, str, str]:
    partition = "" if component.partition is None else str(component.partition)
    operation = "" if component.operation is None else component.operation.value
    return str(component.table), partition, operation, component.lock_type.value

"""Which locks a job asks for, and what the metastore tells of locks.

Takes what a job does to which tables and partitions, gives one lock request with all its
components. Pure values and rules; asks nobody.

Example:
    >>> flights = TableInfo(ref=TableRef("demo", "flights"), location="file:/f", columns=())
    >>> delete = TableAccess(table=flights, operations=frozenset({DataOperation.DELETE}))
    >>> [c.lock_type.name for c in components_for([], [delete], MetastoreGeneration.V4)]
    ['SHARED_WRITE']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockLevel,
    LockState,
    LockType,
    MetastoreGeneration,
    lock_type_for,
)
from airflow_hiveacid.format.policies import ConflictPolicy, lock_under, recorded_under
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef, TransactionalKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_hiveacid.format.ids import LockId, TxnId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """What a job does to one table.

    `partitions` are the ones it touches, when that is known before the work; None when the rows
    decide. An unpartitioned table has None. `policy` is about writing: which locks it asks for, and
    what is recorded.
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

    `partition` is None for the whole table. `operation` is None for a definition, which touches no
    rows. `is_transactional` is false for a table without transactions. With
    `is_dynamic_partition_write` the partitions are told later, by `add_dynamic_partitions`.
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
    """Everything one transaction locks: granted as a whole or not at all.

    `agent_info` is at most 128 characters; the metastore shows it with the lock.
    """

    txn_id: TxnId
    components: tuple[LockComponent, ...]
    agent_info: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockResponse:
    """How a lock request stands. `message` is the server's reason, if it gives one (4.x)."""

    lock_id: LockId
    state: LockState
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """One component of somebody's lock request, as `show_locks` tells it.

    Names are as the server spells them; `table` and `partition` are None above their level.
    `acquired_s` is seconds since 1970 by the server's clock. `blocked_by` is the lock that a
    waiting one waits for.
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

    def __str__(self) -> str:
        name = ".".join(n for n in (self.db, self.table) if n)
        where = f"{name}/{self.partition}" if self.partition else name
        return (
            f"{self.lock_type.value} on {where} by transaction {self.txn_id} of"
            f" {self.user}@{self.host} ({self.agent_info or 'no agent info'}, {self.state.value})"
        )


def components_for(
    reads: Sequence[TableAccess], writes: Sequence[TableAccess], generation: MetastoreGeneration
) -> tuple[LockComponent, ...]:
    """List the components of one request, each once, in the order of table and partition.

    A write whose partitions are known locks them; else it locks the table and says that partitions
    follow. Reads lock the partitions they name, or the table.
    """
    found = [c for a in reads for c in _read_components(a)]
    found += [c for a in writes for c in _write_components(a, generation)]
    return tuple(sorted(dict.fromkeys(found), key=_order))


def components_to_define(
    ref: TableRef,
    partitions: Sequence[PartitionName],
    lock_type: LockType,
    generation: MetastoreGeneration,
) -> tuple[LockComponent, ...]:
    """List the components for a change of definitions: of these partitions, or of the table."""
    places: Iterable[PartitionName | None] = (None,)
    if partitions and _are_found(partitions, generation):
        places = sorted(partitions, key=str)
    return tuple(
        LockComponent(table=ref, lock_type=lock_type, operation=None, partition=place)
        for place in places
    )


def named_behind_table_lock(
    writes: Sequence[TableAccess], components: Sequence[LockComponent]
) -> tuple[TableAccess, ...]:
    """Accesses whose partitions are known and yet locked through their table.

    The metastore has to be told of these partitions as of any that turn up late.
    """
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
    if access.table.is_partitioned and _can_lock_partitions(access, generation):
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


def _can_lock_partitions(access: TableAccess, generation: MetastoreGeneration) -> bool:
    return _are_found(access.partitions or (), generation)


def _are_found(partitions: Iterable[PartitionName], generation: MetastoreGeneration) -> bool:
    # 3.1 lowers the whole name of a partition that is locked (TxnHandler.normalizeCase), but not of
    # one that add_dynamic_partitions names: mixed-case values would be recorded under two names,
    # and neither conflicts nor compactions of the partition would be noticed.
    if generation is not MetastoreGeneration.V3:
        return True
    return all(str(p) == str(p).lower() for p in partitions)


def _order(component: LockComponent) -> tuple[str, str, str, str]:
    partition = "" if component.partition is None else str(component.partition)
    operation = "" if component.operation is None else component.operation.value
    return str(component.table), partition, operation, component.lock_type.value

"""Lookup tables of Hive's rules: which locks wait for each other, and which commits conflict.

The metastore applies these rules; this provider uses them to request locks, and to predict and
check the outcome of two jobs (`format.policies`).

Example:
    >>> lock_type_for(DataOperation.UPDATE)
    <LockType.SHARED_WRITE: 'shared_write'>
    >>> may_share(LockType.SHARED_WRITE, LockType.SHARED_WRITE, MetastoreGeneration.V3)
    False
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Self, cast

from airflow_hiveacid.format.errors import MetastoreVersionError


class ServerEnum(enum.Enum):
    """Base class of the enumerations whose values a metastore sends.

    A newer server's unknown value becomes an object that shows it and differs from every member.

    Example:
        >>> LockType.received("blue").value, LockType.received("blue").is_known
        ('blue', False)
    """

    @classmethod
    def received(cls, value: str) -> Self:
        """Return the member with this value, or an object that only shows the value."""
        try:
            return cls(value)
        except ValueError:
            return cast("Self", _unknown(cls, value))

    @property
    def is_known(self) -> bool:
        """False if only a newer server has this value."""
        return type(self).__members__.get(self.name) is self

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        # By default, unpickling calls the class, which refuses an unknown value.
        return type(self).received, (self.value,)


@lru_cache  # equal values are one object, as for members
def _unknown(cls: type[ServerEnum], value: str) -> ServerEnum:
    member = object.__new__(cls)
    member._name_, member._value_ = value, value
    return member


class MetastoreGeneration(enum.Enum):
    """The generation of a server: V3 is Hive 3.1, V4 is Hive 4."""

    V3 = "3"
    V4 = "4"


class DataOperation(enum.Enum):
    """An operation on a table or partition; a MERGE is the operations of its clauses."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    OVERWRITE = "overwrite"


class LockType(ServerEnum):
    """The type of a lock, from shared to exclusive; only V4 has EXCL_WRITE."""

    SHARED_READ = "shared_read"
    SHARED_WRITE = "shared_write"
    EXCL_WRITE = "excl_write"
    EXCLUSIVE = "exclusive"


class LockLevel(enum.Enum):
    """The kind of a locked object; the lock also covers all objects inside that object."""

    DB = "db"
    TABLE = "table"
    PARTITION = "partition"


class LockState(ServerEnum):
    """The metastore's answer to a lock request.

    ABORT: its transaction is aborted or unknown. NOT_ACQUIRED: it was not to wait.
    """

    ACQUIRED = "acquired"
    WAITING = "waiting"
    ABORT = "abort"
    NOT_ACQUIRED = "not_acquired"


_R, _W = LockType.SHARED_READ, LockType.SHARED_WRITE
_XW, _X = LockType.EXCL_WRITE, LockType.EXCLUSIVE

# The locks of DbTxnManager.acquireLocks in Hive 3.1, also on V4: with EXCL_WRITE, which Hive 4
# requests for updates if hive.txn.xlock.write is set, updates would wait for each other; without,
# only the first commit succeeds, as commit_txn checks for conflicts if exclWriteEnabled is false.
# An overwrite requests EXCLUSIVE: an insert by Hive holds only SHARED_READ, and could otherwise run
# at the same time and lose its rows.
_LOCK_TYPES: Final[Mapping[DataOperation, LockType]] = {
    DataOperation.SELECT: _R,
    DataOperation.INSERT: _R,
    DataOperation.UPDATE: _W,
    DataOperation.DELETE: _W,
    DataOperation.OVERWRITE: _X,
}

# For each requested lock type, the held lock types that do not block the request
# (TxnHandler.checkLock; LockTypeComparator).
_COMPATIBLE: Final[Mapping[MetastoreGeneration, Mapping[LockType, frozenset[LockType]]]] = {
    MetastoreGeneration.V3: {
        _R: frozenset({_R, _W}),
        _W: frozenset({_R}),
        _X: frozenset(),
    },
    MetastoreGeneration.V4: {
        _R: frozenset({_R, _W, _XW}),
        _W: frozenset({_R, _W}),
        _XW: frozenset({_R}),
        _X: frozenset(),
    },
}

# Pairs of operations that conflict: if two concurrent transactions record them for one partition,
# in the table WRITE_SET, the metastore rejects the second commit.
_U, _D = DataOperation.UPDATE, DataOperation.DELETE
_CONFLICTS: Final[Mapping[MetastoreGeneration, frozenset[tuple[DataOperation, DataOperation]]]] = {
    MetastoreGeneration.V3: frozenset({(_U, _U), (_U, _D), (_D, _U)}),
    MetastoreGeneration.V4: frozenset({(_U, _U), (_U, _D), (_D, _U), (_D, _D)}),
}


def lock_type_for(operation: DataOperation) -> LockType:
    """Return the lock to request before this operation on a transactional table."""
    return _LOCK_TYPES[operation]


def may_share(
    requested: LockType,
    held: LockType,
    generation: MetastoreGeneration,
    *,
    requested_level: LockLevel = LockLevel.TABLE,
    held_level: LockLevel = LockLevel.TABLE,
) -> bool:
    """Return whether a transaction can get `requested` while another transaction holds `held`.

    A read lock on a database blocks none on its tables (TxnHandler.ignoreConflict). A held type
    that is unknown, or that the generation lacks, is incompatible: a distribution may have added
    it. Raises MetastoreVersionError if the generation lacks the requested type.
    """
    table = _COMPATIBLE[generation]
    _known(requested, generation)
    pair = {(requested, requested_level), (held, held_level)}
    if (_R, LockLevel.DB) in pair and (_X, LockLevel.TABLE) in pair:
        return True
    return held in table[requested]


def recorded_as(operation: DataOperation) -> DataOperation:
    """Return the operation type to record in the metastore; overwrites are recorded as updates."""
    return DataOperation.UPDATE if operation is DataOperation.OVERWRITE else operation


def conflict(mine: DataOperation, theirs: DataOperation, generation: MetastoreGeneration) -> bool:
    """Return whether a commit fails because a different transaction committed first.

    Both must have written to the same partition, and the other must have committed after `mine` was
    opened. V4 checks only if the commit request states that the transaction held no exclusive write
    lock.
    """
    return (recorded_as(mine), recorded_as(theirs)) in _CONFLICTS[generation]


def _known(lock_type: LockType, generation: MetastoreGeneration) -> None:
    if lock_type not in _COMPATIBLE[generation]:
        raise MetastoreVersionError(
            f"a metastore of Hive {generation.value} has no {lock_type.name} lock; use Hive 4"
        )

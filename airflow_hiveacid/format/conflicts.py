"""Who waits for whom, and who may commit beside whom: Hive's rules as tables.

Takes kinds of operations, locks and metastores; gives lock types and yes or no. Must not know how a
lock is asked for; the metastore itself applies these rules, and the tables let us ask for the right
lock, say beforehand what will happen, and check it.

Example:
    >>> lock_type_for(DataOperation.UPDATE)
    <LockType.SHARED_WRITE: 'shared_write'>
    >>> may_share(LockType.SHARED_WRITE, LockType.SHARED_WRITE, MetastoreGeneration.V3)
    False
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import MetastoreVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping


class MetastoreGeneration(enum.Enum):
    """Which family of servers: V3 is Hive 3.1, V4 is Hive 4."""

    V3 = "3"
    V4 = "4"


class DataOperation(enum.Enum):
    """What is done to a table or partition. A MERGE is its clauses' operations."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    OVERWRITE = "overwrite"


class LockType(enum.Enum):
    """How exclusive a lock is; EXCL_WRITE exists on V4 only."""

    SHARED_READ = "shared_read"
    SHARED_WRITE = "shared_write"
    EXCL_WRITE = "excl_write"
    EXCLUSIVE = "exclusive"


class LockLevel(enum.Enum):
    """What is locked; a lock on a whole covers its parts."""

    DB = "db"
    TABLE = "table"
    PARTITION = "partition"


class LockState(enum.Enum):
    """What the metastore answers to a lock request.

    ABORT: its transaction is gone. NOT_ACQUIRED: refused at once, instead of waiting.
    """

    ACQUIRED = "acquired"
    WAITING = "waiting"
    ABORT = "abort"
    NOT_ACQUIRED = "not_acquired"


_R, _W = LockType.SHARED_READ, LockType.SHARED_WRITE
_XW, _X = LockType.EXCL_WRITE, LockType.EXCLUSIVE

# DbTxnManager.acquireLocks of 3.1. On V4 the same locks, and not the EXCL_WRITE for updates that
# hive.txn.xlock.write asks for: updates then queue up, where here the first to commit wins
# (commit_txn checks that when exclWriteEnabled is false). EXCLUSIVE for an overwrite, since an
# insert of Hive's holds SHARED_READ only, and its rows would vanish without a word.
_LOCK_TYPES: Final[Mapping[DataOperation, LockType]] = {
    DataOperation.SELECT: _R,
    DataOperation.INSERT: _R,
    DataOperation.UPDATE: _W,
    DataOperation.DELETE: _W,
    DataOperation.OVERWRITE: _X,
}

# Requested lock -> held locks that it does not wait for (TxnHandler.checkLock; LockTypeComparator).
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

# Pairs of recorded operations on one partition of which only the first may commit (WRITE_SET).
_U, _D = DataOperation.UPDATE, DataOperation.DELETE
_CONFLICTS: Final[Mapping[MetastoreGeneration, frozenset[tuple[DataOperation, DataOperation]]]] = {
    MetastoreGeneration.V3: frozenset({(_U, _U), (_U, _D), (_D, _U)}),
    MetastoreGeneration.V4: frozenset({(_U, _U), (_U, _D), (_D, _U), (_D, _D)}),
}


def lock_type_for(operation: DataOperation) -> LockType:
    """The lock to ask for before doing this to a transactional table; every generation has it."""
    return _LOCK_TYPES[operation]


def may_share(
    requested: LockType,
    held: LockType,
    generation: MetastoreGeneration,
    *,
    requested_level: LockLevel = LockLevel.TABLE,
    held_level: LockLevel = LockLevel.TABLE,
) -> bool:
    """Whether a lock is granted while another transaction holds the other on the same data.

    Reading a database as such goes together with anything done to one of its tables
    (TxnHandler.ignoreConflict).

    Raises:
        MetastoreVersionError: that generation has no such lock.
    """
    table = _COMPATIBLE[generation]
    _known(requested, generation)
    _known(held, generation)
    pair = {(requested, requested_level), (held, held_level)}
    if (_R, LockLevel.DB) in pair and (_X, LockLevel.TABLE) in pair:
        return True
    return held in table[requested]


def recorded_as(operation: DataOperation) -> DataOperation:
    """The operation that the metastore is told: to it an overwrite is an update."""
    return DataOperation.UPDATE if operation is DataOperation.OVERWRITE else operation


def conflict(mine: DataOperation, theirs: DataOperation, generation: MetastoreGeneration) -> bool:
    """Whether my commit fails because the other transaction committed first on the same partition.

    Both ran at the same time: theirs committed after my transaction was opened. On V4 the check is
    made only if commit says that there was no exclusive write lock.
    """
    return (recorded_as(mine), recorded_as(theirs)) in _CONFLICTS[generation]


def _known(lock_type: LockType, generation: MetastoreGeneration) -> None:
    if lock_type not in _COMPATIBLE[generation]:
        raise MetastoreVersionError(
            f"a metastore of Hive {generation.value} has no {lock_type.name} lock; use Hive 4"
        )

"""Conversions: our enum members to and from Thrift's numbers, and Hive's times to seconds.

Example:
    >>> seconds_of(1500), seconds_of(0)
    (1.5, None)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar

from airflow_hiveacid.format.conflicts import DataOperation, LockLevel, LockState, LockType
from airflow_hiveacid.format.server_enum import ServerEnum
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.gen.compaction.ttypes import CompactionType as WireCompactionType
from airflow_hiveacid.metastore.gen.locks.ttypes import DataOperationType
from airflow_hiveacid.metastore.gen.locks.ttypes import LockLevel as WireLockLevel
from airflow_hiveacid.metastore.gen.locks.ttypes import LockState as WireLockState
from airflow_hiveacid.metastore.gen.locks.ttypes import LockType as WireLockType

Struct: TypeAlias = Any
"""A generated struct, or the return value of a generated method: generated code has no types."""

OPERATION_NUMBERS: Final[Mapping[DataOperation | None, int]] = {
    None: DataOperationType.NO_TXN,
    DataOperation.SELECT: DataOperationType.SELECT,
    DataOperation.INSERT: DataOperationType.INSERT,
    DataOperation.UPDATE: DataOperationType.UPDATE,
    DataOperation.DELETE: DataOperationType.DELETE,
    # The metastore treats an overwrite as an update (AcidUtils.makeLockComponents).
    DataOperation.OVERWRITE: DataOperationType.UPDATE,
}
LOCK_TYPE_NUMBERS: Final = {
    LockType.SHARED_READ: WireLockType.SHARED_READ,
    LockType.SHARED_WRITE: WireLockType.SHARED_WRITE,
    LockType.EXCLUSIVE: WireLockType.EXCLUSIVE,
    LockType.EXCL_WRITE: WireLockType.EXCL_WRITE,
}
LOCK_LEVEL_NUMBERS: Final = {
    LockLevel.DB: WireLockLevel.DB,
    LockLevel.TABLE: WireLockLevel.TABLE,
    LockLevel.PARTITION: WireLockLevel.PARTITION,
}
COMPACTION_TYPE_NUMBERS: Final = {
    CompactionType.MINOR: WireCompactionType.MINOR,
    CompactionType.MAJOR: WireCompactionType.MAJOR,
    CompactionType.REBALANCE: WireCompactionType.REBALANCE,
    CompactionType.ABORT_TXN_CLEANUP: WireCompactionType.ABORT_TXN_CLEANUP,
}
LOCK_TYPES: Final = {number: kind for kind, number in LOCK_TYPE_NUMBERS.items()}
LOCK_STATES: Final = {
    WireLockState.ACQUIRED: LockState.ACQUIRED,
    WireLockState.WAITING: LockState.WAITING,
    WireLockState.ABORT: LockState.ABORT,
    WireLockState.NOT_ACQUIRED: LockState.NOT_ACQUIRED,
}
COMPACTION_TYPES: Final = {number: kind for kind, number in COMPACTION_TYPE_NUMBERS.items()}


_Member = TypeVar("_Member", bound=ServerEnum)


def received(
    members: Mapping[int, _Member], kind: type[_Member], number: int | None, *, what: str
) -> _Member:
    """Return the member that a server's number means; an unknown number is shown as it is.

    Raises KeyError if the response lacks the number, although Hive always sends it.
    """
    if number is None:
        raise KeyError(number)
    found = members.get(number)
    return kind.received(f"{what} {number}") if found is None else found


def seconds_of(milliseconds: int | None) -> float | None:
    """Convert Hive's milliseconds since 1970 to seconds; 0 and None become None."""
    return milliseconds / 1000 if milliseconds else None

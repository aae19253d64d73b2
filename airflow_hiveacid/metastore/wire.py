"""Conversions: our enum members to and from Thrift's numbers, times and durations to seconds.

Example:
    >>> seconds_of(1500), seconds_of(0)
    (1.5, None)
    >>> seconds("20000ms", default_unit="s"), seconds("300", default_unit="s")
    (20.0, 300.0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar

from airflow_hiveacid.format import conflicts
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.gen.compaction import ttypes as compaction
from airflow_hiveacid.metastore.gen.locks import ttypes as locks

Struct: TypeAlias = Any
"""A generated struct, or the return value of a generated method: generated code has no types."""

OPERATION_NUMBERS: Final[Mapping[conflicts.DataOperation | None, int]] = {
    None: locks.DataOperationType.NO_TXN,
    conflicts.DataOperation.SELECT: locks.DataOperationType.SELECT,
    conflicts.DataOperation.INSERT: locks.DataOperationType.INSERT,
    conflicts.DataOperation.UPDATE: locks.DataOperationType.UPDATE,
    conflicts.DataOperation.DELETE: locks.DataOperationType.DELETE,
    # The metastore treats an overwrite as an update (AcidUtils.makeLockComponents).
    conflicts.DataOperation.OVERWRITE: locks.DataOperationType.UPDATE,
}
# Members and Thrift's constants have the same names.
LOCK_TYPE_NUMBERS: Final = {kind: getattr(locks.LockType, kind.name) for kind in conflicts.LockType}
LOCK_LEVEL_NUMBERS: Final = {
    level: getattr(locks.LockLevel, level.name) for level in conflicts.LockLevel
}
COMPACTION_TYPE_NUMBERS: Final = {
    kind: getattr(compaction.CompactionType, kind.name) for kind in CompactionType
}
LOCK_TYPES: Final = {number: kind for kind, number in LOCK_TYPE_NUMBERS.items()}
LOCK_STATES: Final = {getattr(locks.LockState, state.name): state for state in conflicts.LockState}
COMPACTION_TYPES: Final = {number: kind for kind, number in COMPACTION_TYPE_NUMBERS.items()}


_Member = TypeVar("_Member", bound=conflicts.ServerEnum)


def received(
    members: Mapping[int, _Member], kind: type[_Member], number: int | None, *, what: str
) -> _Member:
    """Return the member that a server's number means; an unknown number is shown as it is.

    Raises KeyError if the response lacks the number, although Hive always sends it.
    """
    if number is None:
        raise KeyError(number)
    member = members.get(number)
    return kind.received(f"{what} {number}") if member is None else member


def seconds_of(milliseconds: int | None) -> float | None:
    """Convert Hive's milliseconds since 1970 to seconds; 0 and None become None."""
    return milliseconds / 1000 if milliseconds else None


TXN_TIMEOUT_NAMES: Final = ("metastore.txn.timeout", "hive.txn.timeout")
"""The new and the old name of the setting; hive-site.xml may use either."""

DEFAULT_TXN_TIMEOUT: Final = "300s"

_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*\Z")
# MetastoreConf.unitFor of Hive.
_UNITS: Final = {
    1e-9: ("ns", "nsec"),
    1e-6: ("us", "usec"),
    1e-3: ("ms", "msec"),
    1.0: ("s", "sec"),
    60.0: ("m", "min", "minute", "minutes"),
    3600.0: ("h", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
_FACTORS: Final = {name: factor for factor, names in _UNITS.items() for name in names}


def seconds(text: str, *, default_unit: str) -> float:
    """Parse a duration such as `300`, `20s`, `5min` or `20000ms`.

    Raises ConfigurationError if Hive does not accept the value as a duration.
    """
    match = _DURATION.match(text)
    factor = _FACTORS.get((match[2] or default_unit).lower()) if match else None
    if match is None or factor is None:
        raise ConfigurationError(f"the metastore's setting {text!r} is not a duration such as 300s")
    return int(match[1]) * factor

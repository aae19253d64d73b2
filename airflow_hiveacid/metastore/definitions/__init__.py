"""Statements that the metastore itself runs: definitions of tables, and queries of its state.

This module has the metastore call of a definition statement, determined before any lock is taken.

Example:
    >>> Before.from_json(Before(table_id="7.1").to_json())
    Before(table_id='7.1', newest_birth=None)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The state right before a change that an earlier try may have made.

    `table_id` is None if there was no table. `newest_birth` is the newest creation time of the
    partitions to drop, in seconds since 1970.
    """

    table_id: str | None = None
    newest_birth: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"table_id": self.table_id, "newest_birth": self.newest_birth}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`."""
        return cls(table_id=data.get("table_id"), newest_birth=data.get("newest_birth"))

    def is_of(self, table: TableInfo | None) -> bool:
        """Return True if this is the recorded table, not a different table with the same name."""
        return table is not None and table.table_id == self.table_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionOutcome:
    """The result of a statement. `txn_id` is the transaction that held the locks, if any.

    `has_changed` is False for a query, and if the change had already been made.
    """

    has_changed: bool = False
    txn_id: TxnId | None = None
    partitions: tuple[PartitionName, ...] = ()
    rows: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionWork:
    """The call to make under a lock on a table, or on some of its partitions.

    Without `ref`, the call needs no lock, because the metastore makes or refuses the change in one
    step. `partitions` are those that the call creates or drops.
    """

    do: Callable[[], object]
    before: Before
    ref: TableRef | None = None
    lock_type: LockType = LockType.EXCLUSIVE
    locked_partitions: tuple[PartitionName, ...] = ()
    partitions: tuple[PartitionName, ...] = ()

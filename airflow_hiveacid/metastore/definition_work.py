"""What a definition comes to, decided before anything is locked: what to do, or that it is done.

Values between the rules for each statement and who carries them out (`definitions.py`).

Example:
    >>> Before.from_json(Before(table_id="7.1").to_json())
    Before(table_id='7.1', newest_birth=None)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow_hiveacid.format.conflicts import LockType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What there was right before a change that may have happened.

    `table_id` is the table's, None where there was none. Of the partitions that were to go none was
    made after `newest_birth`, in seconds since 1970.
    """

    table_id: str | None = None
    newest_birth: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"table_id": self.table_id, "newest_birth": self.newest_birth}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(table_id=data.get("table_id"), newest_birth=data.get("newest_birth"))

    def is_of(self, table: TableInfo | None) -> bool:
        """Whether the table is the one that there was, and not another with its name."""
        return table is not None and table.table_id == self.table_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a statement came to. `txn_id` is the transaction that held the locks, if one had to.

    `has_changed` False: all was as asked for, by an earlier try or by somebody else; or it was a
    question, whose answer `rows` are.
    """

    has_changed: bool = False
    txn_id: TxnId | None = None
    partitions: tuple[PartitionName, ...] = ()
    rows: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done under a lock on a table, or on some of its partitions.

    `ref` None needs no lock: the metastore does it at once or refuses. `partitions` are those that
    are made or removed, for the result.
    """

    do: Callable[[], object]
    before: Before
    ref: TableRef | None = None
    lock_type: LockType = LockType.EXCLUSIVE
    locked_partitions: tuple[PartitionName, ...] = ()
    partitions: tuple[PartitionName, ...] = ()

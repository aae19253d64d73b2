"""Decides how to restore a partition to a version: with no change, with a delta, or with a base.

Must not read files or rows.

Example:
    >>> RestoredPartition.of(come=1, go=2, stay=1_000_000, is_plain=False).how
    <Way.DELTA: 'delta'>
    >>> RestoredPartition.of(come=0, go=0, stay=7, is_plain=False).how
    <Way.NOTHING: 'nothing'>
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.change_range import ChangeRange
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import DeltaName

_FEW_ROWS: Final = 10_000
_FEW_SHARE: Final = 0.1
_FIRST: Final = WriteId(1)


class Way(enum.Enum):
    """The effect of a restore on one partition.

    DELTA: events delete the rows inserted after the version, and insert those deleted after it.
    BASE: the partition is overwritten with the version's rows, or emptied if there are none.
    """

    NOTHING = "nothing"
    DELTA = "delta"
    BASE = "base"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """The effect of a restore on one partition, with row counts.

    `come` rows are inserted (only the version has them), `go` rows deleted (only the current state
    has them), `stay` rows unchanged. In an insert-only table, rows have no row IDs, so all rows of
    a partition that changes are deleted, and all rows of the version are inserted.
    """

    how: Way
    come: int
    go: int
    stay: int
    partition: str = ""

    @classmethod
    def of(  # noqa: PLR0913 - what was counted, and of what
        cls,
        *,
        come: int,
        go: int,
        stay: int,
        is_plain: bool,
        has_twins: bool = False,
        partition: str = "",
    ) -> Self:
        """Decide how to restore a partition, by the rows to insert, to delete and to keep.

        A few changes are written as a delta, which replaces no files, so the versions in between
        stay readable. Many changes are written as a base, so that readers need not merge events. A
        delta is not possible if rows have no row IDs (`is_plain`), or if several have equal ones,
        so that one delete event would delete all of them (`has_twins`).
        """
        few = max(_FEW_ROWS, _FEW_SHARE * (stay + come))
        if come == go == 0 and not has_twins:
            how = Way.NOTHING
        elif is_plain or has_twins or come + go > few:
            how = Way.BASE
        else:
            how = Way.DELTA
        return cls(how=how, come=come, go=go, stay=stay, partition=partition)


def may_differ(state: AcidState, part: ChangeRange) -> bool:
    """Return true if the visible data of a root may include a write of the range.

    `state` is that at the end of the range. Only directory names decide: a base may include any
    write up to its write ID.
    """

    def first(name: object) -> WriteId:
        return name.low if isinstance(name, DeltaName) else _FIRST

    return any(
        part.count_within(first(directory.name), directory.high) > 0 for directory in state.live
    )

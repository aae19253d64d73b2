"""What one reader may see: valid transactions, valid write IDs per table, and both frozen together.

Takes and gives Hive's own texts; answers whether an ID, or a range of IDs, is visible. Must not
know where the texts come from or which directories exist.

Example:
    >>> ids = ValidWriteIdList.parse("db.t:27:9223372036854775807::24,25")
    >>> ids.is_visible(WriteId(24)), ids.range_visibility(WriteId(23), WriteId(25))
    (False, <RangeVisibility.SOME: 'some'>)
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.id_lists import (
    count_within,
    fields_of,
    holds,
    joined,
    lowest,
    minimum_of,
    number_in,
    numbers_in,
    printed_minimum,
    sorted_disjoint,
)
from airflow_hiveacid.format.ids import LONG_MAX, TxnId, WriteId
from airflow_hiveacid.format.table import TableRef

if TYPE_CHECKING:
    from collections.abc import Mapping

_TXN_FIELDS: Final = 4
_WRITE_ID_FIELDS: Final = 5
_NO_TABLE: Final = "null"


class RangeVisibility(enum.Enum):
    """How much of a range of write IDs is visible (ValidWriteIdList.RangeResponse).

    SOME means that each row must be asked; ALL means that none needs to be.
    """

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidTxnList:
    """The cluster-wide view of one reader; `open` and `aborted` are sorted and disjoint.

    A transaction is visible when it is at most `high_watermark` and neither open nor aborted.
    `min_open` is the lowest open transaction, None when there is none.
    """

    high_watermark: TxnId
    open: tuple[TxnId, ...] = ()
    aborted: tuple[TxnId, ...] = ()
    min_open: TxnId | None = None

    def __post_init__(self) -> None:
        opened, aborted = sorted_disjoint(self.open, self.aborted, what="transaction list")
        object.__setattr__(self, "open", opened)
        object.__setattr__(self, "aborted", aborted)
        object.__setattr__(self, "min_open", lowest(self.min_open, opened))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `hwm:minOpen:open,..:aborted,..`; ranges `a-b` of Hive 4 count as their members.

        The empty text makes everything visible, as in Hive (ValidReadTxnList.readFromString).

        Raises:
            InvalidNameError: the text has another form.
        """
        if not text.strip():
            return cls(high_watermark=TxnId(LONG_MAX))
        fields = fields_of(text, at_least=2, at_most=_TXN_FIELDS, what="transaction list")
        return cls(
            high_watermark=TxnId(number_in(fields[0], text)),
            min_open=minimum_of(TxnId(number_in(fields[1], text))),
            open=tuple(TxnId(i) for i in numbers_in(fields[2], text)),
            aborted=tuple(TxnId(i) for i in numbers_in(fields[3], text)),
        )

    def text(self) -> str:
        """Print Hive's text with plain comma lists, since Hive 3.1 cannot read ranges.

        Example:
            >>> ValidTxnList(high_watermark=TxnId(9), open=(TxnId(4),)).text()
            '9:4:4:'
        """
        minimum = printed_minimum(self.min_open)
        return f"{self.high_watermark}:{minimum}:{joined(self.open, self.aborted)}"

    def is_visible(self, txn_id: TxnId) -> bool:
        """Whether the transaction has committed for this reader."""
        return (
            txn_id <= self.high_watermark
            and not holds(self.open, txn_id)
            and not holds(self.aborted, txn_id)
        )

    def without(self, txn_id: TxnId) -> ValidTxnList:
        """The list in which an open transaction counts as committed."""
        opened = tuple(t for t in self.open if t != txn_id)
        minimum = None if self.min_open == txn_id else self.min_open
        return ValidTxnList(
            high_watermark=self.high_watermark, open=opened, aborted=self.aborted, min_open=minimum
        )

    def is_aborted(self, txn_id: TxnId) -> bool:
        """Whether the reader knows that the transaction was aborted."""
        return holds(self.aborted, txn_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidWriteIdList:
    """The view that one reader has of one table; `open` and `aborted` are sorted and disjoint.

    `table` is None for a list without a table's name. `min_open_write_id` is the lowest open write
    ID, None when there is none; a lower one than the lowest of `open` is kept, as Hive's parser
    does.
    """

    table: TableRef | None
    high_watermark: WriteId
    open: tuple[WriteId, ...] = ()
    aborted: tuple[WriteId, ...] = ()
    min_open_write_id: WriteId | None = None

    def __post_init__(self) -> None:
        opened, aborted = sorted_disjoint(self.open, self.aborted, what="write ID list")
        object.__setattr__(self, "open", opened)
        object.__setattr__(self, "aborted", aborted)
        object.__setattr__(self, "min_open_write_id", lowest(self.min_open_write_id, opened))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `db.table:hwm:minOpen:open,..:aborted,..`; trailing empty fields may be missing.

        The empty text makes everything visible, as in Hive (ValidReaderWriteIdList.readFromString).

        Raises:
            InvalidNameError: the text has another form.
        """
        if not text.strip():
            return cls(table=None, high_watermark=WriteId(LONG_MAX))
        fields = fields_of(text, at_least=3, at_most=_WRITE_ID_FIELDS, what="write ID list")
        return cls(
            table=None if fields[0] == _NO_TABLE else TableRef.parse(fields[0]),
            high_watermark=WriteId(number_in(fields[1], text)),
            min_open_write_id=minimum_of(WriteId(number_in(fields[2], text))),
            open=tuple(WriteId(i) for i in numbers_in(fields[3], text)),
            aborted=tuple(WriteId(i) for i in numbers_in(fields[4], text)),
        )

    def text(self) -> str:
        """Print Hive's text.

        Example:
            >>> ValidWriteIdList(table=TableRef("db", "t"), high_watermark=WriteId(5)).text()
            'db.t:5:9223372036854775807::'
        """
        name = _NO_TABLE if self.table is None else str(self.table)
        minimum = printed_minimum(self.min_open_write_id)
        return f"{name}:{self.high_watermark}:{minimum}:{joined(self.open, self.aborted)}"

    def is_visible(self, write_id: WriteId) -> bool:
        """Whether a row whose current write ID is this one is visible (isWriteIdValid)."""
        return (
            write_id <= self.high_watermark
            and not holds(self.open, write_id)
            and not holds(self.aborted, write_id)
        )

    def is_aborted(self, write_id: WriteId) -> bool:
        """Whether the reader knows that the write was aborted (isWriteIdAborted)."""
        return holds(self.aborted, write_id)

    def is_valid_base(self, write_id: WriteId) -> bool:
        """Whether a compactor's base up to this ID may be read: nothing up to it is open.

        Aborted IDs below do not matter: the compactor has dropped their rows. Strictly below the
        lowest open ID, where Hive 4 also takes the lowest open ID itself (AcidUtils.isValidBase).
        """
        below_open = self.min_open_write_id is None or write_id < self.min_open_write_id
        return below_open and write_id <= self.high_watermark

    def is_resolved(self, low: WriteId, high: WriteId) -> bool:
        """Whether no write ID of low..high (inclusive) is open or unknown to this reader."""
        return high <= self.high_watermark and count_within(self.open, low, high) == 0

    def lowest_open(self, low: WriteId, high: WriteId) -> WriteId | None:
        """The lowest open write ID of low..high (inclusive), or None."""
        at = bisect_left(self.open, low)
        return self.open[at] if at < len(self.open) and self.open[at] <= high else None

    def range_visibility(self, low: WriteId, high: WriteId) -> RangeVisibility:
        """How many of the write IDs low..high (inclusive) are visible (isWriteIdRangeValid).

        Exact, also where Hive answers ALL for a range above the high watermark because its lowest
        exception lies higher still; only NONE or not decides which directories are read.
        """
        return _range_answer(self.visible_within(low, high), high - low + 1)

    def visible_within(self, low: WriteId, high: WriteId) -> int:
        """How many of the write IDs low..high (inclusive) are visible."""
        top = min(high, self.high_watermark)
        hidden = count_within(self.open, low, top) + count_within(self.aborted, low, top)
        return max(0, top - low + 1) - hidden

    def shows_more_than(self, other: ValidWriteIdList) -> bool:
        """Whether it shows a write that another list of the same table does not.

        What the other one knows to be aborted is never committed.
        """
        above = WriteId(other.high_watermark + 1)
        return self.visible_within(above, self.high_watermark) > 0 or any(
            self.is_visible(w) for w in other.open
        )

    def may_hold_commit(self, low: WriteId, high: WriteId) -> bool:
        """Whether a write ID of low..high (inclusive) may be committed by now.

        Unlike `range_visibility` this counts what lies above the watermark: Hive 4.0.1 ends its
        list at the lowest ID that is not committed once it remembers no committed one (see
        docs/adr/0014).
        """
        known = count_within(self.open, low, high) + count_within(self.aborted, low, high)
        return known < high - low + 1

    def range_aborted(self, low: WriteId, high: WriteId) -> RangeVisibility:
        """How many of the write IDs low..high (inclusive) are aborted (isWriteIdRangeAborted)."""
        if self.high_watermark < low:
            return RangeVisibility.NONE
        return _range_answer(count_within(self.aborted, low, high), high - low + 1)

    def with_open(self, write_id: WriteId) -> ValidWriteIdList:
        """The list in which a write ID is open that was asked for as if it were committed."""
        return ValidWriteIdList(
            table=self.table,
            high_watermark=max(self.high_watermark, write_id),
            open=(*self.open, write_id),
            aborted=self.aborted,
            min_open_write_id=self.min_open_write_id,
        )

    def with_own(self, write_id: WriteId) -> ValidWriteIdList:
        """The list in which our own write is visible too, for a transaction reading what it wrote.

        IDs between the old high watermark and ours belong to others and were not yet known when the
        list was taken; they become open ones, or raising the watermark would reveal them.
        """
        between = range(self.high_watermark + 1, write_id)
        opened = (*(w for w in self.open if w != write_id), *map(WriteId, between))
        minimum = self.min_open_write_id
        return ValidWriteIdList(
            table=self.table,
            high_watermark=max(self.high_watermark, write_id),
            open=opened,
            aborted=tuple(w for w in self.aborted if w != write_id),
            min_open_write_id=None if minimum == write_id else minimum,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorWriteIdList(ValidWriteIdList):
    """What a compactor may touch: all below the lowest open write ID; exceptions are aborted.

    `high_watermark` is then the highest write ID that a compaction may cover.
    """

    @classmethod
    def of(cls, write_ids: ValidWriteIdList) -> Self:
        """Cut a reader's list below its lowest open write ID (createValidCompactWriteIdList).

        A list that is cut already is itself: there may be a million IDs in it.
        """
        if isinstance(write_ids, cls):
            return write_ids
        minimum = write_ids.min_open_write_id
        high = write_ids.high_watermark
        if minimum is not None:
            high = min(high, WriteId(minimum - 1))
        return cls(
            table=write_ids.table,
            high_watermark=high,
            aborted=tuple(w for w in write_ids.aborted if w <= high),
        )

    def range_visibility(self, low: WriteId, high: WriteId) -> RangeVisibility:
        """NONE unless the whole range is resolved; SOME when rows of aborted IDs must be dropped.

        Hive answers ALL for the latter (ValidCompactorWriteIdList); both mean that the range is
        read.
        """
        if high > self.high_watermark:
            return RangeVisibility.NONE
        has_aborted = count_within(self.aborted, low, high) > 0
        return RangeVisibility.SOME if has_aborted else RangeVisibility.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one job may see, taken once: transactions, and one write ID list per table.

    `txn_id` is the reader's own transaction, None for a reader without one.
    """

    txn_id: TxnId | None
    txns: ValidTxnList
    tables: Mapping[TableRef, ValidWriteIdList]

    def for_compactor(self) -> Snapshot:
        """The same, with what a compactor may touch of each table."""
        tables = {ref: CompactorWriteIdList.of(ids) for ref, ids in self.tables.items()}
        return Snapshot(txn_id=self.txn_id, txns=self.txns, tables=tables)

    def write_ids(self, table: TableRef) -> ValidWriteIdList:
        """The list of one table.

        Raises:
            InvalidNameError: the snapshot was taken without this table.
        """
        try:
            return self.tables[table]
        except KeyError:
            known = ", ".join(map(str, self.tables)) or "none"
            raise InvalidNameError(
                name=str(table), what=f"table of this snapshot, which covers {known}"
            ) from None


def _range_answer(count: int, size: int) -> RangeVisibility:
    if count == 0:
        return RangeVisibility.NONE
    return RangeVisibility.ALL if count == size else RangeVisibility.SOME

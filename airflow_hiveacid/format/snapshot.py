"""The snapshot of one reader: visible transactions, and visible write IDs of each table.

Example:
    >>> ids = ValidWriteIdList.parse("db.t:27:9223372036854775807::24,25")
    >>> ids.is_visible(WriteId(24)), ids.range_visibility(WriteId(23), WriteId(25))
    (False, <RangeVisibility.SOME: 'some'>)
"""

from __future__ import annotations

import dataclasses
import enum
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX, TxnId, WriteId
from airflow_hiveacid.format.table import TableRef

_TXN_FIELDS: Final = 4
_WRITE_ID_FIELDS: Final = 5
_NO_TABLE: Final = "null"
# The most IDs in the ranges of a string; more are no valid snapshot, and exhaust the memory.
_MOST_IDS: Final = 4_000_000
_MOST_DIGITS: Final = len(str(LONG_MAX))
_ONLY_NUMBERS: Final = re.compile(rf"[0-9]{{1,{_MOST_DIGITS}}}(?:,[0-9]{{1,{_MOST_DIGITS}}})*")

_Id = TypeVar("_Id", bound=int)


class RangeVisibility(enum.Enum):
    """How many write IDs of a range are visible (RangeResponse); SOME: check each row."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidTxnList:
    """The transactions that are visible to a reader; `open` and `aborted` are sorted and disjoint.

    Visible is what is at most `high_watermark`, not open and not aborted.
    """

    high_watermark: TxnId
    open: tuple[TxnId, ...] = ()
    aborted: tuple[TxnId, ...] = ()
    min_open: TxnId | None = None

    def __post_init__(self) -> None:
        opened, aborted = _sorted_disjoint(self.open, self.aborted, what="transaction list")
        object.__setattr__(self, "open", opened)
        object.__setattr__(self, "aborted", aborted)
        object.__setattr__(self, "min_open", _lowest(self.min_open, opened))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `hwm:minOpen:open,..:aborted,..`; Hive 4 may write several IDs as `a-b`.

        As in Hive, an empty string means that everything is visible
        (ValidReadTxnList.readFromString).
        """
        if not text.strip():
            return cls(high_watermark=TxnId(LONG_MAX))
        fields = _fields_of(text, at_least=2, at_most=_TXN_FIELDS, what="transaction list")
        return cls(
            high_watermark=TxnId(_number_in(fields[0], text)),
            min_open=_minimum_of(TxnId(_number_in(fields[1], text))),
            open=tuple(TxnId(i) for i in _numbers_in(fields[2], text)),
            aborted=tuple(TxnId(i) for i in _numbers_in(fields[3], text)),
        )

    def text(self) -> str:
        """Return Hive's string form without ranges of IDs, because Hive 3.1 cannot parse ranges.

        Example:
            >>> ValidTxnList(high_watermark=TxnId(9), open=(TxnId(4),)).text()
            '9:4:4:'
        """
        return f"{self.high_watermark}:{_joined(self.min_open, self.open, self.aborted)}"

    def is_visible(self, txn_id: TxnId) -> bool:
        """Return whether the transaction is committed according to this list."""
        return (
            txn_id <= self.high_watermark
            and not _holds(self.open, txn_id)
            and not _holds(self.aborted, txn_id)
        )

    def without(self, txn_id: TxnId) -> ValidTxnList:
        """Return a copy in which the open transaction `txn_id` is committed."""
        opened = tuple(t for t in self.open if t != txn_id)
        minimum = None if self.min_open == txn_id else self.min_open
        return dataclasses.replace(self, open=opened, min_open=minimum)

    def is_aborted(self, txn_id: TxnId) -> bool:
        """Return whether the transaction is aborted in this list."""
        return _holds(self.aborted, txn_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidWriteIdList:
    """A table's write IDs that are visible to a reader.

    `open` and `aborted` are sorted and disjoint. `table` is None if the list does not name its
    table. As Hive's parser, this class accepts a `min_open_write_id` below every ID in `open`.
    """

    table: TableRef | None
    high_watermark: WriteId
    open: tuple[WriteId, ...] = ()
    aborted: tuple[WriteId, ...] = ()
    min_open_write_id: WriteId | None = None

    def __post_init__(self) -> None:
        opened, aborted = _sorted_disjoint(self.open, self.aborted, what="write ID list")
        object.__setattr__(self, "open", opened)
        object.__setattr__(self, "aborted", aborted)
        object.__setattr__(self, "min_open_write_id", _lowest(self.min_open_write_id, opened))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `db.table:hwm:minOpen:open,..:aborted,..`; trailing empty fields may be missing.

        As in Hive, an empty string means that everything is visible
        (ValidReaderWriteIdList.readFromString).
        """
        if not text.strip():
            return cls(table=None, high_watermark=WriteId(LONG_MAX))
        fields = _fields_of(text, at_least=3, at_most=_WRITE_ID_FIELDS, what="write ID list")
        return cls(
            table=None if fields[0] == _NO_TABLE else TableRef.parse(fields[0]),
            high_watermark=WriteId(_number_in(fields[1], text)),
            min_open_write_id=_minimum_of(WriteId(_number_in(fields[2], text))),
            open=tuple(WriteId(i) for i in _numbers_in(fields[3], text)),
            aborted=tuple(WriteId(i) for i in _numbers_in(fields[4], text)),
        )

    def text(self) -> str:
        """Return Hive's string form.

        Example:
            >>> ValidWriteIdList(table=TableRef("db", "t"), high_watermark=WriteId(5)).text()
            'db.t:5:9223372036854775807::'
        """
        name = _NO_TABLE if self.table is None else str(self.table)
        ids = _joined(self.min_open_write_id, self.open, self.aborted)
        return f"{name}:{self.high_watermark}:{ids}"

    def is_visible(self, write_id: WriteId) -> bool:
        """Return whether rows with this current write ID are visible (isWriteIdValid)."""
        return (
            write_id <= self.high_watermark
            and not _holds(self.open, write_id)
            and not _holds(self.aborted, write_id)
        )

    def is_aborted(self, write_id: WriteId) -> bool:
        """Return whether this list contains the write as aborted (isWriteIdAborted)."""
        return _holds(self.aborted, write_id)

    def is_valid_base(self, write_id: WriteId) -> bool:
        """Return whether a compactor's base with this write ID is readable: no lower ID is open.

        Lower ones may be aborted, because the compactor has dropped their rows. The lowest open
        write ID itself, which Hive 4 also accepts (AcidUtils.isValidBase), is not.
        """
        below_open = self.min_open_write_id is None or write_id < self.min_open_write_id
        return below_open and write_id <= self.high_watermark

    def is_resolved(self, low: WriteId, high: WriteId) -> bool:
        """Return whether no write ID of low..high (inclusive) is open or above the watermark."""
        return high <= self.high_watermark and _count_within(self.open, low, high) == 0

    def lowest_open(self, low: WriteId, high: WriteId) -> WriteId | None:
        """Return the lowest open write ID of low..high (inclusive), or None."""
        index = bisect_left(self.open, low)
        return self.open[index] if index < len(self.open) and self.open[index] <= high else None

    def range_visibility(self, low: WriteId, high: WriteId) -> RangeVisibility:
        """Return whether all, some or none of low..high (inclusive) are visible.

        Unlike Hive's isWriteIdRangeValid, the result is exact: above the high watermark, Hive may
        return ALL. The choice of directories depends only on NONE, so it is not affected.
        """
        return _range_answer(self.visible_within(low, high), high - low + 1)

    def visible_within(self, low: WriteId, high: WriteId) -> int:
        """Return how many of the write IDs low..high (inclusive) are visible."""
        top = min(high, self.high_watermark)
        hidden = _count_within(self.open, low, top) + _count_within(self.aborted, low, top)
        return max(0, top - low + 1) - hidden

    def aborted_within(self, low: WriteId, high: WriteId) -> int:
        """Return how many of the write IDs low..high (inclusive) are aborted."""
        return _count_within(self.aborted, low, high)

    def shows_more_than(self, other: ValidWriteIdList) -> bool:
        """Return whether a write is visible in this list but not in the same table's `other`."""
        next_id = WriteId(other.high_watermark + 1)
        return self.visible_within(next_id, self.high_watermark) > 0 or any(
            self.is_visible(w) for w in other.open
        )

    def may_hold_commit(self, low: WriteId, high: WriteId) -> bool:
        """Return whether a write ID of low..high (inclusive) may have been committed by now.

        Unlike `range_visibility`, this includes IDs above the watermark: if Hive 4.0.1 has no
        record of a committed write ID, its list ends at the lowest uncommitted one
        (docs/decisions/reading.md).
        """
        exceptions = _count_within(self.open, low, high) + _count_within(self.aborted, low, high)
        return exceptions < high - low + 1

    def range_aborted(self, low: WriteId, high: WriteId) -> RangeVisibility:
        """Return whether all, some or none of low..high (inclusive) are aborted, as in Hive."""
        if self.high_watermark < low:
            return RangeVisibility.NONE
        return _range_answer(_count_within(self.aborted, low, high), high - low + 1)

    def with_open(self, write_id: WriteId) -> ValidWriteIdList:
        """Return a copy in which our write ID is open; in the server's list, it is committed."""
        high_watermark = max(self.high_watermark, write_id)
        return dataclasses.replace(self, high_watermark=high_watermark, open=(*self.open, write_id))

    def with_own(self, write_id: WriteId) -> ValidWriteIdList:
        """Return a copy in which the reader's own write is visible.

        IDs between the old high watermark and our write ID belong to other writers, and are open in
        the copy; otherwise, the higher watermark would make them visible.
        """
        gap = range(self.high_watermark + 1, write_id)
        opened = (*(w for w in self.open if w != write_id), *map(WriteId, gap))
        minimum = self.min_open_write_id
        return dataclasses.replace(
            self,
            high_watermark=max(self.high_watermark, write_id),
            open=opened,
            aborted=tuple(w for w in self.aborted if w != write_id),
            min_open_write_id=None if minimum == write_id else minimum,
        )


def up_to(write_ids: ValidWriteIdList, write_id: WriteId) -> ValidWriteIdList:
    """Return a copy of a write ID list without the write IDs above `write_id`."""
    high = min(write_ids.high_watermark, write_id)
    return ValidWriteIdList(
        table=write_ids.table,
        high_watermark=high,
        open=tuple(w for w in write_ids.open if w <= high),
        aborted=tuple(w for w in write_ids.aborted if w <= high),
    )


def settled(write_ids: ValidWriteIdList) -> WriteId:
    """Return the highest version that can no longer change: no write ID up to it is open."""
    lowest_open = write_ids.min_open_write_id
    high = write_ids.high_watermark
    return high if lowest_open is None else min(high, WriteId(lowest_open - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorWriteIdList(ValidWriteIdList):
    """The write IDs that a compactor can process: all below the lowest open one."""

    @classmethod
    def of(cls, write_ids: ValidWriteIdList) -> Self:
        """Cut a reader's list below its lowest open write ID.

        As in Hive's createValidCompactWriteIdList. A compactor's list is not copied, because it may
        contain a million IDs.
        """
        if isinstance(write_ids, cls):
            return write_ids
        cut = up_to(write_ids, settled(write_ids))
        return cls(table=cut.table, high_watermark=cut.high_watermark, aborted=cut.aborted)

    def range_visibility(self, low: WriteId, high: WriteId) -> RangeVisibility:
        """Return NONE if an ID is unresolved, else SOME if an ID is aborted, else ALL.

        SOME means that the compactor drops the rows of aborted IDs, where Hive's class
        ValidCompactorWriteIdList returns ALL. For both, the compactor reads the range.
        """
        if high > self.high_watermark:
            return RangeVisibility.NONE
        has_aborted = _count_within(self.aborted, low, high) > 0
        return RangeVisibility.SOME if has_aborted else RangeVisibility.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A job's view: transactions, write IDs of each table, and its own transaction, if any."""

    txn_id: TxnId | None
    txns: ValidTxnList
    tables: Mapping[TableRef, ValidWriteIdList]

    def for_compactor(self) -> Snapshot:
        """Return a copy whose write ID lists contain only what a compactor can process."""
        tables = {ref: CompactorWriteIdList.of(ids) for ref, ids in self.tables.items()}
        return Snapshot(txn_id=self.txn_id, txns=self.txns, tables=tables)

    def write_ids(self, table: TableRef) -> ValidWriteIdList:
        """Return the write ID list of one table. Raises InvalidNameError if there is none."""
        try:
            return self.tables[table]
        except KeyError:
            table_names = ", ".join(map(str, self.tables)) or "none"
            raise InvalidNameError(
                name=str(table), what=f"table of this snapshot, which covers {table_names}"
            ) from None


def _range_answer(count: int, size: int) -> RangeVisibility:
    if count == 0:
        return RangeVisibility.NONE
    return RangeVisibility.ALL if count == size else RangeVisibility.SOME


def _sorted_disjoint(
    opened: Iterable[int], aborted: Iterable[int], *, what: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first, second = tuple(sorted(set(opened))), tuple(sorted(set(aborted)))
    both = set(first).intersection(second)
    if both:
        raise InvalidNameError(name=str(sorted(both)), what=f"{what}: open and aborted at once")
    return first, second


def _lowest(given: int | None, opened: tuple[int, ...]) -> int | None:
    candidates = [*opened[:1], *([] if given is None else [given])]
    return min(candidates, default=None)


def _holds(ids: tuple[int, ...], wanted: int) -> bool:
    index = bisect_left(ids, wanted)
    return index < len(ids) and ids[index] == wanted


def _count_within(ids: tuple[int, ...], low: int, high: int) -> int:
    return max(0, bisect_right(ids, high) - bisect_left(ids, low))


def _fields_of(text: str, *, at_least: int, at_most: int, what: str) -> list[str]:
    fields = [field.strip() for field in text.strip().split(":")]
    if not at_least <= len(fields) <= at_most:
        raise InvalidNameError(name=text, what=f"{what} ({at_least} to {at_most} fields)")
    return fields + [""] * (at_most - len(fields))


def _number_in(field: str, text: str) -> int:
    """Parse a field that contains one ID of at most 64 bits, or raise InvalidNameError."""
    is_number = field.isascii() and field.isdigit() and len(field) <= _MOST_DIGITS
    if not is_number or int(field) > LONG_MAX:
        raise InvalidNameError(name=text, what=f"list of IDs ({field!r} is not a number)")
    return int(field)


def _numbers_in(field: str, text: str) -> list[int]:
    """Parse a field that lists IDs; Hive 4 may write several IDs as a range `a-b`."""
    # A fast path for fields without ranges: a metastore may list a million single aborted IDs.
    if field.count(",") < _MOST_IDS and _ONLY_NUMBERS.fullmatch(field):
        numbers = list(map(int, field.split(",")))
        _number_in(str(max(numbers)), text)
        return numbers
    ids: list[int] = []
    for item in field.split(",") if field else ():
        low, dash, high = item.partition("-")
        first = _number_in(low.strip(), text)
        last = _number_in(high.strip(), text) if dash else first
        if not 0 <= last - first < _MOST_IDS - len(ids):
            raise InvalidNameError(name=text, what=f"list of IDs (range {item!r})")
        ids.extend(range(first, last + 1))
    return ids


def _minimum_of(value: _Id) -> _Id | None:
    """Return a parsed minimum; return None for Long.MAX_VALUE, which means "no open ID"."""
    return None if value == LONG_MAX else value


def _joined(minimum: int | None, opened: tuple[int, ...], aborted: tuple[int, ...]) -> str:
    """Return the end of a list so that Hive 3.1 and Hive 4 can parse it."""
    least = LONG_MAX if minimum is None else minimum  # as Hive prints "no open ID"
    return f"{least}:{','.join(map(str, opened))}:{','.join(map(str, aborted))}"

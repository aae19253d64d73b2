"""Sort, split and search row identities as whole columns, without a loop over rows.

A row's identity is (original write ID, bucket property, row ID). The three are compared as signed
integers in this order (Hive's RecordIdentifier.compareToInternal). Every ACID file is sorted by row
identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.ids import LONG_MAX
from airflow_hiveacid.storage.acid import CURRENT_WRITE_ID, IDENTITY_COLUMNS

Key = tuple[int, int, int]
"""(original write ID, bucket property, row ID) of one row; tuples and rows have the same order."""

INT_MIN: Final = -(1 << 31)
LONG_MIN: Final = -(1 << 63)


def least_key(write_id: int) -> Key:
    """Return the smallest possible identity with this original write ID."""
    return write_id, INT_MIN, LONG_MIN


Mask = npt.NDArray[np.bool_]
_Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The row identities of one batch, in batch order, as three arrays of equal length."""

    original: _Ints
    bucket: _Ints
    row: _Ints

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Keys:
        """Return the identity columns of a batch without copying; they must contain no NULL."""
        return cls(*(_column(batch, name) for name in IDENTITY_COLUMNS))

    def __len__(self) -> int:
        return len(self.row)

    def at(self, index: int) -> Key:
        """Return the identity of one row; a negative index counts from the end."""
        return int(self.original[index]), int(self.bucket[index]), int(self.row[index])

    def part(self, start: int, stop: int) -> Keys:
        """Return the identities of rows start..stop-1."""
        return Keys(self.original[start:stop], self.bucket[start:stop], self.row[start:stop])

    def is_sorted(self) -> bool:
        """Return True if no row is smaller than the previous row."""
        return self.first_out_of_order() is None

    def first_out_of_order(self, *, strictly: bool = False) -> int | None:
        """Return the index of the first row out of order (`strictly`: or equal), or None."""
        if self.is_one_run() and (self.row[1:] > self.row[:-1]).all():
            return None  # a stripe of one write; the general case below takes five times as long
        step = _step(self.original)
        for column in (self.bucket, self.row):
            step = np.where(step == 0, _step(column), step)
        wrong = step <= 0 if strictly else step < 0
        return int(np.argmax(wrong)) + 1 if wrong.any() else None

    def order(self) -> npt.NDArray[np.intp]:
        """Return the indices that sort the rows; equal rows keep their order."""
        return np.lexsort((self.row, self.bucket, self.original))

    def count_below(self, key: Key) -> int:
        """Return the number of rows that are smaller than the key. The rows must be sorted."""
        return self._cut(key, "left")

    def count_up_to(self, key: Key) -> int:
        """Return the number of rows that are not greater than the key. The rows must be sorted."""
        return self._cut(key, "right")

    def _cut(self, key: Key, side: str) -> int:
        start, stop = 0, len(self)
        # Narrow to the rows with the key's write ID, then to those with its bucket property.
        for column, value in zip((self.original, self.bucket), key[:2], strict=True):
            part = column[start:stop]
            start, stop = (
                start + int(np.searchsorted(part, value, "left")),
                start + int(np.searchsorted(part, value, "right")),
            )
        index = np.searchsorted(self.row[start:stop], key[2], "left" if side == "left" else "right")
        return start + int(index)

    def found_in(self, others: Keys) -> Mask:
        """Return a mask of the rows that are also in `others`; both `Keys` must be sorted."""
        mask = np.zeros(len(self), dtype=np.bool_)
        if not len(self) or not len(others):
            return mask
        # Loop over runs with the same (write ID, bucket), not over rows: 64 K rows take 0.3 ms.
        runs = {others.at(start)[:2]: (start, stop) for start, stop in others.runs()}
        for start, stop in self.runs():
            run = runs.get(self.at(start)[:2])
            if run is not None:
                mask[start:stop] = found_in_sorted(
                    self.row[start:stop], others.row[run[0] : run[1]]
                )
        return mask

    def positions_of(self, others: Keys) -> npt.NDArray[np.intp]:
        """Return the positions of the rows that are also in `others`, in ascending order.

        Both are sorted, and `others` has no duplicates. Each row of `others` is looked up, which is
        faster than `found_in` if they are few.
        """
        positions: list[npt.NDArray[np.intp]] = [np.empty(0, dtype=np.intp)]
        if len(self) and len(others):
            subset = others.part(others.count_below(self.at(0)), others.count_up_to(self.at(-1)))
            for start, stop in subset.runs():
                write_id, bucket, _ = subset.at(start)
                low = self.count_below((write_id, bucket, LONG_MIN))
                rows = self.row[low : self.count_up_to((write_id, bucket, LONG_MAX))]
                row_ids = subset.row[start:stop]
                offsets = np.searchsorted(rows, row_ids, "left")
                count = np.searchsorted(rows, row_ids, "right") - offsets
                if (count > 1).any():  # a valid file contains each row only once
                    return np.flatnonzero(self.found_in(others))
                positions.append(low + offsets[count == 1])
        return np.concatenate(positions)

    def repeats(self) -> Mask:
        """Return a mask of the rows that equal the previous row; False for the first row."""
        mask = np.zeros(len(self), dtype=np.bool_)
        if len(self) > 1:
            mask[1:] = (
                (self.row[1:] == self.row[:-1])
                & (self.bucket[1:] == self.bucket[:-1])
                & (self.original[1:] == self.original[:-1])
            )
        return mask

    def is_one_run(self) -> bool:
        """Return True if all rows have the same original write ID and the same bucket property."""
        return all(
            not len(column) or bool(column[0] == column[-1] and (column == column[0]).all())
            for column in (self.original, self.bucket)
        )

    def runs(self) -> list[tuple[int, int]]:
        """Return the half-open ranges of rows with equal original write ID and bucket property."""
        if not len(self):
            return []
        change = (self.original[1:] != self.original[:-1]) | (self.bucket[1:] != self.bucket[:-1])
        starts = [0, *(np.flatnonzero(change) + 1).tolist()]
        return list(zip(starts, [*starts[1:], len(self)], strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The row identities above `after`, up to and including `up_to`; None means no limit."""

    after: Key | None = None
    up_to: Key | None = None

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a sorted batch that are in the range."""
        keys = Keys.of(batch)
        start = 0 if self.after is None else keys.count_up_to(self.after)
        stop = len(keys) if self.up_to is None else keys.count_up_to(self.up_to)
        return batch.slice(start, stop - start)

    def contains(self, first: Key, last: Key) -> bool:
        """Return whether all identities from `first` to `last` are in the range."""
        return (self.after is None or self.after < first) and (
            self.up_to is None or last <= self.up_to
        )

    def may_contain_some(self, first: Key, last: Key) -> bool:
        """Return whether an identity from `first` to `last` may be in the range."""
        return (self.after is None or self.after < last) and (
            self.up_to is None or first <= self.up_to
        )


EVERY_KEY: Final = KeyRange()


def current_write_ids(batch: pa.RecordBatch) -> _Ints:
    """Return the current write ID of each event, without a copy; the column must have no NULL."""
    return _column(batch, CURRENT_WRITE_ID)


def _column(batch: pa.RecordBatch, name: str) -> _Ints:
    column: _Ints = batch.column(name).to_numpy(zero_copy_only=True)
    return column


def _step(column: _Ints) -> npt.NDArray[np.int8]:
    # 1 if the next value is greater, 0 if equal, -1 if less; a subtraction could overflow.
    up: npt.NDArray[np.int8] = (column[1:] > column[:-1]).astype(np.int8)
    return up - (column[1:] < column[:-1]).astype(np.int8)


def found_in_sorted(rows: _Ints, others: _Ints) -> Mask:
    """Return a mask of the `rows` that are in `others`; `others` must be sorted and not empty."""
    positions = np.searchsorted(others, rows)
    inside = positions < len(others)
    mask: Mask = inside & (others[np.where(inside, positions, 0)] == rows)
    return mask

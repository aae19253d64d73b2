"""Sorted streams of events made into one: merge, take deletes out, hide what nobody may see.

Takes and gives iterators of Arrow batches sorted ascending by row identity; whatever other columns
they have travel along. Holds one batch of every stream that is open at a time, or as many small
ones as make a batch of four thousand rows. Must not know files.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.storage.acid.identity import (
    LONG_MIN,
    Key,
    Keys,
    Mask,
    current_write_ids,
    found_in_sorted,
    least_key,
)
from airflow_hiveacid.storage.acid.row_schema import CURRENT_WRITE_ID

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidWriteIdList

Batches = Iterator[pa.RecordBatch]
_NO_BOUND: Final = least_key(LONG_MIN)


# A stream's next rows are looked for until there are so many, so that short ones end at once.
_SHORT_ROWS: Final = 4096
_SHORT_BYTES: Final = 1 << 20
# Each step looks at every open stream; of more than these, groups are merged, and then the groups.
_MOST_AT_ONCE: Final = 64

_Part = tuple[pa.RecordBatch, Keys]


class _Head:
    """The unread rest of what one stream has given. Mutable: it moves through the stream."""

    def __init__(self, stream: Batches) -> None:
        self._stream = stream
        self.batch: pa.RecordBatch
        self.keys: Keys
        self.is_open = True
        self.is_last = False
        self._fill()

    def _fill(self) -> None:
        found: list[pa.RecordBatch] = []
        rows = size = 0
        self.is_last = True
        for batch in self._stream:
            if batch.num_rows:
                found.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _SHORT_ROWS or size >= _SHORT_BYTES:
                self.is_last = False
                break
        self.is_open = bool(found)
        if found:
            self.batch = found[0] if len(found) == 1 else pa.concat_batches(found)
            self.keys = Keys.of(self.batch)

    @property
    def first(self) -> Key:
        return self.keys.at(0)

    @property
    def last(self) -> Key:
        return self.keys.at(-1)

    def take(self, count: int) -> _Part:
        """The next rows, at most all that are in hand."""
        taken = self.batch.slice(0, count), self.keys.part(0, count)
        if count == len(self.keys):
            self._fill()
        else:
            self.batch = self.batch.slice(count)
            self.keys = self.keys.part(count, len(self.keys))
        return taken


def merge_sorted(streams: Sequence[Batches], lower_bounds: Sequence[Key] | None = None) -> Batches:
    """Merge sorted streams of one schema into one sorted stream; equal rows come in any order.

    Each step takes, of every open stream, what is not greater than the smallest last row in hand,
    and sorts only that: nothing is compared row by row, and a stretch that one stream has to
    itself passes through untouched. Streams that are short are in hand as a whole and hold nothing
    up: many of them are put together and sorted once.

    Args:
        streams: the inputs, each sorted ascending by identity.
        lower_bounds: for each stream a key that none of its rows is smaller than. A stream is not
            opened before the merge has come that far, so files of disjoint ranges are read in turn.
    """
    bounds = [_NO_BOUND] * len(streams) if lower_bounds is None else lower_bounds
    waiting = sorted(zip(bounds, streams, strict=True), key=lambda one: one[0])
    while len(waiting) > _MOST_AT_ONCE:
        groups = [waiting[at : at + _MOST_AT_ONCE] for at in range(0, len(waiting), _MOST_AT_ONCE)]
        waiting = [(group[0][0], _merged(group)) for group in groups]
    return _merged(waiting)


def _merged(streams: Sequence[tuple[Key, Batches]]) -> Batches:
    """Merge streams that come in the order of their lower bounds."""
    waiting = list(reversed(streams))
    heads: list[_Head] = []
    while waiting or heads:
        following = waiting[-1][0] if waiting else None
        limit = min((head.last for head in heads if not head.is_last), default=None)
        if following is None or (limit is not None and limit < following):
            counts = [len(h.keys) if limit is None else h.keys.count_up_to(limit) for h in heads]
        elif any(head.first < following for head in heads):
            counts = [head.keys.count_below(following) for head in heads]
        else:
            while waiting and waiting[-1][0] == following:
                heads.append(_Head(waiting.pop()[1]))
            heads = [head for head in heads if head.is_open]
            continue
        parts = [head.take(count) for head, count in zip(heads, counts, strict=True) if count]
        heads = [head for head in heads if head.is_open]
        yield from _sorted_together(parts)


def _sorted_together(parts: Sequence[_Part]) -> Batches:
    """One sorted batch of parts whose ranges overlap; other parts as they are, in order."""
    run: list[pa.RecordBatch] = []
    reached: Key | None = None
    for batch, keys in sorted(parts, key=lambda part: part[1].at(0)):
        if reached is not None and keys.at(0) >= reached:
            yield _sorted_run(run)
            run, reached = [], None
        run.append(batch)
        reached = keys.at(-1) if reached is None else max(reached, keys.at(-1))
    if run:
        yield _sorted_run(run)


def _sorted_run(run: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(run) == 1:
        return run[0]
    together = pa.concat_batches(run)
    return together.take(pa.array(Keys.of(together).order()))


def subtract_deletes(inserts: Batches, deletes: Batches) -> Batches:
    """Drop every row that has a delete event, whichever transaction either is of.

    Both streams must be sorted by identity, and so is the result. Delete events without a row pass
    unnoticed. Batches that lose all rows are left out.
    """
    tomb: tuple[Keys, Key] | None = _next_keys(deletes)
    for batch in inserts:
        if not batch.num_rows:
            continue
        keys = Keys.of(batch)
        last = keys.at(-1)
        killed: Mask | None = None
        while tomb is not None and tomb[0].at(0) <= last:
            found = keys.found_in(tomb[0])
            killed = found if killed is None else killed | found
            if tomb[1] >= last:
                break
            tomb = _next_keys(deletes)
        kept = batch if killed is None or not killed.any() else _keep(batch, ~killed)
        if kept.num_rows:
            yield kept


def _next_keys(stream: Batches) -> tuple[Keys, Key] | None:
    for batch in stream:
        if batch.num_rows:
            keys = Keys.of(batch)
            return keys, keys.at(-1)
    return None


def visible_events(stream: Iterable[pa.RecordBatch], write_ids: ValidWriteIdList) -> Batches:
    """Keep the events whose own (current) write ID the reader may see; order and batches stay.

    This is asked of rows and of delete events alike (OrcRawRecordMerger.next of Hive): one file may
    hold events of several write IDs. Batches that lose all rows are left out.
    """
    for batch in stream:
        visible = visible_mask(current_write_ids(batch), write_ids)
        kept = batch if visible.all() else _keep(batch, visible)
        if kept.num_rows:
            yield kept


def visible_mask(ids: npt.NDArray[np.integer], write_ids: ValidWriteIdList) -> Mask:
    """Which of these write IDs the reader may see."""
    visible: Mask = ids <= write_ids.high_watermark
    hidden = exceptions(write_ids)
    if len(ids) and len(hidden):
        start = np.searchsorted(hidden, ids.min(), "left")
        stop = np.searchsorted(hidden, ids.max(), "right")
        if start < stop:
            visible &= ~found_in_sorted(ids, hidden[start:stop])
    return visible


def exceptions(write_ids: ValidWriteIdList) -> npt.NDArray[np.int64]:
    """The open and aborted write IDs, ascending. Made once for a list: there may be a million."""
    return _exceptions(_Same(write_ids))


class _Same:
    """A list as a key, equal to no other; to compare two takes as long as they are."""

    def __init__(self, write_ids: ValidWriteIdList) -> None:
        self.write_ids = write_ids

    def __hash__(self) -> int:
        return id(self.write_ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.write_ids is self.write_ids


@functools.lru_cache(maxsize=2)
def _exceptions(key: _Same) -> npt.NDArray[np.int64]:
    opened, aborted = key.write_ids.open, key.write_ids.aborted
    found = np.empty(len(opened) + len(aborted), dtype=np.int64)
    found[: len(opened)], found[len(opened) :] = opened, aborted
    found.sort()
    return found


def unique_deletes(stream: Batches) -> Batches:
    """Keep one delete event of each row: the one with the lowest current write ID.

    That is the one which every snapshot that sees any of them sees. Two delete events of one row
    make other readers lose a whole file ("Two readers for" in OrcRawRecordMerger). The stream must
    be sorted by identity, and so is the result.
    """
    held: pa.RecordBatch | None = None
    for batch in stream:
        if not batch.num_rows:
            continue
        together = batch if held is None else pa.concat_batches([held, batch])
        unique = _unique(together)
        held = unique.slice(unique.num_rows - 1)
        if unique.num_rows > 1:
            yield unique.slice(0, unique.num_rows - 1)
    if held is not None:
        yield held


def _unique(batch: pa.RecordBatch) -> pa.RecordBatch:
    repeats = Keys.of(batch).repeats()
    if not repeats.any():
        return batch
    current = batch.column(CURRENT_WRITE_ID).to_numpy()
    rank = np.cumsum(~repeats)
    order = np.lexsort((current, rank))
    return batch.take(pa.array(order[~repeats]))


def _keep(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    return batch.filter(pa.array(mask))

"""Process sorted streams of events: merge streams, apply deletes, drop invisible events.

Input and output are iterators of Arrow batches, in ascending order of row identity. The merge holds
one batch of every open stream in memory, and joins small batches into batches of up to 4096 rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.storage.acid import CURRENT_WRITE_ID, identity

Batches = Iterator[pa.RecordBatch]
_NO_BOUND: Final = identity.least_key(identity.LONG_MIN)


# Batches of a stream are concatenated up to these limits, so that a short stream is one batch.
_SHORT_ROWS: Final = 4096
_SHORT_BYTES: Final = 1 << 20
# A step of a merge costs more with more open streams, so more are merged in groups first.
_MOST_AT_ONCE: Final = 64

_Part = tuple[pa.RecordBatch, identity.Keys]


class _Head:
    """The next rows of a stream: rows that were read but not yet merged."""

    def __init__(self, stream: Batches) -> None:
        self._stream = stream
        self.batch: pa.RecordBatch
        self.keys: identity.Keys
        self.is_open = True
        self.is_last = False
        self._fill()

    def _fill(self) -> None:
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        self.is_last = True
        for batch in self._stream:
            if batch.num_rows:
                batches.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _SHORT_ROWS or size >= _SHORT_BYTES:
                self.is_last = False
                break
        self.is_open = bool(batches)
        if batches:
            self.batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            self.keys = identity.Keys.of(self.batch)

    @property
    def first(self) -> identity.Key:
        return self.keys.at(0)

    @property
    def last(self) -> identity.Key:
        return self.keys.at(-1)

    def take(self, count: int) -> _Part:
        """Return the next `count` rows; `count` must not exceed the length of `batch`."""
        part = self.batch.slice(0, count), self.keys.part(0, count)
        if count == len(self.keys):
            self._fill()
        else:
            self.batch = self.batch.slice(count)
            self.keys = self.keys.part(count, len(self.keys))
        return part


def merge_sorted(
    streams: Sequence[Batches], lower_bounds: Sequence[identity.Key] | None = None
) -> Batches:
    """Merge sorted streams with the same schema; rows with equal identities have no fixed order.

    Each step finds the smallest of the last rows of all batches, and sorts the rows up to this row,
    unless they are all of one stream. Rows are never compared one by one.

    `lower_bounds` has, for each stream, a key that is not greater than any of its rows. A stream is
    opened only when the merge reaches its bound, so files with disjoint ranges are read one after
    another.
    """
    bounds = [_NO_BOUND] * len(streams) if lower_bounds is None else lower_bounds
    waiting = sorted(zip(bounds, streams, strict=True), key=lambda pair: pair[0])
    while len(waiting) > _MOST_AT_ONCE:
        groups = [
            waiting[start : start + _MOST_AT_ONCE]
            for start in range(0, len(waiting), _MOST_AT_ONCE)
        ]
        waiting = [(group[0][0], _merged(group)) for group in groups]
    return _merged(waiting)


def _merged(streams: Sequence[tuple[identity.Key, Batches]]) -> Batches:
    waiting = list(reversed(streams))
    heads: list[_Head] = []
    while waiting or heads:
        following = waiting[-1][0] if waiting else None
        # No unread row of an open stream is below the limit; None means that all were read.
        limit = min((head.last for head in heads if not head.is_last), default=None)
        if following is None or (limit is not None and limit < following):
            # No waiting stream begins at or below the limit.
            counts = [len(h.keys) if limit is None else h.keys.count_up_to(limit) for h in heads]
        elif any(head.first < following for head in heads):
            # Take only what is below the next stream.
            counts = [head.keys.count_below(following) for head in heads]
        else:
            # Open the next streams.
            while waiting and waiting[-1][0] == following:
                heads.append(_Head(waiting.pop()[1]))
            heads = [head for head in heads if head.is_open]
            continue
        parts = [head.take(count) for head, count in zip(heads, counts, strict=True) if count]
        heads = [head for head in heads if head.is_open]
        yield from _sorted_together(parts)


def _sorted_together(parts: Sequence[_Part]) -> Batches:
    """Yield the rows in identity order; only parts that overlap are joined and sorted."""
    run: list[pa.RecordBatch] = []
    reached: identity.Key | None = None
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
    return together.take(pa.array(identity.Keys.of(together).order()))


def subtract_deletes(inserts: Batches, deletes: Batches) -> Batches:
    """Drop every row that has a delete event, regardless of write IDs.

    `inserts` and `deletes` must be sorted by identity; the result is also sorted.
    """
    tomb: tuple[identity.Keys, identity.Key] | None = _next_keys(deletes)
    for batch in inserts:
        if not batch.num_rows:
            continue
        keys = identity.Keys.of(batch)
        last = keys.at(-1)
        killed: identity.Mask | None = None
        while tomb is not None and tomb[0].at(0) <= last:
            mask = keys.found_in(tomb[0])
            killed = mask if killed is None else killed | mask
            # The next inserts may also be among these deletes.
            if tomb[1] >= last:
                break
            tomb = _next_keys(deletes)
        live_rows = batch if killed is None or not killed.any() else _keep(batch, ~killed)
        if live_rows.num_rows:
            yield live_rows


def _next_keys(stream: Batches) -> tuple[identity.Keys, identity.Key] | None:
    for batch in stream:
        if batch.num_rows:
            keys = identity.Keys.of(batch)
            return keys, keys.at(-1)
    return None


def visible_events(stream: Iterable[pa.RecordBatch], write_ids: ValidWriteIdList) -> Batches:
    """Keep only the events whose current write ID is visible to the reader.

    Like Hive's OrcRawRecordMerger.next, this function checks every insert and delete event, because
    one file may contain events of several write IDs.
    """
    for batch in stream:
        visible = visible_mask(identity.current_write_ids(batch), write_ids)
        events = batch if visible.all() else _keep(batch, visible)
        if events.num_rows:
            yield events


def visible_mask(ids: npt.NDArray[np.integer], write_ids: ValidWriteIdList) -> identity.Mask:
    """Return a mask of the write IDs that are visible to the reader."""
    visible: identity.Mask = ids <= write_ids.high_watermark
    hidden = exceptions(write_ids)
    if len(ids) and len(hidden):
        start = np.searchsorted(hidden, ids.min(), "left")
        stop = np.searchsorted(hidden, ids.max(), "right")
        if start < stop:
            visible &= ~identity.found_in_sorted(ids, hidden[start:stop])
    return visible


def exceptions(write_ids: ValidWriteIdList) -> npt.NDArray[np.int64]:
    """Return the open and aborted write IDs in ascending order, cached: there may be a million."""
    return _exceptions(_Same(write_ids))


class _Same:
    """A cache key for a write ID list; it compares object identities, as lists can be long."""

    def __init__(self, write_ids: ValidWriteIdList) -> None:
        self.write_ids = write_ids

    def __hash__(self) -> int:
        return id(self.write_ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.write_ids is self.write_ids


@functools.lru_cache(maxsize=2)
def _exceptions(key: _Same) -> npt.NDArray[np.int64]:
    opened, aborted = key.write_ids.open, key.write_ids.aborted
    exceptions = np.empty(len(opened) + len(aborted), dtype=np.int64)
    exceptions[: len(opened)], exceptions[len(opened) :] = opened, aborted
    exceptions.sort()
    return exceptions


def unique_deletes(stream: Batches) -> Batches:
    """Keep only the delete event with the lowest current write ID for each row, in sorted order.

    A snapshot that shows any delete event of a row also shows this one. With two, other readers may
    lose all rows of a file (see "Two readers for" in OrcRawRecordMerger).
    """
    last_event: pa.RecordBatch | None = None
    for batch in stream:
        if not batch.num_rows:
            continue
        together = batch if last_event is None else pa.concat_batches([last_event, batch])
        unique = _unique(together)
        last_event = unique.slice(unique.num_rows - 1)
        if unique.num_rows > 1:
            yield unique.slice(0, unique.num_rows - 1)
    if last_event is not None:
        yield last_event


def _unique(batch: pa.RecordBatch) -> pa.RecordBatch:
    repeats = identity.Keys.of(batch).repeats()
    if not repeats.any():
        return batch
    current = batch.column(CURRENT_WRITE_ID).to_numpy()
    rank = np.cumsum(~repeats)
    # Each group of equal rows keeps its place, so `~repeats` still marks the first row of a group.
    order = np.lexsort((current, rank))
    return batch.take(pa.array(order[~repeats]))


def _keep(batch: pa.RecordBatch, mask: identity.Mask) -> pa.RecordBatch:
    return batch.filter(pa.array(mask))

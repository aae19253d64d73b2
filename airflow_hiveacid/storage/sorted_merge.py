"""Sorted streams of events made into one: merge, take deletes out, hide what nobody may see.

Takes and gives iterators of Arrow batches sorted ascending by row identity; whatever other columns
they have travel along. Holds one batch of every stream that is open at a time. Must not know
files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.ids import LONG_MAX
from airflow_hiveacid.storage.identity import Key, Keys, Mask, current_write_ids
from airflow_hiveacid.storage.row_schema import CURRENT_WRITE_ID

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidWriteIdList

Batches = Iterator[pa.RecordBatch]
_NO_BOUND: Key = (-LONG_MAX - 1, 0, 0)


class _Head:
    """The unread rest of one stream's current batch. Mutable: it moves through the stream."""

    def __init__(self, stream: Batches) -> None:
        self._stream = stream
        self.batch: pa.RecordBatch
        self.keys: Keys
        self.is_open = True
        self._fill()

    def _fill(self) -> None:
        for batch in self._stream:
            if batch.num_rows:
                self.batch, self.keys = batch, Keys.of(batch)
                return
        self.is_open = False

    @property
    def last(self) -> Key:
        return self.keys.at(-1)

    def take_up_to(self, bound: Key) -> pa.RecordBatch:
        count = self.keys.count_up_to(bound)
        taken = self.batch.slice(0, count)
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
    itself passes through untouched.

    Args:
        streams: the inputs, each sorted ascending by identity.
        lower_bounds: for each stream a key that none of its rows is smaller than. A stream is not
            opened before the merge has come that far, so files of disjoint ranges are read in turn.
    """
    bounds = [_NO_BOUND] * len(streams) if lower_bounds is None else lower_bounds
    waiting = sorted(zip(bounds, range(len(streams)), strict=True), reverse=True)
    heads: dict[int, _Head] = {}
    while waiting or heads:
        bound = min((head.last for head in heads.values()), default=None)
        while waiting and (bound is None or waiting[-1][0] <= bound):
            index = waiting.pop()[1]
            head = _Head(streams[index])
            if head.is_open:
                heads[index] = head
                bound = head.last if bound is None else min(bound, head.last)
        if bound is not None:
            parts = [heads[index].take_up_to(bound) for index in sorted(heads)]
            heads = {index: head for index, head in heads.items() if head.is_open}
            yield _sorted_together([part for part in parts if part.num_rows])


def _sorted_together(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    together = pa.concat_batches(parts)
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
    if write_ids.exceptions:
        visible &= ~np.isin(ids, np.array(write_ids.exceptions, dtype=np.int64))
    return visible


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

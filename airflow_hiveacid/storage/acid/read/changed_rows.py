"""Read the rows that were inserted or deleted in a range of write IDs, as Arrow batches.

Input is the data files of one segment of a root's history (`format.change_range`), each with
the delete files that may contain events for its rows. A row is inserted ("born" in the code) at the
write ID of its insert event. It is deleted ("dies") at that of its first delete event, or of the
overwrite that ends the segment. Two kinds of rows are not reported:

* A row that was deleted before the range; no version of the range shows such a row.
* A row that was inserted in the range, and deleted at the same or a lower write ID. A lower write
  ID is possible, because a write may wait for its locks, while writes with higher write IDs commit.
  The waiting write then sees the rows of these writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.change_range import ChangeRange, ChangeSegment
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.storage.acid.identity import Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import visible_events, visible_mask
from airflow_hiveacid.storage.acid.read import AcidFile, KeyBounds, bounds_of, meeting
from airflow_hiveacid.storage.acid.read.buckets import BucketFiles
from airflow_hiveacid.storage.acid.read.old_rows import Stripes
from airflow_hiveacid.storage.acid.read.reader import read_identity

Ints = npt.NDArray[np.int64]
ReadStripes = Callable[[AcidFile, Sequence[int] | None], Iterator[pa.RecordBatch]]

_ALIVE: Final = -1
_NONE: Final = Keys(*(np.empty(0, dtype=np.int64) for _ in range(3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile:
    """One data file whose rows may have changed in a range, with the delete files for its rows.

    If `is_whole`, every row is read. Otherwise, only rows with a delete event in the range are
    read. `fresh` contains those files of `deletes` that were written in the range.
    """

    data: AcidFile
    deletes: tuple[AcidFile, ...]
    fresh: tuple[AcidFile, ...]
    is_whole: bool

    def stripes_hit(self) -> list[int]:
        """Return the stripes that may contain a row with a delete event of the range."""
        targets = [bounds for delete in self.fresh for bounds in bounds_of(delete, delete.tail())]
        return meeting(bounds_of(self.data, self.data.tail()), targets)


def change_files(segment: ChangeSegment, buckets: Iterable[BucketFiles]) -> Iterator[ChangeFile]:
    """Yield the files of a segment that must be read; `buckets` are those of `buckets_changed`."""
    for bucket, data in ((b, d) for b in buckets for d in b.inserts):
        deletes = bucket.deletes_of(data)
        fresh = tuple(file for file in deletes if file.top in segment.fresh)
        is_whole = segment.is_whole(data.top)
        if is_whole or fresh:
            yield ChangeFile(data=data, deletes=deletes, fresh=fresh, is_whole=is_whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Rows in identity order, all inserted (`is_born`) or all deleted, with their write IDs."""

    rows: pa.RecordBatch
    write_ids: pa.Array
    is_born: bool


@dataclass(frozen=True, slots=True, eq=False)
class Deaths:
    """The delete events of a range, one per row, and earlier deleted rows, both in sorted order.

    `keys` were deleted in the range, at `write_ids`; `deleted_before` earlier.
    """

    keys: Keys
    write_ids: Ints
    deleted_before: Keys

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedManner:
    """The rules that select the changes to report.

    If `is_net`, rows that are both inserted and deleted within `part` are not reported. `ends_with`
    is the write ID of the overwrite that deletes all remaining rows, or None.
    """

    part: ChangeRange
    ends_with: WriteId | None = None
    is_net: bool = False


def deaths_of(
    files: Iterable[AcidFile], part: ChangeRange, near: Sequence[KeyBounds] | None = None
) -> Deaths:
    """Return the rows that were deleted in a range, and the rows that were deleted earlier.

    `files` are delete files, which may include events for rows of other files. `near` has bounds of
    the row identities to include; None includes all.
    """
    dead: list[pa.RecordBatch] = []
    deleted_before: list[pa.RecordBatch] = []
    for file in files:
        tail = file.tail()
        stripes = None if near is None else meeting(bounds_of(file, tail), near)
        events = read_identity(file, stripes=stripes, tail=tail)
        for batch in visible_events(events, part.until):
            is_earlier = visible_mask(current_write_ids(batch), part.since)
            for batches, chosen in ((deleted_before, is_earlier), (dead, ~is_earlier)):
                if chosen.any():
                    batches.append(batch.filter(pa.array(chosen)))
    keys, write_ids = _first_of_each(dead)
    old, _ = _first_of_each(deleted_before)
    return Deaths(keys=keys, write_ids=write_ids, deleted_before=old)


def changed_in(  # noqa: PLR0913 - a file, the facts about it, and how to read it
    file: AcidFile,
    stripes: Sequence[int] | None,
    deaths: Deaths,
    manner: FeedManner,
    read: ReadStripes,
    *,
    is_whole: bool,
) -> Iterator[Changed]:
    """Yield the changes of one data file's rows; of each batch, first the deletions.

    `stripes` are those to read; None means all. `deaths` may include rows of other files. `read`
    reads the events of a file or of some stripes. If `is_whole`, every row is read, otherwise only
    deleted rows.
    """
    if not is_whole:
        if not len(deaths):
            return
        hit = Stripes(file).holding(deaths.keys)
        stripes = hit if stripes is None else sorted(set(hit).intersection(stripes))
        if not stripes:
            return
    file_events = read(file, stripes)
    rows = file_events if is_whole else _hit(file_events, deaths)
    for events in visible_events(rows, manner.part.until):
        yield from _changes(events, deaths, manner)


def _hit(batches: Iterator[pa.RecordBatch], deaths: Deaths) -> Iterator[pa.RecordBatch]:
    for events in batches:
        positions = Keys.of(events).positions_of(deaths.keys)
        if len(positions):
            yield events.take(pa.array(positions))


def _changes(events: pa.RecordBatch, deaths: Deaths, manner: FeedManner) -> Iterator[Changed]:
    keys = Keys.of(events)
    birth = keys.original
    death = _deaths_at(keys, deaths, manner.ends_with)
    born = visible_mask(birth, manner.part.until) & ~visible_mask(birth, manner.part.since)
    unseen = keys.found_in(deaths.deleted_before) | (born & (death != _ALIVE) & (death <= birth))
    born &= ~unseen
    dead = (death != _ALIVE) & ~unseen
    if manner.is_net:
        born, dead = born & ~dead, dead & ~born
    for chosen, write_ids, is_born in ((dead, death, False), (born, birth, True)):
        if chosen.any():
            yield Changed(
                rows=events.filter(pa.array(chosen)),
                write_ids=pa.array(write_ids[chosen], pa.int64()),
                is_born=is_born,
            )


def _deaths_at(keys: Keys, deaths: Deaths, ends_with: WriteId | None) -> Ints:
    """Return the write ID at which each row was deleted, or `_ALIVE`."""
    write_ids = np.full(len(keys), _ALIVE if ends_with is None else ends_with, dtype=np.int64)
    mine = keys.found_in(deaths.keys)
    if mine.any():
        # Both sides are sorted, and a row occurs once, so their matches are in the same order.
        write_ids[mine] = deaths.write_ids[deaths.keys.found_in(keys)]
    return write_ids


def _first_of_each(batches: Sequence[pa.RecordBatch]) -> tuple[Keys, Ints]:
    """Return each deleted row once, sorted, with the write ID of its first delete event."""
    if not batches:
        return _NONE, np.empty(0, dtype=np.int64)
    together = pa.concat_batches(batches)
    every, current = Keys.of(together), current_write_ids(together)
    order = np.lexsort((current, every.row, every.bucket, every.original))
    every = _chosen(every, order)
    first = ~every.repeats()
    return _chosen(every, first), current[order][first].astype(np.int64, copy=False)


def _chosen(keys: Keys, which: npt.NDArray[np.generic]) -> Keys:
    return Keys(keys.original[which], keys.bucket[which], keys.row[which])

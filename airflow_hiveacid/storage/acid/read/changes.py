"""Which rows were born, and which died, in a range of write IDs: from files, in Arrow's batches.

Takes data files of one stretch of a root's life (`format.changes`) with the delete files that may
hold events for their rows; gives rows with what became of them. A row is born by the write ID of
its insert event. It dies by that of its delete event, by the first one if there are several, or by
whatever overwrites all that lives at the end of the stretch. One that died before the range nobody
has seen within it, and it is in no change; nor is one that is born in it and dies by the write that
made it, or by an earlier one: a write may see rows of later numbers, which came to be while it
waited for its locks.

Files that hold no inserts of the range are opened for the old values of rows that died in it, and
of these only the stripes in which there may be one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.storage.acid.identity import Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import visible_events, visible_mask
from airflow_hiveacid.storage.acid.read.old_rows import Stripes
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.read.stripe_bounds import bounds_of, meeting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from airflow_hiveacid.format.changes import ChangeRange, ChangeSegment
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.storage.acid.identity import Mask
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.buckets import BucketFiles
    from airflow_hiveacid.storage.acid.read.stripe_bounds import Bounds

    Ints = npt.NDArray[np.int64]
    Read = Callable[[AcidFile, Sequence[int] | None], Iterator[pa.RecordBatch]]

_ALIVE: Final = -1
_NONE: Final = Keys(*(np.empty(0, dtype=np.int64) for _ in range(3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile:
    """One data file in which changes of a range may be told, with the delete files that tell them.

    `is_whole` says that every row of it is looked at: some were born in the range, or all die in
    it. Of another one only those are that a delete event of the range is for; `fresh` are the
    delete files that hold such.
    """

    data: AcidFile
    deletes: tuple[AcidFile, ...]
    fresh: tuple[AcidFile, ...]
    is_whole: bool

    def stripes_hit(self) -> list[int]:
        """The stripes in which there may be a row that a delete event of the range is for.

        Raises:
            HiveAcidError: a footer cannot be read.
        """
        wanted = [one for delete in self.fresh for one in bounds_of(delete, delete.tail())]
        return meeting(bounds_of(self.data, self.data.tail()), wanted)


def change_files(segment: ChangeSegment, buckets: Iterable[BucketFiles]) -> Iterator[ChangeFile]:
    """The files of a stretch that have to be looked at, from all of its files (`buckets_of`)."""
    for bucket, data in ((b, d) for b in buckets for d in b.inserts):
        deletes = bucket.deletes_of(data)
        fresh = tuple(file for file in deletes if _top(file) in segment.fresh)
        is_whole = segment.ends_with is not None or _top(data) in segment.fresh
        if is_whole or fresh:
            yield ChangeFile(data=data, deletes=deletes, fresh=fresh, is_whole=is_whole)


def _top(file: AcidFile) -> str:
    return file.key.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Some rows, all born or all dead, each with the write ID that did it, in order of identity.

    `rows` are events as they were read.
    """

    rows: pa.RecordBatch
    write_ids: pa.Array
    is_born: bool


@dataclass(frozen=True, slots=True, eq=False)
class Deaths:
    """The delete events of a range, one for each row, and of rows that were dead before it.

    `keys` and `buried` are sorted; `write_ids` go with `keys`.
    """

    keys: Keys
    write_ids: Ints
    buried: Keys

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What is told of the rows of some files.

    `is_net` leaves out rows that are born and die within `part`. `ends_with` is the write ID by
    which all die that live at the end, if there is one.
    """

    part: ChangeRange
    ends_with: WriteId | None = None
    is_net: bool = False


def deaths_of(
    files: Iterable[AcidFile], part: ChangeRange, near: Sequence[Bounds] | None = None
) -> Deaths:
    """What delete files say of rows that died in a range, or before it.

    Args:
        files: delete files; also of other rows.
        part: the range.
        near: identities of the rows that are asked for; None for all.

    Raises:
        HiveAcidError: see `read_identity`.
    """
    dead: list[pa.RecordBatch] = []
    buried: list[pa.RecordBatch] = []
    for file in files:
        tail = file.tail()
        stripes = None if near is None else meeting(bounds_of(file, tail), near)
        events = read_identity(file, stripes=stripes, tail=tail)
        for batch in visible_events(events, part.until):
            before = visible_mask(current_write_ids(batch), part.since)
            for found, chosen in ((buried, before), (dead, ~before)):
                if chosen.any():
                    found.append(batch.filter(pa.array(chosen)))
    keys, write_ids = _first_of_each(dead)
    old, _ = _first_of_each(buried)
    return Deaths(keys=keys, write_ids=write_ids, buried=old)


def changed_in(  # noqa: PLR0913 - what is read, what is known of it, and how
    file: AcidFile,
    stripes: Sequence[int] | None,
    deaths: Deaths,
    manner: Manner,
    read: Read,
    *,
    is_whole: bool,
) -> Iterator[Changed]:
    """The changes of the rows of one data file.

    Args:
        file: with rows, in order of identity.
        stripes: which of its stripes; None for all.
        deaths: of these rows, and of others.
        manner: what is told of them.
        read: how rows are read: events of a file, of some stripes of it.
        is_whole: whether every row is looked at; else only those that have died.

    Raises:
        HiveAcidError: see `read_events`.
    """
    if not is_whole:
        if not len(deaths):
            return
        hit = Stripes(file).following(deaths.keys)
        stripes = hit if stripes is None else sorted(set(hit).intersection(stripes))
        if not stripes:
            return
    found = read(file, stripes)
    rows = found if is_whole else _hit(found, deaths)
    for events in visible_events(rows, manner.part.until):
        yield from _changes(events, deaths, manner)


def _hit(batches: Iterator[pa.RecordBatch], deaths: Deaths) -> Iterator[pa.RecordBatch]:
    """The rows that have died in the range, as a rule a few of very many."""
    for events in batches:
        places = Keys.of(events).places_of(deaths.keys)
        if len(places):
            yield events.take(pa.array(places))


def _changes(events: pa.RecordBatch, deaths: Deaths, manner: Manner) -> Iterator[Changed]:
    keys = Keys.of(events)
    birth = keys.original
    death = _deaths_at(keys, deaths, manner.ends_with)
    born = _held(birth, manner.part)
    unseen = keys.found_in(deaths.buried) | (born & (death != _ALIVE) & (death <= birth))
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
    """The write ID by which each row died, or `_ALIVE`."""
    found = np.full(len(keys), _ALIVE if ends_with is None else ends_with, dtype=np.int64)
    mine = keys.found_in(deaths.keys)
    if mine.any():
        found[mine] = deaths.write_ids[deaths.keys.found_in(keys)]
    return found


def _held(write_ids: npt.NDArray[np.integer], part: ChangeRange) -> Mask:
    return visible_mask(write_ids, part.until) & ~visible_mask(write_ids, part.since)


def _first_of_each(batches: Sequence[pa.RecordBatch]) -> tuple[Keys, Ints]:
    """Sorted identities, each once, with the lowest write ID of its events."""
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

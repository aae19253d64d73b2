"""The commit times of a table's writes, as far as they are known.

Writes do not commit in the order of their write IDs, so a table's state at a given time is a set of
write IDs. Takes known facts, with times of the metastore's clock. Returns the write IDs that were
committed at the given time, or the writes whose commit time is too uncertain. The facts are:

* for each commit by this provider, a time before the commit and a time after the commit;
* for a snapshot, a time before it, a time after it, and its committed and open write IDs
  (`Sighting`);
* for an allocated write ID, a time before the allocation of this and all higher IDs (`Allocation`);
* for each commit in the server's event log, the commit time, with an error of at most a minute.

Must not know where these facts are stored.

Example:
    >>> now = ValidWriteIdList.parse("db.t:3:9223372036854775807::")
    >>> known = Knowledge(
    ...     commits={WriteId(1): TimeBounds(after_s=10.0, by_s=11.0)},
    ...     sightings=(Sighting(write_ids=now, after_s=50.0, by_s=51.0),),
    ...     allocations=(Allocation(write_id=WriteId(3), after_s=20.0),),
    ... )
    >>> found = known.at(15.0, now)
    >>> sorted(found.inside), sorted(found.outside), sorted(found.doubtful)
    ([1], [3], [2])
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import accumulate, chain
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import CommitNote, TimeBounds, time_text
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.versions import as_of_set

_MOST_SKEW_S: Final = 86400.0
"""The largest assumed difference between two clocks."""
_LOG_SKEW_S: Final = 60.0
"""The largest assumed error of a time in the event log: clock difference plus commit delay.

Times in the log are from the clock of the metastore's process, in whole seconds. All other times
are from the clock of its database.
"""
_LONGEST_LOOK_S: Final = 600.0
"""The longest assumed time between reading the clock and reading the committed writes."""

_MOST_NAMED: Final = 20
"""If nothing is known about more writes than this, an error describes them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The write IDs of a snapshot that was taken between two times."""

    write_ids: ValidWriteIdList
    after_s: float
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A time at which a write ID, and all higher write IDs, were not yet allocated."""

    write_id: WriteId
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitGroups:
    """The committed writes in three groups: before a given time, after it, and doubtful.

    `inside` may omit write IDs that are committed in a snapshot from before the given time.
    `unknown` are further doubtful write IDs, the lowest ones, without any fact; a table that Hive
    has converted begins with ten million of them (`CONVERTED_WRITE_ID`).
    """

    inside: frozenset[WriteId]
    outside: frozenset[WriteId]
    doubtful: frozenset[WriteId]
    unknown: range


@dataclass(frozen=True, kw_only=True)  # without slots, because cached properties need a dict
class Knowledge:
    """Everything that is known about the commits of a table.

    `born_s` is the table's creation time by the clock of the program that created it. That clock
    may be wrong, so `born_s` does not limit commit times.
    """

    commits: Mapping[WriteId, TimeBounds] = field(default_factory=dict)
    sightings: tuple[Sighting, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    born_s: float | None = None

    @classmethod
    def of(cls, notes: Iterable[CommitNote], born_s: float | None = None) -> Knowledge:
        """Return the facts in the notes of this provider's commits."""
        notes = tuple(notes)
        return cls(
            commits={note.write_id: note.committed for note in notes},
            sightings=tuple(
                Sighting(
                    write_ids=ValidWriteIdList.parse(note.seen),
                    after_s=note.seen_after_s,
                    by_s=note.seen_by_s,
                )
                for note in notes
                if note.seen
            ),
            allocations=tuple(
                Allocation(write_id=note.write_id, after_s=note.opened_s)
                for note in notes
                if note.opened_s is not None
            ),
            born_s=born_s,
        )

    def with_log(self, times: Mapping[WriteId, int]) -> Knowledge:
        """Return this knowledge plus the times in the server's log, unless those contradict it.

        The times are whole seconds since 1970. A commit before the table's creation is from an
        earlier table of this name, dropped without an entry in the log, and also contradicts.
        """
        learned = {
            write_id: TimeBounds(after_s=time_s - _LOG_SKEW_S, by_s=time_s + 1 + _LOG_SKEW_S)
            for write_id, time_s in times.items()
        }
        if any(self.born_s is not None and (b.by_s or 0.0) < self.born_s for b in learned.values()):
            return self
        if not all(
            bounds.within(self.of_commit(write_id)).is_one for write_id, bounds in learned.items()
        ):
            return self
        for write_id, bounds in learned.items():
            learned[write_id] = bounds.within(self.commits.get(write_id, TimeBounds()))
        return replace(self, commits={**self.commits, **learned})

    @property
    def aborted(self) -> frozenset[WriteId]:
        """Write IDs that a snapshot shows as aborted; the metastore may no longer list them."""
        return frozenset(w for s in self.sightings for w in s.write_ids.aborted)

    def of_commit(self, write_id: WriteId) -> TimeBounds:
        """Return the earliest and the latest possible time of a commit."""
        looks, earliest_s = self._looks
        index, by_s = bisect_left(looks, write_id, key=_high_watermark), math.inf
        # Sightings are stored in almost chronological order. So the search ends soon after the
        # first sighting that has the write ID.
        while index < len(looks) and earliest_s[index] < by_s:
            if looks[index].write_ids.is_visible(write_id):
                by_s = min(by_s, looks[index].by_s)
            index += 1
        numbers, allocated_s = self._allocated_after
        bounds = self.commits.get(write_id, TimeBounds())
        if by_s < math.inf:
            bounds = bounds.within(TimeBounds(by_s=by_s))
        bounds = bounds.within(TimeBounds(after_s=self._open_after.get(write_id)))
        # At the times noted for this write ID and for lower ones, it was not allocated yet.
        position = bisect_right(numbers, write_id)
        return bounds.within(TimeBounds(after_s=allocated_s[position - 1])) if position else bounds

    @cached_property
    def _looks(self) -> tuple[list[Sighting], list[float]]:
        """Sightings by ascending high watermark, and the lowest `by_s` from each one on."""
        looks = sorted(self.sightings, key=_high_watermark)
        return looks, [*accumulate((s.by_s for s in reversed(looks)), min)][::-1]

    @cached_property
    def _open_after(self) -> Mapping[WriteId, float]:
        """For each write ID, the last time at which it was known to be open."""
        open_until: dict[WriteId, float] = {}
        for sighting in self.sightings:
            for write_id in sighting.write_ids.open:
                open_until[write_id] = max(
                    sighting.after_s, open_until.get(write_id, sighting.after_s)
                )
        return open_until

    @cached_property
    def _allocated_after(self) -> tuple[list[WriteId], list[float]]:
        """Ascending write IDs, each with a time before its own and all higher allocations."""
        allocations = sorted(self.allocations, key=lambda g: g.write_id)
        return [g.write_id for g in allocations], [
            *accumulate((g.after_s for g in allocations), max)
        ]

    def at(self, at_s: float, now: ValidWriteIdList) -> CommitGroups:
        """Divide the committed writes into three groups: before a given time, after it, doubtful.

        Notes about a write contradict each other, which makes it doubtful, if a clock was set back
        and so reached the given time twice. `now` was read at or after that time.
        """
        earlier = [s for s in self.sightings if s.by_s <= at_s]
        later = [s for s in self.sightings if s.after_s > at_s]
        # A write ID that was allocated after `at_s` cannot have been committed before `at_s`.
        too_late = min((g.write_id for g in self.allocations if g.after_s > at_s), default=None)
        open_later = frozenset(w for s in later for w in s.write_ids.open)
        noted_later = frozenset(
            w for w, b in self.commits.items() if b.after_s is not None and b.after_s > at_s
        )
        last = max(earlier, key=lambda s: s.write_ids.high_watermark, default=None)
        last_list = None if last is None else last.write_ids
        inside, outside, doubtful = set[WriteId](), set[WriteId](), set[WriteId]()
        # A write ID that is committed in an earlier snapshot belongs to `inside`, if no other fact
        # contradicts this.
        contradicted = {*open_later, *noted_later}
        if too_late is not None and last_list is not None:
            contradicted |= {WriteId(w) for w in range(too_late, last_list.high_watermark + 1)}
        set_back = self._set_back_around(at_s)
        contradicted |= set_back
        # Only without an earlier snapshot are there `unknown` write IDs, below `first`.
        first = WriteId(1) if last_list is not None else self._first_fact(now)
        undecided = _undecided(now, last_list, first)
        candidates = {*undecided, *(w for w in contradicted if now.is_visible(w))}
        for write_id in candidates:
            bounds = self.commits.get(write_id, TimeBounds())
            is_inside = (bounds.by_s is not None and bounds.by_s <= at_s) or (
                last_list is not None
                and write_id <= last_list.high_watermark
                and any(s.write_ids.is_visible(write_id) for s in earlier)
            )
            is_outside = (
                write_id in noted_later
                or write_id in open_later
                or (too_late is not None and write_id >= too_late)
            )
            # Facts for both contradict each other; without a fact for either, nothing is known.
            if is_inside is is_outside or write_id in set_back:
                doubtful.add(write_id)
            else:
                (inside if is_inside else outside).add(write_id)
        return CommitGroups(
            inside=frozenset(inside),
            outside=frozenset(outside),
            doubtful=frozenset(doubtful),
            unknown=range(1, first),
        )

    def _first_fact(self, now: ValidWriteIdList) -> WriteId:
        """Return the lowest write ID with a fact besides high watermarks, else the next new one."""
        write_ids = (
            self.commits,
            (g.write_id for g in self.allocations),
            *(s.write_ids.open for s in self.sightings),
            now.open,
            now.aborted,
        )
        return min(chain(*write_ids), default=WriteId(now.high_watermark + 1))

    def _set_back_around(self, at_s: float) -> frozenset[WriteId]:
        """Return the writes during which a clock was set back past the given time.

        A snapshot contains the write ID, but the job's note says that it was allocated later: the
        job reads the clock only once, so after a setback, all times in its note are too late.
        """
        looks = sorted(self.sightings, key=lambda s: s.write_ids.high_watermark, reverse=True)
        write_ids, earliest_s, index = set[WriteId](), math.inf, 0
        for allocation in sorted(self.allocations, key=lambda g: g.write_id, reverse=True):
            # Add the sightings that reach this write ID; `earliest_s` is the earliest end of all.
            while (
                index < len(looks) and looks[index].write_ids.high_watermark >= allocation.write_id
            ):
                earliest_s = min(earliest_s, looks[index].by_s)
                index += 1
            ended_s = self.commits.get(allocation.write_id, TimeBounds()).by_s
            # Seen before it was allocated: the times in between occurred twice.
            if earliest_s < allocation.after_s and earliest_s <= at_s <= (
                ended_s or allocation.after_s
            ):
                write_ids.add(allocation.write_id)
        return frozenset(write_ids)

    def unlisted(self, at_s: float, now: ValidWriteIdList) -> tuple[WriteId, ...]:
        """Return known commits that `now` omits and that may have happened before a given time.

        The list of a metastore may temporarily end too early, at an open or aborted write ID
        (docs/decisions/reading.md).
        """
        if now.is_visible(now.high_watermark):
            return ()
        first = WriteId(now.high_watermark + 1)
        write_ids = {w for w in self.commits if w >= first}
        for listed in (s.write_ids for s in self.sightings):
            later = map(WriteId, range(first, listed.high_watermark + 1))
            write_ids |= {w for w in later if listed.is_visible(w)}
        bounds = ((w, self.of_commit(w).after_s) for w in sorted(write_ids))
        return tuple(w for w, after_s in bounds if after_s is None or after_s <= at_s)

    def is_ahead_of(self, taken_s: float) -> bool:
        """Return true if a note has a later time than the metastore's clock shortly before."""
        times = [b.after_s for b in self.commits.values() if b.after_s is not None]
        times += [s.after_s for s in self.sightings]
        return max(times, default=taken_s) > taken_s + _LONGEST_LOOK_S


def as_of_time(
    now: ValidWriteIdList, at: datetime, known: Knowledge, *, taken_s: float | None
) -> ValidWriteIdList:
    """Return the write IDs of a table as of a given time.

    `taken_s` is the metastore's time, from before `now` was read; None if the metastore does not
    report its time.

    Raises:
        VersionNotYetError: the time is slightly later than `taken_s`, perhaps because clocks
            differ.
        VersionUnknownError: the time is clearly later than `taken_s`; it is before the table's
            creation; or `taken_s` is None.
        VersionDoubtfulError: for some commits, it is unknown whether they happened before the time.
    """
    at_s, when, end = at.timestamp(), at.isoformat(), now.high_watermark
    unknown = partial(errors.VersionUnknownError, table=now.table)
    doubtful = partial(errors.VersionDoubtfulError, table=now.table, when=when)
    if taken_s is None:
        raise unknown(
            detail="cannot be read as of a time, because the metastore does not provide the time;"
            " request a version by its number",
        )
    if taken_s < at_s <= taken_s + _MOST_SKEW_S:
        raise errors.VersionNotYetError(table=now.table, when=when, now=time_text(taken_s))
    if at_s > taken_s:
        clock = time_text(taken_s)
        raise unknown(detail=f"has no state at {when} yet; by the metastore's clock it is {clock}")
    if known.is_ahead_of(taken_s):
        why = "a note has a later time, so the metastore's clock was set back"
        raise doubtful(doubtful=(f"it is {time_text(taken_s)} and {why}",), before=0, after=end)
    unlisted = known.unlisted(at_s, now)
    if unlisted:
        raise doubtful(
            doubtful=tuple(
                f"write ID {w} was committed {known.of_commit(w)}, but the metastore's list ends at"
                f" {end} until another transaction commits"
                for w in unlisted
            ),
            before=end,
            after=max(unlisted),
        )
    members = known.at(at_s, now)
    is_early = known.born_s is not None and at_s < known.born_s and not members.inside
    first = min([*members.unknown[:1], *members.doubtful], default=None)
    # The creator's clock may be wrong, so a doubtful write may be a day older than `born_s`.
    if is_early and (first is None or at_s < (known.born_s or 0.0) - _MOST_SKEW_S):
        created = time_text(known.born_s or 0.0)
        raise unknown(detail=f"has no state at {when}; it was created at {created}")
    if first is not None:
        raise doubtful(
            doubtful=tuple(_doubts(members, known)),
            before=min([first, *members.outside]) - 1,
            after=max([*members.unknown[-1:], *members.doubtful, *members.inside]),
        )
    return as_of_set(now, members.outside)


def _doubts(groups: CommitGroups, known: Knowledge) -> Iterator[str]:
    """Yield each doubt as text; unknown commits are those from write ID 1 on."""
    named = sorted(groups.doubtful)
    if len(groups.unknown) > _MOST_NAMED:
        yield f"write IDs 1 to {groups.unknown[-1]} were committed at unknown times"
    else:
        named = [*map(WriteId, groups.unknown), *named]
    for write_id in named:
        yield f"write ID {write_id} was committed {known.of_commit(write_id)}"


def below(location: str, uri: str) -> str:
    """Return a URI as a path relative to a location; return other URIs unchanged.

    Example:
        >>> below("file:/t/", "file:/t/p=1/base_3"), below("file:/t", "file:/u/base_3")
        ('p=1/base_3', 'file:/u/base_3')
    """
    return uri.removeprefix(f"{location.rstrip('/')}/")


def _high_watermark(sighting: Sighting) -> WriteId:
    return sighting.write_ids.high_watermark


def _undecided(
    now: ValidWriteIdList, seen: ValidWriteIdList | None, first: WriteId
) -> Iterator[WriteId]:
    """Yield the write IDs committed in `now` but not in `seen`; without `seen`, from `first` on."""
    if seen is None:
        candidates: Iterable[int] = range(first, now.high_watermark + 1)
    else:
        later_numbers = range(seen.high_watermark + 1, now.high_watermark + 1)
        candidates = (*seen.open, *seen.aborted, *later_numbers)
    for number in candidates:
        write_id = WriteId(number)
        if now.is_visible(write_id):
            yield write_id

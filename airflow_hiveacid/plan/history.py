"""When the writes of a table were committed, as far as anybody knows: bounds, never guesses.

Commits are not in the order of write IDs, so the state at a moment is a set of them. Takes what is
known, all by the metastore's clock; gives that set, or which writes are in doubt. What is known:

* of a commit of ours, between which two moments it happened;
* of a snapshot that somebody took between two moments, which write IDs were committed in it and
  which open (`Sighting`);
* that a write ID is given out after every lower one, and committed later still (`Given`);
* of any commit what the server's own log says, if it keeps one, give or take a minute.

Must not know where it is written down.

Example:
    >>> now = ValidWriteIdList.parse("db.t:3:9223372036854775807::")
    >>> known = Knowledge(
    ...     commits={WriteId(1): Between(after_s=10.0, by_s=11.0)},
    ...     sightings=(Sighting(write_ids=now, after_s=50.0, by_s=51.0),),
    ...     given=(Given(write_id=WriteId(3), after_s=20.0),),
    ... )
    >>> found = known.at(15.0, now)
    >>> sorted(found.inside), sorted(found.outside), sorted(found.doubtful)
    ([1], [3], [2])
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    VersionDoubtfulError,
    VersionNotYetError,
    VersionUnknownError,
)
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.versions import as_of_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_MOST_SKEW_S: Final = 86400.0
"""No two clocks are taken to differ by more."""
_LOG_SKEW_S: Final = 60.0
"""How far a metastore's process and its database may differ, and a commit lag behind its event.

Times of the log are the process's, in whole seconds; all others are the database's.
"""
_LONGEST_LOOK_S: Final = 600.0
"""Nobody takes longer from asking for the time to reading what is committed, and noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Something happened after one moment and by another, seconds since 1970; None: not known."""

    after_s: float | None = None
    by_s: float | None = None

    def within(self, other: Between) -> Between:
        """What both know."""
        after = [s for s in (self.after_s, other.after_s) if s is not None]
        by = [s for s in (self.by_s, other.by_s) if s is not None]
        return Between(after_s=max(after, default=None), by_s=min(by, default=None))

    @property
    def is_one(self) -> bool:
        """Whether there is such a moment."""
        return self.after_s is None or self.by_s is None or self.after_s <= self.by_s

    def __str__(self) -> str:
        parts = []
        if self.after_s is not None:
            parts.append(f"after {time_text(self.after_s)}")
        if self.by_s is not None:
            parts.append(f"by {time_text(self.by_s)}")
        return " and ".join(parts) or "at a time that nobody knows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What was committed at some moment between two."""

    write_ids: ValidWriteIdList
    after_s: float
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A write ID that was given out after a moment, and so was every higher one."""

    write_id: WriteId
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """What a committed write of ours has done to one table.

    `table_id` tells a table from another that had its name and place before. `kind` is the job's.
    `directories` are paths below the table's location, which may be renamed, or URIs of others.
    `committed` are bounds of the commit's time, `opened_s` a moment before its write ID was given
    out, `seen` Hive's text of what it saw of the table at some moment between `seen_after_s` and
    `seen_by_s`; empty if the metastore did not say what time it was.
    """

    table_id: str
    write_id: WriteId
    txn_id: TxnId
    job_key: str
    attempt: str
    kind: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    directories: tuple[str, ...] = ()
    opened_s: float | None = None
    seen: str = ""
    seen_after_s: float = 0.0
    seen_by_s: float = 0.0
    committed: Between = field(default_factory=Between)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Which of the writes that are committed now were so at a moment, which not, and which maybe.

    `inside` may leave out write IDs below all others that are named here.
    """

    inside: frozenset[WriteId]
    outside: frozenset[WriteId]
    doubtful: frozenset[WriteId]


@dataclass(frozen=True, kw_only=True)  # no slots: what is known is put in order once
class Knowledge:
    """All that is known of the commits of one table.

    `born_s` is when it was made, by the clock of whoever made it; it bounds no commit.
    """

    commits: Mapping[WriteId, Between] = field(default_factory=dict)
    sightings: tuple[Sighting, ...] = ()
    given: tuple[Given, ...] = ()
    born_s: float | None = None

    @classmethod
    def of(cls, notes: Iterable[CommitNote], born_s: float | None = None) -> Knowledge:
        """What notes of our commits tell."""
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
            given=tuple(
                Given(write_id=note.write_id, after_s=note.opened_s)
                for note in notes
                if note.opened_s is not None
            ),
            born_s=born_s,
        )

    def with_log(self, times: Mapping[WriteId, int]) -> Knowledge:
        """The same, with what the server's log has; without it, if it contradicts what is known.

        It does, too, if it has commits from before the table was made, by the same clock: somebody
        has made it anew past the log, and these are of the one that had its name.

        Args:
            times: of commits, whole seconds since 1970.
        """
        told = {
            write_id: Between(after_s=time_s - _LOG_SKEW_S, by_s=time_s + 1 + _LOG_SKEW_S)
            for write_id, time_s in times.items()
        }
        if any(self.born_s is not None and (b.by_s or 0.0) < self.born_s for b in told.values()):
            return self
        if not all(
            known.within(self.of_commit(write_id)).is_one for write_id, known in told.items()
        ):
            return self
        for write_id, known in told.items():
            told[write_id] = known.within(self.commits.get(write_id, Between()))
        return replace(self, commits={**self.commits, **told})

    @property
    def aborted(self) -> frozenset[WriteId]:
        """Write IDs that somebody has seen aborted, which the metastore may have forgotten."""
        return frozenset(w for s in self.sightings for w in s.write_ids.aborted)

    def of_commit(self, write_id: WriteId) -> Between:
        """When a write that is committed was so."""
        looks, earliest_s = self._looks
        at, by_s = bisect_left(looks, write_id, key=_high_watermark), math.inf
        # Looks are nearly in the order of time, so that the first that shows it ends this.
        while at < len(looks) and earliest_s[at] < by_s:
            if looks[at].write_ids.is_visible(write_id):
                by_s = min(by_s, looks[at].by_s)
            at += 1
        numbers, given_s = self._given_after
        found = self.commits.get(write_id, Between())
        if by_s < math.inf:
            found = found.within(Between(by_s=by_s))
        found = found.within(Between(after_s=self._open_after.get(write_id)))
        before = bisect_right(numbers, write_id)
        return found.within(Between(after_s=given_s[before - 1])) if before else found

    @cached_property
    def _looks(self) -> tuple[list[Sighting], list[float]]:
        """Sightings by high watermark, and by when the earliest of each and all behind it was."""
        looks = sorted(self.sightings, key=_high_watermark)
        return looks, [*accumulate((s.by_s for s in reversed(looks)), min)][::-1]

    @cached_property
    def _open_after(self) -> Mapping[WriteId, float]:
        """When write IDs were last seen open."""
        found: dict[WriteId, float] = {}
        for sighting in self.sightings:
            for write_id in sighting.write_ids.open:
                found[write_id] = max(sighting.after_s, found.get(write_id, sighting.after_s))
        return found

    @cached_property
    def _given_after(self) -> tuple[list[WriteId], list[float]]:
        """Write IDs, ascending, and a moment after which each and all above it were given out."""
        given = sorted(self.given, key=lambda g: g.write_id)
        return [g.write_id for g in given], [*accumulate((g.after_s for g in given), max)]

    def at(self, at_s: float, now: ValidWriteIdList) -> Members:
        """Which of the writes that are committed now were committed at a moment.

        A write of which notes tell both that it was committed by then and that it was not, is
        doubtful: a clock was set back, and showed that moment twice.

        Args:
            at_s: the moment, seconds since 1970.
            now: what is committed now; taken at that moment or later.
        """
        earlier = [s for s in self.sightings if s.by_s <= at_s]
        later = [s for s in self.sightings if s.after_s > at_s]
        # Nothing that was given out later can have been committed.
        too_late = min((g.write_id for g in self.given if g.after_s > at_s), default=None)
        open_later = frozenset(w for s in later for w in s.write_ids.open)
        noted_later = frozenset(
            w for w, b in self.commits.items() if b.after_s is not None and b.after_s > at_s
        )
        last = max(earlier, key=lambda s: s.write_ids.high_watermark, default=None)
        seen = None if last is None else last.write_ids
        inside, outside, doubtful = set[WriteId](), set[WriteId](), set[WriteId]()
        # What an earlier snapshot shows is inside, unless somebody contradicts.
        contradicted = {*open_later, *noted_later}
        if too_late is not None and seen is not None:
            contradicted |= {WriteId(w) for w in range(too_late, seen.high_watermark + 1)}
        set_back = self._set_back_around(at_s)
        contradicted |= set_back
        candidates = {*_undecided(now, seen), *(w for w in contradicted if now.is_visible(w))}
        for write_id in candidates:
            known = self.commits.get(write_id, Between())
            is_inside = (known.by_s is not None and known.by_s <= at_s) or (
                seen is not None
                and write_id <= seen.high_watermark
                and any(s.write_ids.is_visible(write_id) for s in earlier)
            )
            is_outside = (
                write_id in noted_later
                or write_id in open_later
                or (too_late is not None and write_id >= too_late)
            )
            if is_inside is is_outside or write_id in set_back:
                doubtful.add(write_id)
            else:
                (inside if is_inside else outside).add(write_id)
        return Members(
            inside=frozenset(inside), outside=frozenset(outside), doubtful=frozenset(doubtful)
        )

    def _set_back_around(self, at_s: float) -> frozenset[WriteId]:
        """Writes during which a clock was set back, if that may matter at a moment.

        Somebody has seen that a write ID had been given out at a time when, by its own job, it had
        not. By that job's clock, which it reads once, everything that it did seems later than it
        was to all who came after.
        """
        looks = sorted(self.sightings, key=lambda s: s.write_ids.high_watermark, reverse=True)
        found, earliest_s, at = set[WriteId](), math.inf, 0
        for given in sorted(self.given, key=lambda g: g.write_id, reverse=True):
            while at < len(looks) and looks[at].write_ids.high_watermark >= given.write_id:
                earliest_s = min(earliest_s, looks[at].by_s)
                at += 1
            ended_s = self.commits.get(given.write_id, Between()).by_s
            if earliest_s < given.after_s and earliest_s <= at_s <= (ended_s or given.after_s):
                found.add(given.write_id)
        return frozenset(found)

    def unlisted(self, at_s: float, now: ValidWriteIdList) -> tuple[WriteId, ...]:
        """Writes above the end of a list that are known to be committed, at that moment perhaps.

        Metastores may end a list early for a while: at one that is open or aborted (docs/adr/0014).

        Args:
            at_s: the moment, seconds since 1970.
            now: what the metastore lists now.
        """
        if now.is_visible(now.high_watermark):
            return ()
        first = WriteId(now.high_watermark + 1)
        found = {w for w in self.commits if w >= first}
        for seen in (s.write_ids for s in self.sightings):
            found |= {w for w in _up_to(first, seen.high_watermark) if seen.is_visible(w)}
        known = ((w, self.of_commit(w).after_s) for w in sorted(found))
        return tuple(w for w, after_s in known if after_s is None or after_s <= at_s)

    def is_ahead_of(self, taken_s: float) -> bool:
        """Whether something is noted that the clock of now has not reached yet.

        Args:
            taken_s: a moment shortly before all of it was read.
        """
        times = [b.after_s for b in self.commits.values() if b.after_s is not None]
        times += [s.after_s for s in self.sightings]
        return max(times, default=taken_s) > taken_s + _LONGEST_LOOK_S


def as_of_time(
    now: ValidWriteIdList, at: datetime, known: Knowledge, *, taken_s: float | None
) -> ValidWriteIdList:
    """What a reader of the state at a moment sees.

    Args:
        now: what is committed now.
        at: the moment.
        known: of the commits.
        taken_s: a moment, by the metastore's clock, at or before which `now` was taken; None if
            the metastore does not tell the time.

    Raises:
        VersionNotYetError: the moment is not over, by less than clocks may differ.
        VersionUnknownError: it is further ahead, or before the table's birth.
        VersionDoubtfulError: nobody knows of some commits whether they were before it.
    """
    at_s, table = at.timestamp(), now.table
    if taken_s is None:
        raise VersionUnknownError(
            table=table,
            detail="cannot be read as of a time, since the metastore does not say what time it is;"
            " ask for a version by its number",
        )
    if taken_s < at_s <= taken_s + _MOST_SKEW_S:
        raise VersionNotYetError(table=table, when=at.isoformat(), now=time_text(taken_s))
    if at_s > taken_s:
        raise VersionUnknownError(
            table=table,
            detail=f"has no state at {at.isoformat()} yet; by the metastore's clock it is"
            f" {time_text(taken_s)}",
        )
    if known.is_ahead_of(taken_s):
        why = "something later is noted already, so that the metastore's clock was set back"
        raise VersionDoubtfulError(
            table=table,
            when=at.isoformat(),
            doubtful=(f"it is {time_text(taken_s)} and {why}",),
            before=0,
            after=now.high_watermark,
        )
    unlisted = known.unlisted(at_s, now)
    if unlisted:
        end = now.high_watermark
        raise VersionDoubtfulError(
            table=table,
            when=at.isoformat(),
            doubtful=tuple(
                f"write ID {w} was committed {known.of_commit(w)}, and the metastore's list ends at"
                f" {end} until somebody else commits"
                for w in unlisted
            ),
            before=end,
            after=max(unlisted),
        )
    found = known.at(at_s, now)
    is_early = known.born_s is not None and at_s < known.born_s and not found.inside
    if is_early and (not found.doubtful or at_s < (known.born_s or 0.0) - _MOST_SKEW_S):
        raise VersionUnknownError(
            table=table,
            detail=f"has no state at {at.isoformat()}; it was made at"
            f" {time_text(known.born_s or 0.0)}",
        )
    if found.doubtful:
        first = min(found.doubtful | found.outside)
        raise VersionDoubtfulError(
            table=table,
            when=at.isoformat(),
            doubtful=tuple(
                f"write ID {w} was committed {known.of_commit(w)}" for w in sorted(found.doubtful)
            ),
            before=first - 1,
            after=max(found.doubtful | found.inside),
        )
    return as_of_set(now, found.outside)


def below(location: str, uri: str) -> str:
    """A URI as a path below a location, if it is one.

    Example:
        >>> below("file:/t/", "file:/t/p=1/base_3"), below("file:/t", "file:/u/base_3")
        ('p=1/base_3', 'file:/u/base_3')
    """
    return uri.removeprefix(f"{location.rstrip('/')}/")


def time_text(seconds: float) -> str:
    """A moment for people, in UTC, to the millisecond.

    Example:
        >>> time_text(1.5)
        '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}.{moment.microsecond // 1000:03d}Z"


def _high_watermark(sighting: Sighting) -> WriteId:
    return sighting.write_ids.high_watermark


def _up_to(first: WriteId, last: WriteId) -> Iterator[WriteId]:
    return map(WriteId, range(first, last + 1))


def _undecided(now: ValidWriteIdList, seen: ValidWriteIdList | None) -> Iterator[WriteId]:
    """The committed write IDs of a list that an earlier one of the same table does not show."""
    if seen is None:
        candidates: Iterable[int] = range(1, now.high_watermark + 1)
    else:
        above = range(seen.high_watermark + 1, now.high_watermark + 1)
        candidates = (*seen.open, *seen.aborted, *above)
    for number in candidates:
        write_id = WriteId(number)
        if now.is_visible(write_id):
            yield write_id

"""Who bears witness of what a version had: notes of commits, of keeping, and of what is known lost.

DROP PARTITION, TRUNCATE of Hive 3.1 and hands remove files without a write ID, and a root from
which all was removed looks like one that never had anything. Takes the notes of a table, and what a
version reads of a root; gives what it had and is not there any more, in words, and what a cleaner
has to note of that (`Reset`). What was noted so excuses later versions: they never had it. Must not
know a metastore.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from airflow_hiveacid.format.ids import LONG_MAX, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import is_seen, not_held, write_id_of
from airflow_hiveacid.plan.history import below
from airflow_hiveacid.plan.keeping import Reset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.plan.history import CommitNote
    from airflow_hiveacid.plan.keeping import Horizon, Keeping

_NONE = WriteId(0)


@dataclass(frozen=True, kw_only=True)  # no slots: notes are sorted by partition once
class Witnesses:
    """What is noted of a table's past.

    `keeping` bears witness of what was live when it began, also if it was broken since.
    """

    table: TableInfo
    commits: tuple[CommitNote, ...] = field(default=(), repr=False)
    keeping: Keeping | None = None
    horizons: tuple[Horizon, ...] = ()
    resets: tuple[Reset, ...] = ()

    # ---- of a root that is there -----------------------------------------------------------------

    def missed(self, info: PartitionInfo, state: AcidState, then: ValidWriteIdList) -> str | None:
        """What a version had in a root and is not there any more; None if nothing is known of it.

        Args:
            info: the root.
            state: what the version reads there.
            then: what it sees.
        """
        for reset in self._resets(info.name):
            if reset.may_have_been_in(then.high_watermark) and not _covers(state, reset):
                return (
                    f"{info.location} had files up to version {reset.write_id} that were removed"
                    " without a version of their own"
                )
        excused = self._excused(info.name, then)
        lost = not_held(state, self._live_once(info.name, then) - excused)
        if lost is not None:
            return f"{info.location}/{lost} is not there any more"
        for note in self._commits_of(info):
            if then.is_visible(note.write_id):
                for name in self._lost_of(note, info, state):
                    if name not in excused:
                        return (
                            f"{name}, which version {note.write_id} wrote, is not at"
                            f" {info.location} any more, without a version of its own: somebody"
                            " dropped or moved the partition, or truncated the table with Hive 3.1,"
                            " or removed files by hand"
                        )
        return self._moved(info, state, then)

    def _moved(self, info: PartitionInfo, state: AcidState, then: ValidWriteIdList) -> str | None:
        """What a version had in another partition, and is in this one now."""
        names = [d.name for d in state.live if not d.is_compacted]
        for name, until in self.strangers(info, names):
            if then.high_watermark <= until:
                return (
                    f"{info.location}/{name} was written to another partition, whose files somebody"
                    " has moved here without a version of their own"
                )
        return None

    def strangers(
        self, info: PartitionInfo, names: Iterable[BaseName | DeltaName]
    ) -> Iterator[tuple[BaseName | DeltaName, WriteId]]:
        """What came from another partition, as by its rename, and the last version without it here.

        Of later ones it was noted that the other partition has lost it.

        Args:
            info: the root.
            names: what is there; a compactor's directories tell nothing.
        """
        own = {note.write_id for note in self._commits_of(info)}
        for name in names if info.name.columns else ():
            note = None if name.high in own else self._by_number.get(name.high)
            paths = [] if note is None else self._leaves[note.write_id].get(str(name), [])
            # First what is quick: a compactor's base may end with a write to other partitions.
            if paths and note and info.name not in map(PartitionName.parse, note.partitions):
                noted = (self._lost_since[path] for path in paths if path in self._lost_since)
                yield name, max(noted, default=WriteId(LONG_MAX))

    def unproven(self, state: AcidState, then: ValidWriteIdList) -> str | None:
        """Why nobody can prove that a version of the whole table had nothing; None if one can.

        That is what is left of it, too, if somebody has removed all files without a write ID.

        Args:
            state: what the version reads of a root.
            then: what it sees.
        """
        if self.table.is_partitioned or state.live or state.originals:
            return None
        number = self.first_unknown(then)
        if number is None:
            return None
        return f"nothing is there of what versions up to {number} wrote, or nobody knows it"

    def first_unknown(self, then: ValidWriteIdList) -> WriteId | None:
        """The first committed write of which no note tells; None if there is none."""
        noted = {note.write_id for note in self.commits}
        numbers = map(WriteId, range(1, then.high_watermark + 1))
        return next((w for w in numbers if w not in noted and then.is_visible(w)), None)

    def removed_between(
        self, partition: PartitionName, since: ValidWriteIdList, until: ValidWriteIdList
    ) -> bool:
        """Whether what one version may have had was removed before another, and nobody tells so."""
        return any(
            since.high_watermark > 0
            and reset.may_have_been_in(since.high_watermark)
            and reset.write_id < until.high_watermark
            for reset in self._resets(partition)
        )

    def newly_lost(
        self, info: PartitionInfo, state: AcidState, now: ValidWriteIdList
    ) -> Mapping[str, tuple[WriteId, WriteId]]:
        """What a root had that is lost, and not noted yet: from and up to which write ID it went.

        Args:
            info: the root.
            state: what is read there now.
            now: what is committed now.
        """
        found: dict[str, tuple[WriteId, WriteId]] = {}
        root = None if self.keeping is None else self.keeping.roots.get(info.name)
        for text in () if root is None else root.witnesses:
            if not_held(state, [text]) is not None:
                found[text] = (_lowest_of(text), write_id_of(text))
        for note in self._commits_of(info):
            if now.is_visible(note.write_id):
                lost = self._lost_of(note, info, state)
                found |= dict.fromkeys(lost, (note.write_id, note.write_id))
        noted = self._noted(info.name)
        return {name: ends for name, ends in found.items() if name not in noted}

    # ---- of partitions that are not there --------------------------------------------------------

    def vanished(
        self, existing: Collection[PartitionName], then: ValidWriteIdList
    ) -> frozenset[PartitionName]:
        """Partitions that a version had, as far as we know, and that are not there any more."""
        there = frozenset(existing)
        found = {
            partition
            for partition, names in self._names_of(there, then).items()
            if names.keys() - self._excused(partition, then)
        }
        # One that was renamed is a new one by name, of which no horizon is known.
        found |= {
            one.partition
            for one in self.horizons
            if one.partition not in there
            and not any(
                one.write_id <= reset.write_id < then.high_watermark
                for reset in self._resets(one.partition)
            )
        }
        found |= {
            reset.partition
            for reset in self.resets
            if reset.partition not in there and reset.may_have_been_in(then.high_watermark)
        }
        return frozenset(found)

    def newly_dropped(
        self, existing: Collection[PartitionName], now: ValidWriteIdList
    ) -> tuple[Reset, ...]:
        """What is to be noted of partitions that are not there any more.

        Args:
            existing: asked for before `now` was: what is written after it may still have had them.
            now: what is committed now.
        """
        there, high = frozenset(existing), now.high_watermark
        ends: dict[PartitionName, dict[str, WriteId]] = {}
        for partition, names in self._names_of(there, now).items():
            noted = self._noted(partition)
            ends[partition] = {n: lowest for n, lowest in names.items() if n not in noted}
        for one in self.horizons:
            known = [reset.write_id for reset in self._resets(one.partition)]
            if one.partition not in there and max(known, default=_NONE) < one.write_id:
                ends.setdefault(one.partition, {})[_horizon_name(one)] = _NONE
        return tuple(
            Reset(
                partition=partition,
                write_id=high,
                lowest=min(names.values()),
                highest=high,
                names=frozenset(names),
            )
            for partition, names in ends.items()
            if names
        )

    def superfluous(
        self, existing: Collection[PartitionName], noted: Iterable[Reset]
    ) -> tuple[Horizon, ...]:
        """The horizons of dropped partitions of which a note refuses every version up to theirs.

        Args:
            existing: the partitions that are there.
            noted: what is noted besides.
        """
        there, ends = frozenset(existing), dict[PartitionName, WriteId]()
        for reset in (*self.resets, *noted):
            if reset.lowest == _NONE:
                name = reset.partition
                ends[name] = max(reset.write_id, ends.get(name, _NONE))
        return tuple(
            one
            for one in self.horizons
            if one.partition not in there and one.write_id <= ends.get(one.partition, _NONE)
        )

    # ---- what is noted ---------------------------------------------------------------------------

    def of_root(self, info: PartitionInfo) -> Witnesses:
        """What is noted of one root that is there."""
        keeping = self.keeping
        if keeping is not None:
            root = keeping.roots.get(info.name)
            keeping = replace(keeping, roots={} if root is None else {info.name: root})
        return Witnesses(
            table=self.table,
            commits=tuple(self._commits_of(info)),
            keeping=keeping,
            horizons=tuple(self._horizons.get(info.name, ())),
            resets=tuple(self._resets(info.name)),
        )

    def without(self, existing: Collection[PartitionName]) -> Witnesses:
        """What is noted of partitions that are not there."""
        there, keeping = frozenset(existing), self.keeping
        texts = {str(name) for name in there}
        if keeping is not None:
            roots = {name: root for name, root in keeping.roots.items() if name not in there}
            keeping = replace(keeping, roots=roots)
        return Witnesses(
            table=self.table,
            commits=tuple(n for n in self.commits if not texts.issuperset(n.partitions)),
            keeping=keeping,
            horizons=tuple(one for one in self.horizons if one.partition not in there),
            resets=tuple(one for one in self.resets if one.partition not in there),
        )

    def _commits_of(self, info: PartitionInfo) -> Sequence[CommitNote]:
        """The commits that wrote to a root, or may have."""
        if not info.name.columns:
            return self.commits
        return (*self._by_partition.get("", ()), *self._by_partition.get(str(info.name), ()))

    @cached_property
    def _by_partition(self) -> Mapping[str, list[CommitNote]]:
        found: dict[str, list[CommitNote]] = {}
        for note in self.commits:
            for text in note.partitions or ("",):
                found.setdefault(text, []).append(note)
        return found

    def _names_of(
        self, there: frozenset[PartitionName], then: ValidWriteIdList
    ) -> dict[PartitionName, dict[str, WriteId]]:
        """What a version had in partitions that are not there, and from which write ID on."""
        found: dict[PartitionName, dict[str, WriteId]] = {}
        texts = {str(name) for name in there}
        for note in self.commits:
            if then.is_visible(note.write_id):
                for text in note.partitions:
                    if text not in texts and (name := PartitionName.parse(text)) not in there:
                        names = dict.fromkeys(self._written_to(note, text), note.write_id)
                        found.setdefault(name, {}).update(names)
        for name in () if self.keeping is None else self.keeping.roots:
            if name not in there and (once := self._live_once(name, then)):
                found.setdefault(name, {}).update({text: _lowest_of(text) for text in once})
        return found

    def _lost_of(self, note: CommitNote, info: PartitionInfo, state: AcidState) -> tuple[str, ...]:
        """What a commit put into a root, of which nothing is left there, as paths or URIs.

        Args:
            note: the commit, one of `_commits_of`.
            info: the root.
            state: what a reader reads there who sees the commit.
        """
        if state.base is not None and state.base.high >= note.write_id:
            return ()
        where = below(self.table.location, f"{info.location.rstrip('/')}/")
        places = self._written[note.write_id]
        here = places.get(where, [])
        wrote_here = bool(note.partitions if info.name.columns else places)
        if wrote_here and not here:  # the partition is at another place now
            return tuple(chain.from_iterable(places.values()))
        live = [d.name for d in state.live]
        return tuple(p for p in here if not _is_held(p.removeprefix(where), live))

    def _written_to(self, note: CommitNote, partition: str) -> tuple[str, ...]:
        """What a commit put into a partition, as paths or URIs; all of it if nobody can tell."""
        places = self._written[note.write_id]
        here = places.get(f"{partition}/") or chain.from_iterable(places.values())
        return tuple(here) or (f"version {note.write_id}",)

    @cached_property
    def _by_number(self) -> Mapping[WriteId, CommitNote]:
        return {note.write_id: note for note in self.commits}

    @cached_property
    def _leaves(self) -> Mapping[WriteId, Mapping[str, list[str]]]:
        """What each commit put anywhere, as paths or URIs, by the names of directories."""
        found: dict[WriteId, dict[str, list[str]]] = {}
        for write_id, places in self._written.items():
            leaves = found.setdefault(write_id, {})
            for path in chain.from_iterable(places.values()):
                leaves.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    @cached_property
    def _lost_since(self) -> Mapping[str, WriteId]:
        """Up to which version each path may have been where it is missed."""
        found: dict[str, WriteId] = {}
        for reset in self.resets:
            found |= {name: max(reset.write_id, found.get(name, _NONE)) for name in reset.names}
        return found

    @cached_property
    def _written(self) -> Mapping[WriteId, Mapping[str, list[str]]]:
        """What each commit put into each place, as paths or URIs; a place ends in a slash.

        One commit may have written to ten thousand partitions, and each of these asks for its own.
        """
        found: dict[WriteId, dict[str, list[str]]] = {}
        for note in self.commits:
            places = found.setdefault(note.write_id, {})
            for directory in note.directories:
                path = below(self.table.location, directory)
                places.setdefault(path[: path.rfind("/") + 1], []).append(path)
        return found

    def _live_once(self, partition: PartitionName, then: ValidWriteIdList) -> frozenset[str]:
        """What was live in a partition when keeping began, and may be a version's."""
        root = None if self.keeping is None else self.keeping.roots.get(partition)
        names = () if root is None else root.witnesses
        return frozenset(text for text in names if is_seen(then, text))

    def _resets(self, partition: PartitionName) -> Sequence[Reset]:
        return self._by_name.get(partition, ())

    @cached_property
    def _by_name(self) -> Mapping[PartitionName, list[Reset]]:
        found: dict[PartitionName, list[Reset]] = {}
        for one in self.resets:
            found.setdefault(one.partition, []).append(one)
        return found

    @cached_property
    def _horizons(self) -> Mapping[PartitionName, list[Horizon]]:
        found: dict[PartitionName, list[Horizon]] = {}
        for one in self.horizons:
            found.setdefault(one.partition, []).append(one)
        return found

    def _noted(self, partition: PartitionName) -> frozenset[str]:
        return frozenset(name for one in self._resets(partition) for name in one.names)

    def _excused(self, partition: PartitionName, then: ValidWriteIdList) -> frozenset[str]:
        """What was known to be removed before a version came to be."""
        return frozenset(
            name
            for one in self._resets(partition)
            if one.write_id < then.high_watermark
            for name in one.names
        )


def _covers(state: AcidState, reset: Reset) -> bool:
    """Whether a version needs nothing of what was removed: it was written anew above all of that.

    A compactor's base does not count: it may have been made when that was gone already.
    """
    base = state.base
    return base is not None and not base.is_compacted and base.high > reset.highest


def _horizon_name(horizon: Horizon) -> str:
    return f"horizon {horizon.write_id}"


def _lowest_of(text: str) -> WriteId:
    """From which write ID on a version may have had a directory; nobody knows it of a base."""
    name = parse_directory_name(text)
    return name.low if isinstance(name, DeltaName) else _NONE


def _is_held(text: str, live: Iterable[BaseName | DeltaName]) -> bool:
    name = parse_directory_name(text)
    if name is None:
        return True  # not one that we know how to look for
    # Nothing holds a base: there is none from its write ID on.
    return any(isinstance(other, DeltaName) and other.holds(name) for other in live)

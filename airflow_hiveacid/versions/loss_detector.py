"""Detect files of past versions that were removed without a write ID.

DROP PARTITION, TRUNCATE in Hive 3.1 and manual deletion remove files without a write ID. A root
then looks as if it never had files; only notes of commits, guarantees and known losses tell.

Input is the notes of a table, and the state of a root in a version. Output describes the version's
missing files, and the losses that a cleaner must note (`Reset`), so that later versions, which
never contained the files, remain readable. Must not depend on a metastore.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.ids import LONG_MAX, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.records import CommitNote, Horizon, Keeping, Promises, Reset
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.format.versions import is_seen, not_held, write_id_of
from airflow_hiveacid.plan.history import below

_NONE = WriteId(0)

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, kw_only=True)  # no slots, for cached properties
class LossDetector:
    """The notes about a table's past, with methods that detect missing files.

    `keeping` has the live files at the start of the guarantee, even if it was broken later.
    """

    table: TableInfo
    commits: tuple[CommitNote, ...] = field(default=(), repr=False)
    keeping: Keeping | None = None
    horizons: tuple[Horizon, ...] = ()
    resets: tuple[Reset, ...] = ()

    @classmethod
    def of(
        cls, table: TableInfo, commits: tuple[CommitNote, ...], promises: Promises
    ) -> LossDetector:
        """Return a detector with the notes of a table's commits and guarantees."""
        return cls(
            table=table,
            commits=commits,
            keeping=promises.keeping,
            horizons=promises.horizons,
            resets=promises.resets,
        )

    # ---- a root that exists ----------------------------------------------------------------------

    def missed(self, info: PartitionInfo, state: AcidState, then: ValidWriteIdList) -> str | None:
        """Describe what is missing in a root in the version with the write IDs `then`, or None."""
        for reset in self._resets(info.name):
            if reset.may_have_been_in(then.high_watermark) and not _covers(state, reset):
                return (
                    f"{info.location} had files up to version {reset.write_id} that were removed"
                    " without a write ID"
                )
        excused = self._excused(info.name, then)
        lost = not_held(state, self._live_once(info.name, then) - excused)
        if lost is not None:
            return f"{info.location}/{lost} is missing"
        for note in self._commits_of(info):
            if then.is_visible(note.write_id):
                for name in self._lost_of(note, info, state):
                    if name not in excused:
                        return (
                            f"{name}, which version {note.write_id} wrote, is missing at"
                            f" {info.location} and was removed without a write ID: the partition"
                            " was dropped or moved, the table was truncated with Hive 3.1, or"
                            " files were removed by hand"
                        )
        return self._moved(info, state, then)

    def _moved(self, info: PartitionInfo, state: AcidState, then: ValidWriteIdList) -> str | None:
        names = [d.name for d in state.live if not d.is_compacted]
        for name, until in self.strangers(info, names):
            if then.high_watermark <= until:
                return (
                    f"{info.location}/{name} was written to another partition, whose files were"
                    " moved here without a write ID"
                )
        return None

    def strangers(
        self, info: PartitionInfo, names: Iterable[BaseName | DeltaName]
    ) -> Iterator[tuple[BaseName | DeltaName, WriteId]]:
        """Yield moved directories, each with the last version that may have it where it was.

        For later versions, a note records its loss there. Names of a compactor's directories are no
        evidence.
        """
        own = {note.write_id for note in self._commits_of(info)}
        for name in names if info.name.columns else ():
            note = None if name.high in own else self._by_number.get(name.high)
            paths = [] if note is None else self._leaves[note.write_id].get(str(name), [])
            # Check `paths` first, because this check is fast. The write ID of a compactor's base
            # may belong to a write to other partitions.
            if paths and note and info.name not in map(PartitionName.parse, note.partitions):
                noted = (self._lost_since[path] for path in paths if path in self._lost_since)
                yield name, max(noted, default=WriteId(LONG_MAX))

    def unproven(self, state: AcidState, then: ValidWriteIdList) -> str | None:
        """Return why a table that looks empty at a version may have had rows, or None.

        All its files may have been removed without a write ID. `then` are the version's write IDs.
        """
        if self.table.is_partitioned or state.live or state.originals:
            return None
        number = self.first_unknown(then)
        if number is None:
            return None
        return (
            f"no files of versions up to {number} are left, or it is unknown what those versions"
            " wrote"
        )

    def first_unknown(self, then: ValidWriteIdList) -> WriteId | None:
        """Return the first committed write ID without a note; None if every write ID has a note."""
        noted = {note.write_id for note in self.commits}
        numbers = map(WriteId, range(1, then.high_watermark + 1))
        return next((w for w in numbers if w not in noted and then.is_visible(w)), None)

    def removed_between(
        self, partition: PartitionName, since: ValidWriteIdList, until: ValidWriteIdList
    ) -> bool:
        """Return True if an operation without a write ID may have removed files meanwhile."""
        return any(
            since.high_watermark > 0
            and reset.may_have_been_in(since.high_watermark)
            and reset.write_id < until.high_watermark
            for reset in self._resets(partition)
        )

    def newly_lost(
        self, info: PartitionInfo, state: AcidState, now: ValidWriteIdList
    ) -> Mapping[str, tuple[WriteId, WriteId]]:
        """Return a root's missing files that no loss note lists, each with its write ID range."""
        ranges: dict[str, tuple[WriteId, WriteId]] = {}
        root = None if self.keeping is None else self.keeping.roots.get(info.name)
        for text in () if root is None else root.evidence:
            if not_held(state, [text]) is not None:
                ranges[text] = (lowest_of(text), write_id_of(text))
        for note in self._commits_of(info):
            if now.is_visible(note.write_id):
                lost = self._lost_of(note, info, state)
                ranges |= dict.fromkeys(lost, (note.write_id, note.write_id))
        noted = self._noted(info.name)
        return {name: ends for name, ends in ranges.items() if name not in noted}

    # ---- partitions that no longer exist ---------------------------------------------------------

    def vanished(
        self, existing: Collection[PartitionName], then: ValidWriteIdList
    ) -> frozenset[PartitionName]:
        """Return the known partitions of a version that no longer exist."""
        partitions = frozenset(existing)
        lost_partitions = {
            partition
            for partition, names in self._names_of(partitions, then).items()
            if names.keys() - self._excused(partition, then)
        }
        # After a rename, a partition's horizons are still stored under its old name.
        lost_partitions |= {
            horizon.partition
            for horizon in self.horizons
            if horizon.partition not in partitions
            and not any(
                horizon.write_id <= reset.write_id < then.high_watermark
                for reset in self._resets(horizon.partition)
            )
        }
        lost_partitions |= {
            reset.partition
            for reset in self.resets
            if reset.partition not in partitions and reset.may_have_been_in(then.high_watermark)
        }
        return frozenset(lost_partitions)

    def newly_dropped(
        self, existing: Collection[PartitionName], now: ValidWriteIdList
    ) -> tuple[Reset, ...]:
        """Return the notes to write about partitions that no longer exist.

        List the `existing` partitions before `now` is read: one that was dropped in between might
        exist in versions after `now`, which the note would not cover.
        """
        partitions, high = frozenset(existing), now.high_watermark
        ends: dict[PartitionName, dict[str, WriteId]] = {}
        for partition, names in self._names_of(partitions, now).items():
            noted = self._noted(partition)
            ends[partition] = {n: lowest for n, lowest in names.items() if n not in noted}
        for horizon in self.horizons:
            ids = [reset.write_id for reset in self._resets(horizon.partition)]
            if horizon.partition not in partitions and max(ids, default=_NONE) < horizon.write_id:
                # In place of a file's name: a horizon does not show the lowest version, so it is 0.
                ends.setdefault(horizon.partition, {})[f"horizon {horizon.write_id}"] = _NONE
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
        """Return horizons of dropped partitions that a `Reset` replaces, also one of `noted`."""
        partitions, ends = frozenset(existing), dict[PartitionName, WriteId]()
        for reset in (*self.resets, *noted):
            if reset.lowest == _NONE:
                name = reset.partition
                ends[name] = max(reset.write_id, ends.get(name, _NONE))
        return tuple(
            horizon
            for horizon in self.horizons
            if horizon.partition not in partitions
            and horizon.write_id <= ends.get(horizon.partition, _NONE)
        )

    # ---- parts of the notes ----------------------------------------------------------------------

    def of_root(self, info: PartitionInfo) -> LossDetector:
        """Return only the notes about one existing root."""
        keeping = self.keeping
        if keeping is not None:
            root = keeping.roots.get(info.name)
            keeping = replace(keeping, roots={} if root is None else {info.name: root})
        return LossDetector(
            table=self.table,
            commits=tuple(self._commits_of(info)),
            keeping=keeping,
            horizons=tuple(self._horizons.get(info.name, ())),
            resets=tuple(self._resets(info.name)),
        )

    def without(self, existing: Collection[PartitionName]) -> LossDetector:
        """Return only the notes about partitions that do not exist."""
        partitions, keeping = frozenset(existing), self.keeping
        texts = {str(name) for name in partitions}
        if keeping is not None:
            roots = {name: root for name, root in keeping.roots.items() if name not in partitions}
            keeping = replace(keeping, roots=roots)
        return LossDetector(
            table=self.table,
            commits=tuple(n for n in self.commits if not texts.issuperset(n.partitions)),
            keeping=keeping,
            horizons=tuple(
                horizon for horizon in self.horizons if horizon.partition not in partitions
            ),
            resets=tuple(reset for reset in self.resets if reset.partition not in partitions),
        )

    def _commits_of(self, info: PartitionInfo) -> Sequence[CommitNote]:
        """Return the notes of commits that wrote, or may have written, to a root."""
        if not info.name.columns:
            return self.commits
        return (*self._by_partition.get("", ()), *self._by_partition.get(str(info.name), ()))

    @cached_property
    def _by_partition(self) -> Mapping[str, list[CommitNote]]:
        return _grouped((text, note) for note in self.commits for text in note.partitions or ("",))

    def _names_of(
        self, partitions: frozenset[PartitionName], then: ValidWriteIdList
    ) -> dict[PartitionName, dict[str, WriteId]]:
        """Return a version's directories in missing partitions, with their first write IDs."""
        lost_names: dict[PartitionName, dict[str, WriteId]] = {}
        texts = {str(name) for name in partitions}
        for note in self.commits:
            if then.is_visible(note.write_id):
                for text in note.partitions:
                    if text not in texts and (name := PartitionName.parse(text)) not in partitions:
                        names = dict.fromkeys(self._written_to(note, text), note.write_id)
                        lost_names.setdefault(name, {}).update(names)
        for name in () if self.keeping is None else self.keeping.roots:
            if name not in partitions and (once := self._live_once(name, then)):
                lost_names.setdefault(name, {}).update({text: lowest_of(text) for text in once})
        return lost_names

    def _lost_of(self, note: CommitNote, info: PartitionInfo, state: AcidState) -> tuple[str, ...]:
        """Return the missing paths or URIs that a commit wrote to a root."""
        if state.base is not None and state.base.high >= note.write_id:
            return ()
        where = below(self.table.location, f"{info.location.rstrip('/')}/")
        by_location = self._written[note.write_id]
        paths = by_location.get(where, [])
        wrote_here = bool(note.partitions if info.name.columns else by_location)
        if wrote_here and not paths:  # the partition now has a different location
            return tuple(chain.from_iterable(by_location.values()))
        live = [d.name for d in state.live]
        return tuple(p for p in paths if not _is_held(p.removeprefix(where), live))

    def _written_to(self, note: CommitNote, partition: str) -> tuple[str, ...]:
        by_location = self._written[note.write_id]
        paths = by_location.get(f"{partition}/") or chain.from_iterable(by_location.values())
        return tuple(paths) or (f"version {note.write_id}",)

    @cached_property
    def _by_number(self) -> Mapping[WriteId, CommitNote]:
        return {note.write_id: note for note in self.commits}

    @cached_property
    def _leaves(self) -> Mapping[WriteId, Mapping[str, list[str]]]:
        """The paths or URIs that each commit wrote, by directory name."""
        return {
            write_id: _grouped(
                (path.rpartition("/")[2], path)
                for path in chain.from_iterable(by_location.values())
            )
            for write_id, by_location in self._written.items()
        }

    @cached_property
    def _lost_since(self) -> Mapping[str, WriteId]:
        """For each missing path, the last version that may have contained the path."""
        ends: dict[str, WriteId] = {}
        for reset in self.resets:
            ends |= {name: max(reset.write_id, ends.get(name, _NONE)) for name in reset.names}
        return ends

    @cached_property
    def _written(self) -> Mapping[WriteId, Mapping[str, list[str]]]:
        """The paths or URIs that each commit wrote, by location with a slash at its end."""
        locations_by_write: dict[WriteId, dict[str, list[str]]] = {}
        for note in self.commits:
            by_location = locations_by_write.setdefault(note.write_id, {})
            for directory in note.directories:
                path = below(self.table.location, directory)
                by_location.setdefault(path[: path.rfind("/") + 1], []).append(path)
        return locations_by_write

    def _live_once(self, partition: PartitionName, then: ValidWriteIdList) -> frozenset[str]:
        root = None if self.keeping is None else self.keeping.roots.get(partition)
        names = () if root is None else root.evidence
        return frozenset(text for text in names if is_seen(then, text))

    def _resets(self, partition: PartitionName) -> Sequence[Reset]:
        return self._by_name.get(partition, ())

    @cached_property
    def _by_name(self) -> Mapping[PartitionName, list[Reset]]:
        return _grouped((reset.partition, reset) for reset in self.resets)

    @cached_property
    def _horizons(self) -> Mapping[PartitionName, list[Horizon]]:
        return _grouped((horizon.partition, horizon) for horizon in self.horizons)

    def _noted(self, partition: PartitionName) -> frozenset[str]:
        return frozenset(name for reset in self._resets(partition) for name in reset.names)

    def _excused(self, partition: PartitionName, then: ValidWriteIdList) -> frozenset[str]:
        """Return files that notes list and that were removed before a version was written."""
        return frozenset(
            name
            for reset in self._resets(partition)
            if reset.write_id < then.high_watermark
            for name in reset.names
        )


def _covers(state: AcidState, reset: Reset) -> bool:
    """Return True if a later base, not of a compactor, replaced the removed files."""
    base = state.base
    return base is not None and not base.is_compacted and base.high > reset.highest


def _grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    groups: dict[_K, list[_V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def lowest_of(text: str) -> WriteId:
    """Return a directory's lowest write ID; return 0 for a base, since it is unknown."""
    name = parse_directory_name(text)
    return name.low if isinstance(name, DeltaName) else _NONE


def _is_held(text: str, live: Iterable[BaseName | DeltaName]) -> bool:
    name = parse_directory_name(text)
    if name is None:
        return True  # an unknown kind of name
    # Only a base can replace a base, and no visible base has an equal or higher write ID.
    return any(isinstance(directory, DeltaName) and directory.holds(name) for directory in live)

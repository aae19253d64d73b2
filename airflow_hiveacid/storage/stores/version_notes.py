"""Notes in a table's hidden directory about its past: commits, tags, guarantees to keep files.

Each fact has its own small file. Without a commit's note, commit times are less exact; without a
guarantee's, fewer versions are readable. A damaged horizon or tag is an error, because it records
which files may be missing or must stay. See docs/decisions/versions.md.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import (
    CommitNote,
    Horizon,
    Keeping,
    OwnCompaction,
    Promises,
    Reset,
    Tag,
)
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.filesystem import exists
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads

_VERSION: Final = 1
_COMMITS: Final = "_commit"
_COMMIT: Final = "_commit_"
_BUNDLE: Final = "_commits_"
_ENOUGH_TO_BUNDLE: Final = 50
_MOST_IN_BUNDLE: Final = 1000
_MOST_BUNDLED: Final = 256
_ENOUGH_TO_MERGE: Final = 8
_SMALL_BUNDLE_BYTES: Final = 200_000
_TAG: Final = "_tag_"
_KEEPING: Final = "_kept_"
_HORIZON: Final = "_horizon_"
_OWN: Final = "_compaction_of_ours_"
_RESET: Final = "_reset_"
_END: Final = "_kept_no_more_"

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionNotes(json_files.NotesOfTable):
    """The notes of one table about its past."""

    files: json_files.HiddenFiles | None = field(default=None, compare=False, repr=False)
    """The listing to use; None to list the directory for each lookup."""

    def listed_once(self) -> VersionNotes:
        """Return a thread-safe copy that lists the directory once, unless a listed note is gone."""
        return replace(self, files=json_files.HiddenFiles(self.location))

    def refresh(self) -> None:
        """Discard the listing, so that the next lookup lists the directory again."""
        if self.files is not None:
            self.files.refresh()

    # ---- commits ---------------------------------------------------------------------------------

    def note_commit(self, note: CommitNote) -> None:
        """Write the note of a commit."""
        self._note(f"{_COMMIT}{self._digest}.{note.write_id:020d}.json", note)

    def commits(self) -> tuple[CommitNote, ...]:
        """Return all commit notes, sorted by write ID; skip damaged notes with a warning."""
        while True:
            names = self._names(_COMMITS)
            bundled = each_in_threads(self._bundle, self._of_table(names, _BUNDLE))
            singles = each_in_threads(self._single, self._of_table(names, _COMMIT))
            if None not in bundled and None not in singles:
                break  # otherwise, a different process has just put a note into a bundle
        commits = {n.write_id: n for notes in (*bundled, *singles) for n in notes or ()}
        return tuple(commits[write_id] for write_id in sorted(commits))

    def written_partitions(self, write_ids: range) -> frozenset[str] | None:
        """Return the partitions that these commits changed; None if a commit has no intact note."""
        ids = {WriteId(write_id) for write_id in write_ids}
        prefix = f"{_COMMIT}{self._digest}."
        names = [f"{prefix}{write_id:020d}.json" for write_id in write_ids]
        all_names = set(self._names(_COMMITS)) if names else set()
        singles = each_in_threads(self._single, [name for name in names if name in all_names])
        notes = {note.write_id: note for of_file in singles for note in of_file or ()}
        if ids - notes.keys() and self._of_table(all_names, _BUNDLE):
            notes = {note.write_id: note for note in self.commits()}
        if any(w not in notes or notes[w].table_id != self.table_id for w in ids):
            return None
        return frozenset(partition for w in ids for partition in notes[w].partitions)

    def tidy_commits(self, oldest: Mapping[str, WriteId], before_s: float) -> None:
        """Bundle commit notes, and remove the notes of versions that are no longer readable.

        A note also proves which files a commit wrote, so it is removed only if its version is
        unreadable in all partitions of the commit.

        `oldest` has the oldest readable version of each existing partition. The notes of commits
        after `before_s` are kept.
        """
        names = self._names(_COMMITS)
        bundles, singles = self._of_table(names, _BUNDLE), self._of_table(names, _COMMIT)
        if len(singles) < _ENOUGH_TO_BUNDLE:
            return
        resets = self.resets()
        dropped = _latest(resets)
        newest = max(oldest.values(), default=0)

        def is_unreadable(write_id: WriteId, partition: str) -> bool:
            if partition in oldest:
                return write_id < oldest[partition]
            # It was dropped, so only versions up to its drop contain the write. They are unreadable
            # if an existing partition is readable only in later versions.
            return write_id <= dropped.get(partition, -1) < newest

        def is_over(note: CommitNote) -> bool:
            return all(is_unreadable(note.write_id, p) for p in note.partitions or ("",))

        every = self.commits()
        # The note of a commit at an unknown time is kept.
        over = [n for n in every if is_over(n) and (n.committed.by_s or before_s) < before_s]
        # Without commit notes, a later loss of compacted files could not be detected. So a reset
        # without `names`, as earlier calls wrote, makes the versions unreadable.
        self.note_resets(_without_evidence(over, oldest, _latest(r for r in resets if not r.names)))
        over_ids = {note.write_id for note in over}
        remainder = [note for note in every if note.write_id not in over_ids]
        for start in range(0, len(remainder), _MOST_IN_BUNDLE):
            self._write_bundle(remainder[start : start + _MOST_IN_BUNDLE])
        # If a reader no longer finds a listed file, it lists the directory again.
        for name in (*bundles, *singles):
            self._forget(name)

    def bundle_commits(self, files: Iterable[FileEntry]) -> None:
        """Put commit notes into bundles if there are many; no note is lost.

        A bundle is written before the notes that it contains are deleted. Unreadable notes stay in
        their own files.

        `files` are the listed files of the hidden directory.
        """
        sizes = {file.name: file.size_bytes for file in files}
        singles = self._of_table(sizes, _COMMIT)
        if len(singles) >= _ENOUGH_TO_BUNDLE:
            self._bundle_up(singles[:_MOST_BUNDLED], self._single)
        small = [n for n in self._of_table(sizes, _BUNDLE) if sizes[n] < _SMALL_BUNDLE_BYTES]
        if len(small) >= _ENOUGH_TO_MERGE:
            self._bundle_up(small, self._bundle)

    def _bundle_up(
        self, names: Sequence[str], read: Callable[[str], tuple[CommitNote, ...] | None]
    ) -> None:
        contents = each_in_threads(read, names)
        # None means that the file no longer exists. For a damaged file, the tuple is empty.
        notes_by_file = {name: notes for name, notes in zip(names, contents, strict=True) if notes}
        if notes_by_file:
            self._write_bundle([note for notes in notes_by_file.values() for note in notes])
            each_in_threads(self._forget, list(notes_by_file))

    def _write_bundle(self, notes: Iterable[CommitNote]) -> None:
        name = f"{_BUNDLE}{self._digest}.{uuid.uuid4().hex}.json"
        self._note(name, {"commits": list(notes)})

    def _of_table(self, names: Iterable[str], kind: str) -> list[str]:
        return [name for name in names if name.startswith(f"{kind}{self._digest}.")]

    def _bundle(self, name: str) -> tuple[CommitNote, ...] | None:
        return self._read(name, CommitNote, listed_as="commits")

    def _single(self, name: str) -> tuple[CommitNote, ...] | None:
        try:
            return self._read(name, CommitNote)
        except CorruptFileError as error:
            _log.warning("the note of a commit is damaged, its time is unknown: %s", error)
            return ()

    # ---- guarantees ------------------------------------------------------------------------------

    def promises(self) -> Promises:
        """Return all notes about keeping versions; raise CorruptFileError for a damaged horizon."""
        while True:
            promises = self._promises()
            if promises is not None:
                return promises

    def _promises(self) -> Promises | None:
        # None means to list again: a listed note is gone, and its replacement was written before.
        every = self._names("_")

        keepings = self._read_all(self._of_table(every, _KEEPING), Keeping)
        resets = self._resets(self._of_table(every, _RESET))
        if keepings == ():
            return None if resets is None else Promises(resets=resets)
        horizons = self._read_all(self._of_table(every, _HORIZON), Horizon)
        own = self._read_all(self._of_table(every, _OWN), OwnCompaction, listed_as="entries")
        if keepings is None or horizons is None or own is None or resets is None:
            return None
        return Promises(
            keeping=keepings[0],
            horizons=horizons,
            own=own,
            resets=resets,
            has_ended=bool(self._of_table(every, _END)),
        )

    def is_kept(self) -> bool:
        """Return True if a guarantee to keep versions exists, even if the guarantee is broken."""
        return exists(*open_location(self._uri(self._keeping_file)))

    def has_ended(self) -> bool:
        """Return True if a note records that another program's compaction ended the guarantee."""
        # The listing may be older than a new guarantee, which removes this note.
        names = self._names(f"{_END}{self._digest}.")
        return any(exists(*open_location(self._uri(name))) for name in names)

    def note_keeping(self, keeping: Keeping) -> None:
        """Begin to keep versions; first remove the notes of an earlier guarantee."""
        self.forget_keeping()
        self._note(self._keeping_file, keeping)

    def forget_keeping(self) -> None:
        """Remove the note of the guarantee to keep versions first, then its other notes."""
        for prefix in (_KEEPING, _END, _OWN, _HORIZON):
            for name in self._names(f"{prefix}{self._digest}."):
                self._forget(name)

    def end_keeping(self, entry_id: int) -> None:
        """Record permanently that another program's compaction has ended the guarantee."""
        if not self._names(f"{_END}{self._digest}."):
            self._note(f"{_END}{self._digest}.{entry_id}.json", {"entry_id": entry_id})

    def note_horizon(self, horizon: Horizon) -> None:
        """Record a partition's new horizon; call this method before files are removed."""
        name = self._horizon_file(horizon)
        if not exists(*open_location(self._uri(name))):
            self._note(name, horizon)

    def forget_horizons_below(self, horizon: Horizon) -> None:
        """Remove older horizons of the same partition; this horizon replaces them."""
        prefix = self._horizons_of(horizon.partition)
        for name in self._names(prefix):
            number = name.removeprefix(prefix).removesuffix(".json")
            if number.isdecimal() and int(number) < horizon.write_id:
                self._forget(name)

    def forget_horizon(self, horizon: Horizon) -> None:
        """Remove a horizon that a different note replaces."""
        self._forget(self._horizon_file(horizon))

    def note_own_compaction(self, own: OwnCompaction) -> None:
        """Record that a queue entry is our compaction, before the entry is marked as compacted."""
        self._note(f"{_OWN}{self._digest}.{own.entry_id}.json", own)

    def tidy_own_compactions(self) -> None:
        """Merge the notes about our compactions, since each reader of a version reads them all."""
        prefix = f"{_OWN}{self._digest}."
        while len(names := self._names(prefix)) >= _ENOUGH_TO_BUNDLE:
            every = self._read_all(names, OwnCompaction, listed_as="entries")
            if every is None:
                continue  # another process is merging them
            # Readers use only the union of all `aborted`, so the newest entry gets it.
            aborted = {w for note in every for w in note.aborted}
            last = max(note.entry_id for note in every)
            own = [OwnCompaction(entry_id=i) for i in {note.entry_id for note in every} - {last}]
            own.append(OwnCompaction(entry_id=last, aborted=tuple(sorted(aborted))))
            self._note(f"{prefix}{uuid.uuid4().hex}.json", {"entries": own})
            for name in names:
                self._forget(name)

    # ---- removals that created no version --------------------------------------------------------

    def resets(self) -> tuple[Reset, ...]:
        """Return the recorded file removals that did not create a version."""
        while (resets := self._resets(self._names(f"{_RESET}{self._digest}."))) is None:
            pass
        return resets

    def _resets(self, names: Sequence[str]) -> tuple[Reset, ...] | None:
        return self._read_all(names, Reset, listed_as="resets")

    def tidy_resets(self) -> None:
        """Merge the notes about removals, because each reader of a version reads them all."""
        while len(names := self._names(f"{_RESET}{self._digest}.")) >= _ENOUGH_TO_BUNDLE:
            resets = self._resets(names)
            if resets is not None:
                self.note_resets(list(dict.fromkeys(resets)))
                for name in names:
                    self._forget(name)

    def note_resets(self, resets: Sequence[Reset]) -> None:
        """Record removals of files; versions that may need these files become unreadable."""
        if resets:
            self._note(f"{_RESET}{self._digest}.{uuid.uuid4().hex}.json", {"resets": resets})

    # ---- tags ------------------------------------------------------------------------------------

    def tags(self) -> tuple[Tag, ...]:
        """Return all tags by name, also expired ones; raise CorruptFileError for a damaged one."""
        newest = {tag.name: tag for tag in sorted(self.noted_tags(), key=lambda tag: tag.made_s)}
        return tuple(newest[name] for name in sorted(newest))

    def noted_tags(self, known: MutableMapping[str, Tag] | None = None) -> tuple[Tag, ...]:
        """Return all tags, also those about to be replaced; `known` caches tags by file name."""
        return self._tags(f"{_TAG}{self._digest}.", known)

    def tag(self, name: str) -> Tag | None:
        """Return one tag; None if no tag has that name."""
        tags = self._tags(self._tag_prefix(name))
        return max(tags, key=lambda tag: tag.made_s, default=None)

    def note_tag(self, tag: Tag) -> None:
        """Write a tag; it replaces an older tag of the same name."""
        self._note(self._tag_file(tag), tag)

    def forget_tag(self, name: str) -> None:
        """Remove the tag of this name, if there is one."""
        for file in self._names(self._tag_prefix(name)):
            self._forget(file)

    def forget_this_tag(self, tag: Tag) -> None:
        """Remove this tag, but not a newer tag of the same name."""
        self._forget(self._tag_file(tag))

    def forget_tags_before(self, tag: Tag) -> None:
        """Remove older tags of the same name."""
        for older in self._tags(self._tag_prefix(tag.name)):
            if older.made_s < tag.made_s:
                self.forget_this_tag(older)

    def _tags(self, prefix: str, known: MutableMapping[str, Tag] | None = None) -> tuple[Tag, ...]:
        known = {} if known is None else known
        while True:
            names = self._names(prefix)
            new = [name for name in names if name not in known]
            notes = dict(zip(new, each_in_threads(lambda n: self._read(n, Tag), new), strict=True))
            known.update((name, tags[0]) for name, tags in notes.items() if tags is not None)
            # otherwise, a different tag may have replaced a listed tag
            if None not in notes.values():
                return tuple(known[name] for name in names)

    # ---- files -----------------------------------------------------------------------------------

    @property
    def _keeping_file(self) -> str:
        return f"{_KEEPING}{self._digest}.json"

    def _tag_file(self, tag: Tag) -> str:
        return f"{self._tag_prefix(tag.name)}{round(tag.made_s * 1000):020d}.json"

    def _tag_prefix(self, name: str) -> str:
        return f"{_TAG}{self._digest}.{json_files.name_digest(name)}."

    def _horizon_file(self, horizon: Horizon) -> str:
        return f"{self._horizons_of(horizon.partition)}{horizon.write_id:020d}.json"

    def _horizons_of(self, partition: PartitionName) -> str:
        return f"{_HORIZON}{self._digest}.{json_files.name_digest(str(partition))}."

    def _names(self, prefix: str) -> list[str]:
        if self.files is not None:
            return self.files.named(prefix)
        return sorted(file.name for file in self._list(prefix))

    def _read(
        self, name: str, cls: type[_T], *, listed_as: str | None = None
    ) -> tuple[_T, ...] | None:
        try:
            content = self._content(name)
        except FileNotFoundError:
            self.refresh()
            return None
        return json_files.read_notes(
            cls, content, self._uri(name), listed_as=listed_as, version=_VERSION
        )

    def _read_all(
        self, names: Sequence[str], cls: type[_T], *, listed_as: str | None = None
    ) -> tuple[_T, ...] | None:
        lists = each_in_threads(lambda name: self._read(name, cls, listed_as=listed_as), names)
        return None if None in lists else tuple(note for notes in lists for note in notes or ())

    def _note(self, name: str, note: object) -> None:
        self._write(name, json_files.note_content(note, version=_VERSION))
        if self.files is not None:
            self.files.note_written(name)

    def _forget(self, name: str) -> None:
        self._delete(name)
        if self.files is not None:
            self.files.note_removed(name)


def _latest(resets: Iterable[Reset]) -> dict[str, WriteId]:
    latest: dict[str, WriteId] = {}
    for reset in resets:
        partition = str(reset.partition)
        latest[partition] = max(reset.write_id, latest.get(partition, reset.write_id))
    return latest


def _without_evidence(
    over: Iterable[CommitNote], oldest: Mapping[str, WriteId], resets: Mapping[str, WriteId]
) -> list[Reset]:
    """For each partition, return a reset that makes the versions of removed notes unreadable.

    A partition needs none if a reset up to its newest unreadable version exists already.
    """
    partitions = dict.fromkeys(p for note in over for p in note.partitions or ("",))
    unreadable = {p: WriteId(oldest[p] - 1) for p in partitions if p in oldest}
    return [
        Reset(partition=PartitionName.parse(p), write_id=newest, lowest=WriteId(0), highest=newest)
        for p, newest in unreadable.items()
        if newest > resets.get(p, 0)
    ]

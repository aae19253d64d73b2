"""Notes of a table's past in its hidden directory: commits, tags, and what is promised of files.

One small file for each fact, named by what it is of, so that nobody changes what another writes.
A note of a commit that is lost or damaged makes bounds of times wider; one of a promise, fewer
versions readable. A damaged horizon or tag is an error: it says what may be gone, or must stay.
See docs/adr/0051 and 0052.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_hiveacid.format.errors import CorruptFileError, InvalidNameError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.plan.keeping import OwnCompaction, Promises, Reset
from airflow_hiveacid.storage.stores.filesystem import (
    delete_file,
    exists,
    read_bytes,
    write_new,
)
from airflow_hiveacid.storage.stores.job_ledger import HIDDEN_DIRECTORY, table_digest
from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_bodies import (
    commit_of,
    commits_of,
    horizon_of,
    keeping_body,
    keeping_of,
    own_body,
    own_of,
    resets_body,
    resets_of,
    tag_body,
    tag_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.plan.history import CommitNote
    from airflow_hiveacid.plan.keeping import Horizon, Keeping, Tag

_VERSION: Final = 1
_COMMITS: Final = "_commit"
_COMMIT: Final = "_commit_"
_BUNDLE: Final = "_commits_"
_ENOUGH_TO_BUNDLE: Final = 50
_MOST_IN_BUNDLE: Final = 1000
_TAG: Final = "_tag_"
_KEEPING: Final = "_kept_"
_HORIZON: Final = "_horizon_"
_OWN: Final = "_compaction_of_ours_"
_RESET: Final = "_reset_"
_END: Final = "_kept_no_more_"
_MALFORMED: Final = (AttributeError, KeyError, TypeError, ValueError, RecursionError)

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionNotes:
    """The notes of one table. Those of another `table_id`, here before it, are never met."""

    location: str
    table_id: str

    @classmethod
    def of(cls, table: TableInfo) -> VersionNotes:
        """Those of a table as the metastore knows it now."""
        return cls(location=table.location, table_id=table.table_id)

    # ---- commits ---------------------------------------------------------------------------------

    def note_commit(self, note: CommitNote) -> None:
        """Remember a commit."""
        self._write(f"{_COMMIT}{self._digest}.{note.write_id:020d}.json", asdict(note))

    def commits(self) -> tuple[CommitNote, ...]:
        """All that are remembered, by write ID; damaged ones are left out with a warning."""
        while True:
            names = self._names(_COMMITS)
            bundled = each_in_threads(self._bundle, self._of_table(names, _BUNDLE))
            singles = each_in_threads(self._single, self._of_table(names, _COMMIT))
            if None not in bundled and None not in singles:
                break  # else somebody has just put them into a bundle
        found = {n.write_id: n for notes in (*bundled, *singles) for n in notes or ()}
        return tuple(found[write_id] for write_id in sorted(found))

    def tidy_commits(self, oldest: Mapping[str, WriteId], before_s: float) -> None:
        """Put notes of commits together, and forget those of versions that nobody can read.

        A note also bears witness of what it wrote for as long as no base holds that. So it goes
        only if the oldest readable version of each of its partitions is later.

        Args:
            oldest: the oldest readable version of each partition that there is.
            before_s: what was committed later is not forgotten.
        """
        names = self._names(_COMMITS)
        bundles, singles = self._of_table(names, _BUNDLE), self._of_table(names, _COMMIT)
        if len(singles) < _ENOUGH_TO_BUNDLE:
            return
        resets = self.resets()
        dropped = _latest(resets)
        newest = max(oldest.values(), default=0)

        def is_over(note: CommitNote) -> bool:
            return all(
                note.write_id < oldest[partition]
                if partition in oldest
                else note.write_id <= dropped.get(partition, -1) < newest
                for partition in note.partitions or ("",)
            )

        every = self.commits()
        over = [n for n in every if is_over(n) and (n.committed.by_s or before_s) < before_s]
        # Without them nobody would miss the files that replaced theirs, if those were removed, too.
        self.note_resets(_without_witness(over, oldest, _latest(r for r in resets if not r.names)))
        gone = {note.write_id for note in over}
        kept = [note for note in every if note.write_id not in gone]
        for at in range(0, len(kept), _MOST_IN_BUNDLE):
            part = kept[at : at + _MOST_IN_BUNDLE]
            name = f"{_BUNDLE}{self._digest}.{uuid.uuid4().hex}.json"
            self._write(name, {"commits": [asdict(note) for note in part]})
        # Whoever has listed these looks again when he finds one gone.
        for name in (*bundles, *singles):
            self._delete(name)

    def _of_table(self, names: Iterable[str], kind: str) -> list[str]:
        return [name for name in names if name.startswith(f"{kind}{self._digest}.")]

    def _bundle(self, name: str) -> tuple[CommitNote, ...] | None:
        return self._read(name, commits_of)

    def _single(self, name: str) -> tuple[CommitNote, ...] | None:
        try:
            note = self._read(name, commit_of)
        except CorruptFileError as error:
            _log.warning("a commit's time is not known any more: %s", error)
            return ()
        return None if note is None else (note,)

    # ---- promises --------------------------------------------------------------------------------

    def promises(self) -> Promises:
        """All that is noted of keeping.

        Raises:
            CorruptFileError: a horizon cannot be read, so nobody knows what is gone.
        """
        while True:
            found = self._promises()
            if found is not None:
                return found

    def _promises(self) -> Promises | None:
        """The same; None if something was removed since it was listed.

        What takes its place, a later horizon or a note of several, is written before one goes.
        """
        every = self._names("_")

        def of(kind: str) -> list[str]:
            return [name for name in every if name.startswith(f"{kind}{self._digest}.")]

        keepings = [self._read(name, keeping_of) for name in of(_KEEPING)]
        resets = self._resets(of(_RESET))
        if not keepings:
            return None if resets is None else Promises(resets=resets)
        horizons = each_in_threads(lambda name: self._read(name, horizon_of), of(_HORIZON))
        own = each_in_threads(lambda name: self._read(name, own_of), of(_OWN))
        if None in keepings or None in horizons or None in own or resets is None:
            return None
        return Promises(
            keeping=keepings[0],
            horizons=tuple(h for h in horizons if h is not None),
            own=tuple(one for many in own for one in many or ()),
            resets=resets,
            has_ended=bool(of(_END)),
        )

    def is_kept(self) -> bool:
        """Whether there is a promise, kept or broken; one look at a name."""
        return exists(*open_location(self._uri(self._keeping_file)))

    def note_keeping(self, keeping: Keeping) -> None:
        """Begin to keep; what an earlier promise left is forgotten first."""
        self.forget_keeping()
        self._write(self._keeping_file, keeping_body(keeping))

    def forget_keeping(self) -> None:
        """Promise nothing any more; the promise itself goes first."""
        for prefix in (_KEEPING, _END, _OWN, _HORIZON):
            for name in self._names(f"{prefix}{self._digest}."):
                self._delete(name)

    def end_keeping(self, entry_id: int) -> None:
        """Note for good that somebody else's compaction has ended the promise."""
        if not self._names(f"{_END}{self._digest}."):
            self._write(f"{_END}{self._digest}.{entry_id}.json", {"entry_id": entry_id})

    def note_horizon(self, horizon: Horizon) -> None:
        """Say which versions of a partition end, before anything of theirs is removed."""
        name = self._horizon_file(horizon)
        if not exists(*open_location(self._uri(name))):
            self._write(name, {**asdict(horizon), "partition": str(horizon.partition)})

    def forget_horizons_below(self, horizon: Horizon) -> None:
        """Remove horizons of the same partition that a later one makes superfluous."""
        prefix = self._horizons_of(horizon.partition)
        for name in self._names(prefix):
            number = name.removeprefix(prefix).removesuffix(".json")
            if number.isdigit() and int(number) < horizon.write_id:
                self._delete(name)

    def forget_horizon(self, horizon: Horizon) -> None:
        """Remove one that another note makes superfluous."""
        self._delete(self._horizon_file(horizon))

    def note_own_compaction(self, own: OwnCompaction) -> None:
        """Say that a queue entry is ours, before it is marked as compacted."""
        self._write(f"{_OWN}{self._digest}.{own.entry_id}.json", asdict(own))

    def tidy_own_compactions(self) -> None:
        """Put notes of our compactions together: each reader of a version reads all of them."""
        prefix = f"{_OWN}{self._digest}."
        while len(names := self._names(prefix)) >= _ENOUGH_TO_BUNDLE:
            found = each_in_threads(lambda name: self._read(name, own_of), names)
            if None in found:
                continue  # somebody else does the same
            every = [one for many in found for one in many or ()]
            aborted = {w for one in every for w in one.aborted}
            last = max(one.entry_id for one in every)
            own = [OwnCompaction(entry_id=i) for i in {one.entry_id for one in every} - {last}]
            own.append(OwnCompaction(entry_id=last, aborted=tuple(sorted(aborted))))
            self._write(f"{prefix}{uuid.uuid4().hex}.json", own_body(own))
            for name in names:
                self._delete(name)

    # ---- what was removed without a version ------------------------------------------------------

    def resets(self) -> tuple[Reset, ...]:
        """What was found removed without a version.

        Raises:
            CorruptFileError: a note of it cannot be read.
        """
        while (found := self._resets(self._names(f"{_RESET}{self._digest}."))) is None:
            pass
        return found

    def _resets(self, names: Sequence[str]) -> tuple[Reset, ...] | None:
        """The same; None if they were put together with others since they were listed."""
        found = each_in_threads(lambda name: self._read(name, resets_of), names)
        return None if None in found else tuple(one for many in found for one in many or ())

    def tidy_resets(self) -> None:
        """Put these notes together: each reader of a version reads all of them."""
        while len(names := self._names(f"{_RESET}{self._digest}.")) >= _ENOUGH_TO_BUNDLE:
            found = self._resets(names)
            if found is not None:
                self.note_resets(list(dict.fromkeys(found)))
                for name in names:
                    self._delete(name)

    def note_resets(self, resets: Sequence[Reset]) -> None:
        """Remember it: versions that may have had it cannot be read, later ones can."""
        if resets:
            self._write(f"{_RESET}{self._digest}.{uuid.uuid4().hex}.json", resets_body(resets))

    # ---- tags ------------------------------------------------------------------------------------

    def tags(self) -> tuple[Tag, ...]:
        """All tags, expired ones too, by name.

        Raises:
            CorruptFileError: one cannot be read, so nobody knows which files it needs.
        """
        newest = {tag.name: tag for tag in sorted(self.noted_tags(), key=lambda tag: tag.made_s)}
        return tuple(newest[name] for name in sorted(newest))

    def noted_tags(self, known: MutableMapping[str, Tag] | None = None) -> tuple[Tag, ...]:
        """The same, with those whose place another one of their name is taking.

        Args:
            known: what was read already, by file: who looks for each of many partitions whether
                there is another tag by now need not read the same ones again.
        """
        return self._tags(f"{_TAG}{self._digest}.", known)

    def tag(self, name: str) -> Tag | None:
        """One tag; None if there is none of that name."""
        found = self._tags(self._tag_prefix(name))
        return max(found, key=lambda tag: tag.made_s, default=None)

    def note_tag(self, tag: Tag) -> None:
        """Write a tag; the newest one of a name counts."""
        self._write(self._tag_file(tag), tag_body(tag))

    def forget_tag(self, name: str) -> None:
        """Remove a tag, whichever it is by now; nothing if there is none."""
        for file in self._names(self._tag_prefix(name)):
            self._delete(file)

    def forget_this_tag(self, tag: Tag) -> None:
        """Remove a tag, and nothing that took its place meanwhile."""
        self._delete(self._tag_file(tag))

    def forget_tags_before(self, tag: Tag) -> None:
        """Remove those of its name whose place a tag has taken."""
        for older in self._tags(self._tag_prefix(tag.name)):
            if older.made_s < tag.made_s:
                self.forget_this_tag(older)

    def _tags(self, prefix: str, known: MutableMapping[str, Tag] | None = None) -> tuple[Tag, ...]:
        known = {} if known is None else known
        while True:
            names = self._names(prefix)
            new = [name for name in names if name not in known]
            found = dict(
                zip(new, each_in_threads(lambda n: self._read(n, tag_of), new), strict=True)
            )
            known.update((name, tag) for name, tag in found.items() if tag is not None)
            if None not in found.values():  # else another one may have taken its place since
                return tuple(known[name] for name in names)

    # ---- files -----------------------------------------------------------------------------------

    @property
    def _digest(self) -> str:
        return table_digest(self.table_id)

    @property
    def _keeping_file(self) -> str:
        return f"{_KEEPING}{self._digest}.json"

    def _tag_file(self, tag: Tag) -> str:
        return f"{self._tag_prefix(tag.name)}{round(tag.made_s * 1000):020d}.json"

    def _tag_prefix(self, name: str) -> str:
        return f"{_TAG}{self._digest}.{_digest_of(name)}."

    def _horizon_file(self, horizon: Horizon) -> str:
        return f"{self._horizons_of(horizon.partition)}{horizon.write_id:020d}.json"

    def _horizons_of(self, partition: PartitionName) -> str:
        return f"{_HORIZON}{self._digest}.{_digest_of(str(partition))}."

    def _names(self, prefix: str) -> list[str]:
        files = list_files(*open_location(self._uri("")), prefix)
        return sorted(file.name for file in files)

    def _read(self, name: str, parse: Callable[[str, dict[str, Any]], _T]) -> _T | None:
        uri = self._uri(name)
        try:
            body = json.loads(read_bytes(*open_location(uri)))
            if body.pop("version") != _VERSION:
                raise CorruptFileError(path=uri, reason="a note of another release")
            return parse(self.table_id, body)
        except FileNotFoundError:
            return None
        except (*_MALFORMED, InvalidNameError) as error:
            raise CorruptFileError(path=uri, reason=f"not a note: {error!r}") from error

    def _write(self, name: str, body: dict[str, Any]) -> None:
        content = json.dumps({**body, "version": _VERSION}).encode()
        write_new(*open_location(self._uri(name)), content)

    def _delete(self, name: str) -> None:
        delete_file(*open_location(self._uri(name)))

    def _uri(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{HIDDEN_DIRECTORY}/{name}"


def _latest(resets: Iterable[Reset]) -> dict[str, WriteId]:
    """Up to which write ID each partition was last found without what it had."""
    found: dict[str, WriteId] = {}
    for one in resets:
        partition = str(one.partition)
        found[partition] = max(one.write_id, found.get(partition, one.write_id))
    return found


def _without_witness(
    over: Iterable[CommitNote], oldest: Mapping[str, WriteId], known: Mapping[str, WriteId]
) -> list[Reset]:
    """That versions end for good of which commits are forgotten, partition by partition."""
    ends = {p: WriteId(oldest[p] - 1) for n in over for p in n.partitions or ("",) if p in oldest}
    return [
        Reset(
            partition=PartitionName.parse(partition),
            write_id=write_id,
            lowest=WriteId(0),
            highest=write_id,
        )
        for partition, write_id in ends.items()
        if write_id > known.get(partition, 0)
    ]


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]

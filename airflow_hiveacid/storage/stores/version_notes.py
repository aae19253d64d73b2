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
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import Kept
from airflow_hiveacid.plan.history import Between, CommitNote
from airflow_hiveacid.plan.keeping import (
    Horizon,
    Keeping,
    OwnCompaction,
    Promises,
    Reset,
    Tag,
    TaggedRoot,
)
from airflow_hiveacid.storage.stores.filesystem import delete_file, read_bytes, write_new
from airflow_hiveacid.storage.stores.job_ledger import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hiveacid.format.table import TableInfo

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
        dropped: dict[str, WriteId] = {}
        for reset in self.resets():
            partition = str(reset.partition)
            dropped[partition] = max(reset.write_id, dropped.get(partition, reset.write_id))
        newest = max(oldest.values(), default=0)

        def is_over(note: CommitNote) -> bool:
            return all(
                note.write_id < oldest[partition]
                if partition in oldest
                else note.write_id <= dropped.get(partition, -1) < newest
                for partition in note.partitions or ("",)
            )

        kept = [
            note
            for note in self.commits()
            if not is_over(note) or (note.committed.by_s or before_s) >= before_s
        ]
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
        return self._read(name, _commits)

    def _single(self, name: str) -> tuple[CommitNote, ...] | None:
        try:
            note = self._read(name, _commit)
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

        Nothing but a later horizon, which was not listed, removes one (`forget_horizons_below`).
        """
        every = self._names("_")

        def of(kind: str) -> list[str]:
            return [name for name in every if name.startswith(f"{kind}{self._digest}.")]

        keepings = [self._read(name, _keeping) for name in of(_KEEPING)]
        if not keepings:
            return Promises()
        horizons = each_in_threads(lambda name: self._read(name, _horizon), of(_HORIZON))
        own = each_in_threads(lambda name: self._read(name, _own), of(_OWN))
        if None in keepings or None in horizons or None in own:
            return None
        return Promises(
            keeping=keepings[0],
            horizons=tuple(h for h in horizons if h is not None),
            own=tuple(o for o in own if o is not None),
            has_ended=bool(of(_END)),
        )

    def is_kept(self) -> bool:
        """Whether there is a promise, kept or broken; one look at names."""
        return bool(self._names(f"{_KEEPING}{self._digest}."))

    def note_keeping(self, keeping: Keeping) -> None:
        """Begin to keep; what an earlier promise left is forgotten first."""
        self.forget_keeping()
        body = {
            "last_entry_id": keeping.last_entry_id,
            "since_s": keeping.since_s,
            "roots": {
                str(name): {"floor": kept.floor, "witnesses": sorted(kept.witnesses)}
                for name, kept in keeping.roots.items()
            },
        }
        self._write(f"{_KEEPING}{self._digest}.json", body)

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
        prefix = self._horizons_of(horizon.partition)
        name = f"{prefix}{horizon.write_id:020d}.json"
        if name not in self._names(prefix):
            self._write(name, {**asdict(horizon), "partition": str(horizon.partition)})

    def forget_horizons_below(self, horizon: Horizon) -> None:
        """Remove horizons of the same partition that a later one makes superfluous."""
        prefix = self._horizons_of(horizon.partition)
        for name in self._names(prefix):
            number = name.removeprefix(prefix).removesuffix(".json")
            if number.isdigit() and int(number) < horizon.write_id:
                self._delete(name)

    def note_own_compaction(self, own: OwnCompaction) -> None:
        """Say that a queue entry is ours, before it is marked as compacted."""
        self._write(f"{_OWN}{self._digest}.{own.entry_id}.json", asdict(own))

    # ---- what was removed without a version ------------------------------------------------------

    def resets(self) -> tuple[Reset, ...]:
        """What was found removed without a version.

        Raises:
            CorruptFileError: a note of it cannot be read.
        """
        names = self._names(f"{_RESET}{self._digest}.")
        found = each_in_threads(lambda name: self._read(name, _reset), names)
        return tuple(one for one in found if one is not None)

    def note_reset(self, reset: Reset) -> None:
        """Remember it: versions of that partition up to there cannot be read, later ones can."""
        name = (
            f"{_RESET}{self._digest}.{_digest_of(str(reset.partition))}.{reset.write_id:020d}.json"
        )
        body = {"partition": str(reset.partition), "write_id": reset.write_id}
        if name not in self._names(name):
            self._write(name, body)

    # ---- tags ------------------------------------------------------------------------------------

    def tags(self) -> tuple[Tag, ...]:
        """All tags, expired ones too, by name.

        Raises:
            CorruptFileError: one cannot be read, so nobody knows which files it needs.
        """
        return self._tags(self._names(f"{_TAG}{self._digest}."))

    def tag(self, name: str) -> Tag | None:
        """One tag; None if there is none of that name."""
        return next(iter(self._tags(self._names(self._tag_prefix(name)))), None)

    def note_tag(self, tag: Tag) -> None:
        """Write a tag; then an older one of that name is removed."""
        older = self._names(self._tag_prefix(tag.name))
        body = asdict(tag)
        body["roots"] = [
            {"partition": str(r.partition), "location": r.location, "names": sorted(r.names)}
            for r in tag.roots
        ]
        name = f"{self._tag_prefix(tag.name)}{round(tag.made_s * 1000):020d}.json"
        self._write(name, body)
        for other in older:
            if other != name:
                self._delete(other)

    def forget_tag(self, name: str) -> None:
        """Remove a tag; nothing if there is none."""
        for file in self._names(self._tag_prefix(name)):
            self._delete(file)

    def _tags(self, names: Iterable[str]) -> tuple[Tag, ...]:
        found = [tag for name in sorted(names) if (tag := self._read(name, _tag)) is not None]
        newest = {tag.name: tag for tag in sorted(found, key=lambda tag: tag.made_s)}
        return tuple(newest[name] for name in sorted(newest))

    # ---- files -----------------------------------------------------------------------------------

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.table_id.encode()).hexdigest()[:12]

    def _tag_prefix(self, name: str) -> str:
        return f"{_TAG}{self._digest}.{_digest_of(name)}."

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


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _commit(table_id: str, body: dict[str, Any]) -> CommitNote:
    return CommitNote(
        table_id=table_id,
        write_id=WriteId(int(body["write_id"])),
        txn_id=TxnId(int(body["txn_id"])),
        job_key=str(body["job_key"]),
        attempt=str(body["attempt"]),
        kind=str(body["kind"]),
        inserted=int(body["inserted"]),
        updated=int(body["updated"]),
        deleted=int(body["deleted"]),
        partitions=_texts(body["partitions"]),
        files=int(body["files"]),
        size_bytes=int(body["size_bytes"]),
        directories=_texts(body["directories"]),
        opened_s=_seconds(body["opened_s"]),
        seen=str(body["seen"]),
        seen_after_s=float(body["seen_after_s"]),
        seen_by_s=float(body["seen_by_s"]),
        committed=Between(
            after_s=_seconds(body["committed"]["after_s"]),
            by_s=_seconds(body["committed"]["by_s"]),
        ),
    )


def _commits(table_id: str, body: dict[str, Any]) -> tuple[CommitNote, ...]:
    return tuple(_commit(table_id, one) for one in body["commits"])


def _keeping(table_id: str, body: dict[str, Any]) -> Keeping:
    return Keeping(
        table_id=table_id,
        last_entry_id=int(body["last_entry_id"]),
        since_s=float(body["since_s"]),
        roots={
            PartitionName.parse(name): Kept(
                floor=WriteId(int(kept["floor"])), witnesses=frozenset(_texts(kept["witnesses"]))
            )
            for name, kept in body["roots"].items()
        },
    )


def _horizon(_table_id: str, body: dict[str, Any]) -> Horizon:
    return Horizon(
        partition=PartitionName.parse(str(body["partition"])),
        write_id=WriteId(int(body["write_id"])),
        high_watermark=TxnId(int(body["high_watermark"])),
        at_s=float(body["at_s"]),
    )


def _reset(_table_id: str, body: dict[str, Any]) -> Reset:
    return Reset(
        partition=PartitionName.parse(str(body["partition"])),
        write_id=WriteId(int(body["write_id"])),
    )


def _own(_table_id: str, body: dict[str, Any]) -> OwnCompaction:
    return OwnCompaction(
        entry_id=int(body["entry_id"]), aborted=tuple(WriteId(int(w)) for w in body["aborted"])
    )


def _tag(table_id: str, body: dict[str, Any]) -> Tag:
    return Tag(
        name=str(body["name"]),
        table_id=table_id,
        write_ids=str(body["write_ids"]),
        made_s=float(body["made_s"]),
        made_by=str(body["made_by"]),
        expires_s=_seconds(body["expires_s"]),
        roots=tuple(
            TaggedRoot(
                partition=PartitionName.parse(str(root["partition"])),
                location=str(root["location"]),
                names=frozenset(_texts(root["names"])),
            )
            for root in body["roots"]
        ),
    )


def _texts(value: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, value))


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None

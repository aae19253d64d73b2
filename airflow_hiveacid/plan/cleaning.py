"""Decides which directories and files of a table may be removed now, and which must be kept.

The rules are those of Hive's Cleaner, without the metastore's database
(docs/decisions/cleaning.md). A directory is aborted only if all its write IDs are (HIVE-25502,
HIVE-24481). Must not access a file system or a metastore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import AcidDirectory
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import (
    STAGING_PREFIX,
    BaseName,
    DeltaName,
    OriginalFileName,
    parse_directory_name,
    parse_file_name,
)
from airflow_hiveacid.format.records import FirstSeen, LeftUpload, Reader, Tag
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.words import age_text

_NOTHING_HELD: Final[Mapping[str, str]] = MappingProxyType({})
_NONE: Final = WriteId(0)

HORIZON: Final = "horizon "
"""Prefix of the notes that record when each horizon of a partition was written."""
HELD: Final = "held "
_FREED: Final = "freed "
"""Prefixes of two kinds of notes: a tag kept a path in the last run; a path has lost its tag."""

SHORTEST_UNKNOWN_AGE_S: Final = 86400.0
"""The minimum age at which unknown files may be removed; a running job may need newer files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingDirectory:
    """A staging directory, its transaction (None if unknown) and the time of its last change."""

    path: str
    txn_id: TxnId | None
    modified_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A path below the location, and why it is removed or kept.

    Versions below `ends` cannot be read without the path; 0 if no version needs it. `replaced_by`
    is the directory that new readers read instead, if there is one.
    """

    path: str
    why: str
    size_bytes: int
    ends: WriteId = _NONE
    replaced_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPath:
    """A file or directory below the location that no metadata of the table knows, and why.

    `age_s` is the time since the newest change below it; None if the store provides no time, or 0.
    No cleaning removes the path unless `is_removable`.
    """

    path: str
    why: str
    size_bytes: int
    age_s: float | None
    is_removable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """The paths to remove and the paths to keep.

    `unseen` are replacements without a note. Before removing any path, the caller writes a note for
    each, with the high watermark of the transactions. `waited_for` are the readers that may still
    need the kept paths. `unknown` are the unknown paths that this plan leaves alone.
    """

    remove: tuple[Removal, ...]
    keep: tuple[Removal, ...]
    unseen: tuple[str, ...]
    waited_for: tuple[Reader, ...] = ()
    unknown: tuple[UnknownPath, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths to remove."""
        return tuple(removal.path for removal in self.remove)

    def keeping(
        self, reasons: Mapping[str, str], waited_for: Iterable[Reader] = ()
    ) -> CleaningPlan:
        """Return a plan that also keeps some paths, each with its reason, for more readers."""
        kept = (replace(r, why=reasons[r.path]) for r in self.remove if r.path in reasons)
        return replace(
            self,
            remove=tuple(r for r in self.remove if r.path not in reasons),
            keep=(*self.keep, *kept),
            waited_for=tuple(dict.fromkeys((*self.waited_for, *waited_for))),
        )


def plan_cleaning(  # noqa: PLR0913 - every input is one fact of the decision
    state: AcidState,
    staging: tuple[StagingDirectory, ...],
    seen: Mapping[str, FirstSeen],
    txns: ValidTxnList,
    *,
    readers: Sequence[Reader],
    now_s: float,
    retention_s: float,
    orphan_age_s: float,
    is_insert_only: bool = False,
    held: Mapping[str, str] = _NOTHING_HELD,
) -> CleaningPlan:
    """Return the cleaning plan for the directory of a table or partition.

    `state` is that of a new reader; `readers` are the open transactions that may read the table.
    `seen` has the notes about replacements, by directory name. A replaced directory is kept for
    `retention_s`, a staging directory for `orphan_age_s`. `held` has further paths to keep, each
    with the reason.
    """
    remove: list[Removal] = []
    keep: list[Removal] = []
    unseen: dict[str, None] = {}
    now_seen = FirstSeen(high_watermark=txns.high_watermark, at_s=now_s)
    waited_for: dict[Reader, None] = {}
    unread = _unread(state, is_insert_only=is_insert_only)
    for path, size, replacement in replaced(state):
        if replacement not in seen:
            unseen[replacement] = None
        first_seen = seen.get(replacement, now_seen)
        why_not = (
            held.get(path) or unread.get(path) or waits_for(first_seen, readers, now_s, retention_s)
        )
        waited_for |= dict.fromkeys(readers_before(first_seen, readers))
        item = Removal(
            path=path,
            why=why_not or f"replaced by {replacement}",
            size_bytes=size,
            ends=_ends(replacement, is_insert_only=is_insert_only),
            replaced_by=replacement,
        )
        (keep if why_not else remove).append(item)
    # No reader reads an aborted directory, so its removal waits for none.
    remove.extend(Removal(path=d.text, why=d.why, size_bytes=d.size_bytes) for d in state.aborted)
    left_over = plan_staging(staging, txns, now_s=now_s, orphan_age_s=orphan_age_s)
    return CleaningPlan(
        remove=(*remove, *left_over.remove),
        keep=(*keep, *left_over.keep),
        unseen=tuple(unseen),
        waited_for=tuple(waited_for),
    )


def _unread(state: AcidState, *, is_insert_only: bool) -> dict[str, str]:
    """Return the replaced paths with files that Hive's compactor ignores, and the reasons."""
    files = {
        d.text: (d.unread[0].path, d.unread[0].why) for d in state.obsolete_directories if d.unread
    }
    if not is_insert_only:
        files |= {
            f.path: (f.path, "its name is not that of an original file, such as 000000_0")
            for f in state.obsolete_originals
            if f.size_bytes and not isinstance(parse_file_name(f.name), OriginalFileName)
        }
    return {
        path: f"{file} may be data that no compaction has read: {why}. If it is not needed, move it"
        " away"
        for path, (file, why) in files.items()
    }


def plan_staging(
    staging: Iterable[StagingDirectory],
    txns: ValidTxnList,
    *,
    now_s: float,
    orphan_age_s: float,
) -> CleaningPlan:
    """Return a plan that covers only staging directories; see `plan_cleaning`."""
    remove: list[Removal] = []
    keep: list[Removal] = []
    for directory in staging:
        why_not = _still_used(directory, txns, now_s, orphan_age_s)
        why = why_not or "left over by a job that has ended"
        item = Removal(path=directory.path, why=why, size_bytes=directory.size_bytes)
        (keep if why_not else remove).append(item)
    return CleaningPlan(remove=tuple(remove), keep=tuple(keep), unseen=())


def plan_unknown(  # noqa: PLR0913 - as for `plan_cleaning`
    unknown: Iterable[UnknownPath],
    seen: Mapping[str, FirstSeen],
    now_seen: FirstSeen,
    *,
    readers: Sequence[Reader],
    unknown_age_s: float,
    is_dry: bool = False,
) -> CleaningPlan:
    """Return a plan that covers only unknown paths, whose removal a user has requested.

    A user may have moved an old file to its place just now, and clocks may be wrong. So a file also
    stays for `SHORTEST_UNKNOWN_AGE_S` after a cleaner first wanted to remove it, as noted in
    `seen`; `now_seen` is the note that a cleaning writes for the others, but not if it `is_dry`.
    The file stays for open transactions, too: a reader of another program may have listed it.
    """
    remove: list[Removal] = []
    keep: list[Removal] = []
    untouched: list[UnknownPath] = []
    unseen: list[str] = []
    waited_for: dict[Reader, None] = {}
    for entry in unknown:
        if not entry.is_removable or entry.age_s is None:
            untouched.append(entry)
            continue
        why_not: str | None = f"changed less than {age_text(unknown_age_s)} ago"
        if entry.age_s >= unknown_age_s:
            first_seen = seen.get(entry.path, now_seen)
            if entry.path not in seen:
                unseen.append(entry.path)
            now_s, wait = now_seen.at_s, "found less than {} ago; may be removed in {}"
            if is_dry and entry.path not in seen:
                wait = "a cleaning may remove it {} after it has first found it"
            why_not = waits_for(first_seen, readers, now_s, SHORTEST_UNKNOWN_AGE_S, wait)
            waited_for |= dict.fromkeys(readers_before(first_seen, readers))
        why = why_not or f"unknown, and not changed for {age_text(entry.age_s)}: {entry.why}"
        item = Removal(path=entry.path, why=why, size_bytes=entry.size_bytes)
        (keep if why_not else remove).append(item)
    return CleaningPlan(
        remove=tuple(remove),
        keep=tuple(keep),
        unseen=tuple(unseen),
        waited_for=tuple(waited_for),
        unknown=tuple(untouched),
    )


def plan_uploads(
    uploads: Iterable[LeftUpload],
    txns: ValidTxnList,
    write_ids: ValidWriteIdList,
    *,
    now_s: float,
    orphan_age_s: float,
) -> tuple[tuple[LeftUpload, Removal], ...]:
    """Return the open uploads to abort: old uploads whose writer is known to have ended.

    They were listed before `txns` and `write_ids` were read. Without a write ID or transaction ID
    in its path, an upload is not of this provider, and is ignored.
    """
    removals = []
    for upload in uploads:
        owner = next(filter(None, map(_owner_of, upload.path.split("/"))), None)
        if owner is None or now_s - upload.begun_s < orphan_age_s:
            continue
        txn_id, write_id = owner
        is_open = txn_id is not None and (txn_id in txns.open or txn_id > txns.high_watermark)
        if write_id is not None:
            is_open |= write_id in write_ids.open or write_id > write_ids.high_watermark
        if not is_open:
            why = "an upload that a dead worker left open"
            removals.append((upload, Removal(path=upload.path, why=why, size_bytes=0)))
    return tuple(removals)


def _owner_of(name: str) -> tuple[TxnId | None, WriteId | None] | None:
    """Return the transaction ID or write ID in a name, with None for the other; or None."""
    if name.startswith(STAGING_PREFIX):
        number = name.removeprefix(STAGING_PREFIX).partition("-")[0]
        return (TxnId(int(number)), None) if number.isdecimal() else None
    parsed = parse_directory_name(name)
    if parsed is None:
        return None
    if parsed.visibility_txn_id is not None:
        return parsed.visibility_txn_id, None
    return None, parsed.high


def replaced(state: AcidState) -> list[tuple[str, int, str]]:
    """Return path, bytes and replacement of each directory or file that new readers ignore.

    The replacement is the oldest existing base that replaced the path, so that it is removed early.
    """
    bases = sorted(
        (d for d in (*state.obsolete_directories, state.base) if d is not None and d.is_base),
        key=lambda d: (d.high, d is not state.base),  # of one write ID, the live one first
    )
    newest = state.base.text if state.base else ""
    directories = [
        (
            d.text,
            d.size_bytes,
            next((b.text for b in bases if _covers(b, d)), d.superseded_by or newest),
        )
        for d in state.obsolete_directories
    ]
    first = bases[0].text if bases else ""
    return [*directories, *((f.path, f.size_bytes, first) for f in state.obsolete_originals)]


def _covers(base: AcidDirectory, other: AcidDirectory) -> bool:
    return base.high > other.high or (base.high == other.high and not other.is_base)


def _ends(replacement: str, *, is_insert_only: bool) -> WriteId:
    """Return the oldest version that is readable without the paths that `replacement` replaced.

    In a full-ACID table, each row of a wider delta keeps its write ID, so no version is lost.
    """
    name = parse_directory_name(replacement)
    if isinstance(name, BaseName):
        return max(WriteId(0), name.write_id)
    return name.high if isinstance(name, DeltaName) and is_insert_only else WriteId(0)


def held_by_tags(tags: Iterable[Tag], partition: PartitionName, now_s: float) -> dict[str, str]:
    """Return the paths of a partition that are kept for tags, with the reason for each."""
    reasons: dict[str, str] = {}
    for tag in tags:
        root = tag.root(partition)
        if root is not None and not tag.has_expired(now_s):
            reasons |= dict.fromkeys(root.names, f"tag {tag.name!r} needs it")
    return reasons


def held_or_read(
    state: AcidState,
    held: Mapping[str, str],
    seen: dict[str, FirstSeen],
    readers: Sequence[Reader],
    note: FirstSeen,
) -> dict[str, str]:
    """Return the replaced paths that a current or recent tag needs, with a reason for each.

    As long as a tag exists, a transaction that reads its version may begin. So a path that has lost
    its tag is kept until all transactions have ended that were open when a cleaner first noticed
    that. `readers` were requested after the tags were read. The notes in `seen` are updated.
    """
    reasons: dict[str, str] = {}
    for path, _, _ in replaced(state):
        was_held, freed = f"{HELD}{path}", f"{_FREED}{path}"
        if path in held:
            reasons[path] = held[path]
            seen[was_held] = note
            seen.pop(freed, None)
            continue
        if seen.pop(was_held, None) is not None:
            seen[freed] = note
        since = seen.get(freed)
        why_not = None if since is None else waits_for(since, readers, since.at_s, 0.0)
        if why_not is not None:
            reasons[path] = why_not
    return reasons


def still_of_use(seen: Mapping[str, FirstSeen], left: AcidState) -> dict[str, FirstSeen]:
    """Return the notes on replaced paths that are left and, while there are any, on horizons."""
    replacements = replaced(left)
    names = {replacement for _, _, replacement in replacements}
    names |= {f"{kind}{path}" for path, _, _ in replacements for kind in (HELD, _FREED)}
    return {
        name: note
        for name, note in seen.items()
        if name in names or (replacements and name.startswith(HORIZON))
    }


def readers_before(seen: FirstSeen, readers: Iterable[Reader]) -> tuple[Reader, ...]:
    """Return the readers that may have begun before a cleaner first saw a replacement."""
    return tuple(reader for reader in readers if reader.txn_id <= seen.high_watermark)


def waits_for(
    seen: FirstSeen,
    readers: Iterable[Reader],
    now_s: float,
    retention_s: float,
    wait: str = "the retention of {} ends in {}",
) -> str | None:
    """Return why a directory, with the note on its replacement, must be kept now, or None.

    `wait` is the reason with a place for the retention, and one for its remaining part.
    """
    earlier_readers = readers_before(seen, readers)
    if earlier_readers:
        count_text = f"; and {len(earlier_readers) - 1} more" if len(earlier_readers) > 1 else ""
        return f"{earlier_readers[0]}{count_text}"
    age = now_s - seen.at_s
    if age < retention_s:
        return wait.format(age_text(retention_s), age_text(retention_s - age))
    return None


def _still_used(
    directory: StagingDirectory, txns: ValidTxnList, now_s: float, orphan_age_s: float
) -> str | None:
    if directory.txn_id is not None and directory.txn_id in txns.open:
        return f"transaction {directory.txn_id} is writing it"
    if now_s - directory.modified_s < orphan_age_s:
        return f"changed less than {age_text(orphan_age_s)} ago"
    return None


def is_clean(state: AcidState) -> bool:
    """Return true if the state has no replaced and no aborted files that a cleaning must remove."""
    leftovers: tuple[AcidDirectory, ...] = (*state.obsolete_directories, *state.aborted)
    return not leftovers and not state.obsolete_originals

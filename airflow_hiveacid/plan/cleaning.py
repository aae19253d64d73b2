"""Decides which directories and files of a table may be removed now, and which must be kept.

Takes the state that a new reader would see, and notes about when a cleaner first saw each
replacement. Returns a `CleaningPlan`. The rules are those of Hive's Cleaner, but need no access to
the metastore's database:

* A reader that listed a directory earlier may still read it, even if every new reader ignores it.
  When a cleaner first sees the directory's replacement, a note records the high watermark of
  transaction IDs. The directory is removed when no open transaction at or below that watermark may
  read the table. `metastore.transactions.readers` finds the open transactions that may read the
  table.
* No reader reads a directory that contains only aborted writes, so it is removed at once. A
  directory is listed as aborted only if all its write IDs are aborted (HIVE-25502, HIVE-24481).
* A staging directory is removed when its transaction has ended and the directory is old. On a store
  that lists open uploads, old uploads of killed workers are aborted, too.
* An unknown file is removed only if a user has requested it, and only if the file is old and lies
  where no reader, table or partition needs it (`UnknownPath.is_removable`). A cleaner must have
  found it a day before, because a file that was moved or copied may keep an old modification time.

Must not access a file system or a metastore.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import (
    STAGING_PREFIX,
    BaseName,
    DeltaName,
    OriginalFileName,
    parse_directory_name,
    parse_file_name,
)
from airflow_hiveacid.format.records.maintenance import FirstSeen
from airflow_hiveacid.format.words import age_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hiveacid.format.records.maintenance import LeftUpload, Reader
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.state.acid_state import AcidState
    from airflow_hiveacid.format.state.directories import AcidDirectory


_NOTHING_HELD: Final[Mapping[str, str]] = MappingProxyType({})
_NONE: Final = WriteId(0)

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

    Versions below `ends` cannot be read without the path; if no version needs the path, `ends` is
    0. `replaced_by` is the directory that new readers read instead. For aborted directories,
    left-over directories and uploads, `replaced_by` is empty.
    """

    path: str
    why: str
    size_bytes: int
    ends: WriteId = _NONE
    replaced_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPath:
    """A file or directory below the location that no metadata of the table knows.

    `why` is the reason. `age_s` is the time since the newest change below the path, in seconds;
    None if the store does not provide the time, or provides 0 instead. If `is_removable` is False,
    no cleaning removes the path.
    """

    path: str
    why: str
    size_bytes: int
    age_s: float | None
    is_removable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """The paths to remove and the paths to keep.

    `unseen` are the names of replacements that have no note yet. Before removing any path, the
    caller writes a note for each replacement, with the high watermark of the transactions in this
    plan. `waited_for` lists the readers that may still need the kept paths. `unknown` are the
    unknown paths that this plan leaves alone.
    """

    remove: tuple[Removal, ...]
    keep: tuple[Removal, ...]
    unseen: tuple[str, ...]
    waited_for: tuple[Reader, ...] = ()
    unknown: tuple[UnknownPath, ...] = ()


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

    Args:
        state: the state that a new reader sees.
        staging: the staging directories below the location.
        seen: the notes about replacements, by directory name.
        txns: the transactions that are open or aborted now.
        readers: the open transactions that may read the table.
        now_s: the time, seconds since 1970.
        retention_s: for how many seconds a replaced directory is kept.
        orphan_age_s: the minimum age of left-over staging directories.
        is_insert_only: whether the table is insert-only, so that its rows have no write IDs.
        held: paths that must be kept although no new reader needs them, each with the reason.
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
    remove.extend(Removal(path=d.text, why=d.why, size_bytes=d.size_bytes) for d in state.aborted)
    left_over = plan_staging(staging, txns, now_s=now_s, orphan_age_s=orphan_age_s)
    return CleaningPlan(
        remove=(*remove, *left_over.remove),
        keep=(*keep, *left_over.keep),
        unseen=tuple(unseen),
        waited_for=tuple(waited_for),
    )


def _unread(state: AcidState, *, is_insert_only: bool) -> dict[str, str]:
    """Return the replaced paths with files that no compaction has read, each with the reason.

    Hive's compactor ignores files with other names. A base does not prove that they are not needed.
    """
    found = {
        d.text: (d.unread[0].file.path, d.unread[0].why)
        for d in state.obsolete_directories
        if d.unread
    }
    if not is_insert_only:
        found |= {
            f.path: (f.path, "its name is not that of an original file, such as 000000_0")
            for f in state.obsolete_originals
            if f.size_bytes and not isinstance(parse_file_name(f.name), OriginalFileName)
        }
    return {
        path: f"{file} may be data that no compaction has read: {why}. If it is not needed, move it"
        " away"
        for path, (file, why) in found.items()
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


def plan_unknown(
    unknown: Iterable[UnknownPath],
    seen: Mapping[str, FirstSeen],
    now_seen: FirstSeen,
    *,
    readers: Sequence[Reader],
    unknown_age_s: float,
) -> CleaningPlan:
    """Return a plan that covers only unknown paths, whose removal a user has requested.

    The age of a file is not enough: a user may have moved an old file to its place just now, and
    the clock of the store, or of this machine, may be wrong. So a file also stays for
    `SHORTEST_UNKNOWN_AGE_S` after a cleaner first wanted to remove it.

    Args:
        unknown: the unknown paths.
        seen: the notes of when a cleaner first wanted to remove each path.
        now_seen: the note for paths without a note; it has the present time.
        readers: the open transactions that may read the table. No reader should need an unknown
            file, but a reader of another program may have listed it.
        unknown_age_s: the minimum age of a path to remove.
    """
    remove: list[Removal] = []
    keep: list[Removal] = []
    left: list[UnknownPath] = []
    unseen: list[str] = []
    waited_for: dict[Reader, None] = {}
    for one in unknown:
        if not one.is_removable or one.age_s is None:
            left.append(one)
            continue
        why_not: str | None = f"changed less than {age_text(unknown_age_s)} ago"
        if one.age_s >= unknown_age_s:
            first_seen = seen.get(one.path, now_seen)
            if one.path not in seen:
                unseen.append(one.path)
            why_not = waits_for(first_seen, readers, now_seen.at_s, SHORTEST_UNKNOWN_AGE_S)
            waited_for |= dict.fromkeys(readers_before(first_seen, readers))
        why = why_not or f"unknown, and not changed for {age_text(one.age_s)}: {one.why}"
        item = Removal(path=one.path, why=why, size_bytes=one.size_bytes)
        (keep if why_not else remove).append(item)
    return CleaningPlan(
        remove=tuple(remove),
        keep=tuple(keep),
        unseen=tuple(unseen),
        waited_for=tuple(waited_for),
        unknown=tuple(left),
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

    The function ignores an upload without a write ID or transaction ID in its path, because this
    provider did not start the upload.

    Args:
        uploads: the open uploads, listed before `txns` and `write_ids` were read.
        txns: the transactions that are open or aborted now.
        write_ids: the write IDs of the table that are open or aborted now.
        now_s: the time, seconds since 1970.
        orphan_age_s: the minimum age of an upload to abort.
    """
    found = []
    for upload in uploads:
        owner = next(filter(None, map(_owner_of, upload.path.split("/"))), None)
        if owner is None or now_s - upload.begun_s < orphan_age_s:
            continue
        txn_id, write_id = owner
        is_open = (
            txn_id is not None and (txn_id in txns.open or txn_id > txns.high_watermark)
        ) or (
            write_id is not None
            and (write_id in write_ids.open or write_id > write_ids.high_watermark)
        )
        if not is_open:
            why = "an upload that a dead worker left open"
            found.append((upload, Removal(path=upload.path, why=why, size_bytes=0)))
    return tuple(found)


def _owner_of(name: str) -> tuple[TxnId | None, WriteId | None] | None:
    """Return the transaction ID or the write ID in a directory name; a missing ID is None."""
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

    The replacement is the oldest existing base that replaced the path. So a path that an early base
    replaced may be removed before a path that only the newest base replaced.
    """
    bases = sorted(
        (d for d in (*state.obsolete_directories, state.base) if d is not None and d.is_base),
        key=lambda d: (d.high, d is not state.base),
    )
    newest = state.base.text if state.base else ""
    found = [
        (
            d.text,
            d.size_bytes,
            next((b.text for b in bases if _covers(b, d)), d.superseded_by or newest),
        )
        for d in state.obsolete_directories
    ]
    first = bases[0].text if bases else ""
    return [*found, *((f.path, f.size_bytes, first) for f in state.obsolete_originals)]


def _covers(base: AcidDirectory, other: AcidDirectory) -> bool:
    return base.high > other.high or (base.high == other.high and not other.is_base)


def _ends(replacement: str, *, is_insert_only: bool) -> WriteId:
    """Return the oldest version that is readable without the paths that `replacement` replaced.

    In a full-ACID table, each row of a wider delta keeps its write ID. So every version that is
    readable with the narrower deltas is readable with the wider delta.
    """
    name = parse_directory_name(replacement)
    if isinstance(name, BaseName):
        return max(WriteId(0), name.write_id)
    return name.high if isinstance(name, DeltaName) and is_insert_only else WriteId(0)


def readers_before(seen: FirstSeen, readers: Iterable[Reader]) -> tuple[Reader, ...]:
    """Return the readers that may have begun before a cleaner first saw a replacement."""
    return tuple(reader for reader in readers if reader.txn_id <= seen.high_watermark)


def waits_for(
    seen: FirstSeen, readers: Iterable[Reader], now_s: float, retention_s: float
) -> str | None:
    """Return why a replaced directory must be kept for now, or None if it can be removed.

    Args:
        seen: the note of when a cleaner first saw the replacement.
        readers: open transactions that may read the table, sorted by ID.
        now_s: the time.
        retention_s: the minimum time for which a replaced directory is kept.
    """
    before = readers_before(seen, readers)
    if before:
        others = f"; and {len(before) - 1} more" if len(before) > 1 else ""
        return f"{before[0]}{others}"
    age = now_s - seen.at_s
    if age < retention_s:
        return f"kept for {age_text(retention_s)}, of which {age_text(retention_s - age)} remain"
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

"""What may be removed from a table's directories, and what must wait: a decision, never a deed.

Takes what a reader that starts now would see, and when each replacement was first seen; gives a
`CleaningPlan`. The rule (as Hive's Cleaner, without its own tables):

* A directory that every new reader passes over may still be read by one who listed it earlier.
  It goes when every transaction has ended that was open, or could have been, when its replacement
  was first seen: when the lowest open transaction is above the watermark noted then. Readers hold
  no lock for this to work, only a transaction.
* A directory with nothing but aborted writes is read by nobody and goes at once. It is never
  mistaken for its neighbours: only whole directories of aborted write IDs are listed (HIVE-25502,
  HIVE-24481).
* A staging directory goes when its transaction has ended and it is old. So does an upload that a
  dead worker has left open, where a store knows these.

Must not look at a file system or a metastore.
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
    parse_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList


_NOTHING_HELD: Final[Mapping[str, str]] = MappingProxyType({})
_NONE: Final = WriteId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSeen:
    """When a replacement was first seen: the transaction high watermark, and seconds since 1970."""

    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingDirectory:
    """A staging directory: its name, its transaction (None: unreadable) and its newest change."""

    path: str
    txn_id: TxnId | None
    modified_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One path below the location, and why it goes or stays.

    Versions below `ends` cannot be read without it; 0 if none needs it.
    """

    path: str
    why: str
    size_bytes: int
    ends: WriteId = _NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """What goes and what stays.

    `unseen` names the replacements that have no note yet; the doer writes one for each before
    removing anything, with the watermark that this plan was made with.
    """

    remove: tuple[Removal, ...]
    keep: tuple[Removal, ...]
    unseen: tuple[str, ...]


def plan_cleaning(  # noqa: PLR0913 - every input is one fact of the decision
    state: AcidState,
    staging: tuple[StagingDirectory, ...],
    seen: Mapping[str, FirstSeen],
    txns: ValidTxnList,
    *,
    now_s: float,
    retention_s: float,
    orphan_age_s: float,
    is_insert_only: bool = False,
    held: Mapping[str, str] = _NOTHING_HELD,
) -> CleaningPlan:
    """Decide about one directory.

    Args:
        state: what a reader that starts now sees.
        staging: the staging directories below the location.
        seen: notes by the replacement's name on disk.
        txns: open and aborted transactions now.
        now_s: the time, seconds since 1970.
        retention_s: how long replaced directories are kept.
        orphan_age_s: how old left-over staging must be.
        is_insert_only: whether rows carry no write IDs.
        held: why paths stay that nobody reads now.
    """
    remove: list[Removal] = []
    keep: list[Removal] = []
    unseen: dict[str, None] = {}
    now_seen = FirstSeen(high_watermark=txns.high_watermark, at_s=now_s)
    for path, size, replacement in replaced(state):
        if replacement not in seen:
            unseen[replacement] = None
        why_not = held.get(path) or waits_for(
            seen.get(replacement, now_seen), txns, now_s, retention_s
        )
        item = Removal(
            path=path,
            why=why_not or f"replaced by {replacement}",
            size_bytes=size,
            ends=_ends(replacement, is_insert_only=is_insert_only),
        )
        (keep if why_not else remove).append(item)
    remove.extend(Removal(path=d.text, why=d.why, size_bytes=d.size_bytes) for d in state.aborted)
    left_over = plan_staging(staging, txns, now_s=now_s, orphan_age_s=orphan_age_s)
    return CleaningPlan(
        remove=(*remove, *left_over.remove),
        keep=(*keep, *left_over.keep),
        unseen=tuple(unseen),
    )


def plan_staging(
    staging: Iterable[StagingDirectory],
    txns: ValidTxnList,
    *,
    now_s: float,
    orphan_age_s: float,
) -> CleaningPlan:
    """Decide about staging directories alone; see `plan_cleaning`."""
    remove: list[Removal] = []
    keep: list[Removal] = []
    for directory in staging:
        why_not = _still_used(directory, txns, now_s, orphan_age_s)
        why = why_not or "left over by a job that has ended"
        item = Removal(path=directory.path, why=why, size_bytes=directory.size_bytes)
        (keep if why_not else remove).append(item)
    return CleaningPlan(remove=tuple(remove), keep=tuple(keep), unseen=())


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftUpload:
    """An upload to a path below the location that nobody has completed, and when it was begun."""

    path: str
    upload_id: str
    begun_s: float


def plan_uploads(
    uploads: Iterable[LeftUpload],
    txns: ValidTxnList,
    write_ids: ValidWriteIdList,
    *,
    now_s: float,
    orphan_age_s: float,
) -> tuple[tuple[LeftUpload, Removal], ...]:
    """Which open uploads are given up: those that are old, and whose writer is known to be over.

    A path that names neither a write ID nor a transaction is not one of ours.

    Args:
        uploads: listed before the next two were asked for.
        txns: open and aborted transactions now.
        write_ids: those of the table.
        now_s: the time, seconds since 1970.
        orphan_age_s: how old an upload must be.
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
            why = "an upload that a dead worker has left"
            found.append((upload, Removal(path=upload.path, why=why, size_bytes=0)))
    return tuple(found)


def _owner_of(name: str) -> tuple[TxnId | None, WriteId | None] | None:
    """The transaction, or write ID, of whoever writes below a directory of this name."""
    if name.startswith(STAGING_PREFIX):
        number = name.removeprefix(STAGING_PREFIX).partition("-")[0]
        return (TxnId(int(number)), None) if number.isdigit() else None
    parsed = parse_directory_name(name)
    if parsed is None:
        return None
    if parsed.visibility_txn_id is not None:
        return parsed.visibility_txn_id, None
    return None, parsed.high


def replaced(state: AcidState) -> list[tuple[str, int, str]]:
    """(path, bytes, replacement) of everything that new readers pass over.

    The replacement is the first base that made it superfluous, if that is still there: what an
    early one replaced is not kept for as long as what the newest has.
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
    """The oldest version that needs nothing of what a directory has replaced.

    In a full ACID table a wider delta has all that the narrower had, by write ID.
    """
    name = parse_directory_name(replacement)
    if isinstance(name, BaseName):
        return max(WriteId(0), name.write_id)
    return name.high if isinstance(name, DeltaName) and is_insert_only else WriteId(0)


def waits_for(seen: FirstSeen, txns: ValidTxnList, now_s: float, retention_s: float) -> str | None:
    """Why what was replaced has to stay for now; None if it need not.

    Args:
        seen: when its replacement was first seen.
        txns: open transactions now.
        now_s: the time.
        retention_s: how long it is kept at least.
    """
    oldest = txns.min_open
    if oldest is not None and oldest <= seen.high_watermark:
        return f"transaction {oldest} is open and may read it"
    age = now_s - seen.at_s
    if age < retention_s:
        return f"kept for {retention_s:.0f} s; {retention_s - age:.0f} s are left"
    return None


def _still_used(
    directory: StagingDirectory, txns: ValidTxnList, now_s: float, orphan_age_s: float
) -> str | None:
    if directory.txn_id is not None and directory.txn_id in txns.open:
        return f"transaction {directory.txn_id} is writing it"
    if now_s - directory.modified_s < orphan_age_s:
        return f"changed less than {orphan_age_s:.0f} s ago"
    return None


def is_clean(state: AcidState) -> bool:
    """Whether nothing is left that a compaction or abort has made superfluous."""
    leftovers: tuple[AcidDirectory, ...] = (*state.obsolete_directories, *state.aborted)
    return not leftovers and not state.obsolete_originals

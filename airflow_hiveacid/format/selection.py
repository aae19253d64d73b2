"""Choose the base and deltas that one reader reads, using only directory names.

The rules are those of Hive 4's AcidUtils.getAcidState, except where Hive can return wrong rows or
remove needed files:

* a compacted base is valid only if all write IDs up to the base's write ID have ended; Hive 4 also
  accepts a base if its own write ID is the lowest open write ID;
* if a range was compacted several times, only the last compaction is read. Hive 4 reads all of
  these compactions (HIVE-29210);
* an invisible directory is never obsolete, because a writer may still be writing to it;
* an aborted INSERT OVERWRITE does not hide that needed files are lost.

Example:
    >>> verdicts = select(
    ...     [FoundBase(name=BaseName(write_id=WriteId(2)), text="base_2", is_compacted=False)],
    ...     [FoundDelta(name=DeltaName(low=WriteId(1), high=WriteId(1)), text="delta_1_1")],
    ...     ValidWriteIdList.parse("db.t:2:9223372036854775807::"),
    ...     None,
    ...     location="/t",
    ... )
    >>> {text: verdict.why for text, verdict in verdicts.items()}
    {'base_2': 'live', 'delta_1_1': 'obsolete: covered by base_2'}
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import MINIMUM_BASE, BaseName, DeltaName
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidTxnList, ValidWriteIdList


class DirectoryStatus(enum.Enum):
    """The status of a directory for one reader.

    LIVE: the reader reads it. OBSOLETE: a live directory replaces it. ABORTED: it contains only
    aborted writes, or the result of an aborted compaction. INVISIBLE: it is not yet committed for
    this reader, so cleaners must not delete it.
    """

    LIVE = "live"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    INVISIBLE = "invisible"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBase:
    """A base found on disk; `is_compacted` if a compactor wrote it, and not INSERT OVERWRITE."""

    name: BaseName
    text: str
    is_compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDelta:
    """A delta or delete delta found on disk; `text` is the directory name."""

    name: DeltaName
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryVerdict:
    """The status of one directory for a reader, with a reason in one line.

    `visibility`, `is_resolved` and `superseded_by` are as in `directories.AcidDirectory`; NONE
    means that no row is visible.
    """

    status: DirectoryStatus = DirectoryStatus.LIVE
    why: str = "live"
    visibility: RangeVisibility = RangeVisibility.ALL
    is_resolved: bool = True
    superseded_by: str | None = None

    def aborted(self, what: str) -> DirectoryVerdict:
        """Return a copy of this verdict with status ABORTED."""
        return replace(
            self,
            status=DirectoryStatus.ABORTED,
            why=f"aborted: {what}",
            visibility=RangeVisibility.NONE,
        )

    def invisible(self, why: str) -> DirectoryVerdict:
        """Return a copy of this verdict with status INVISIBLE."""
        return replace(
            self,
            status=DirectoryStatus.INVISIBLE,
            why=f"invisible: {why}",
            visibility=RangeVisibility.NONE,
        )

    def obsolete(self, cover: str, how: str = "covered by") -> DirectoryVerdict:
        """Return a copy of this verdict with status OBSOLETE; `cover` replaces the directory."""
        return replace(
            self,
            status=DirectoryStatus.OBSOLETE,
            why=f"obsolete: {how} {cover}",
            superseded_by=cover,
        )


def select(
    bases: Sequence[FoundBase],
    deltas: Sequence[FoundDelta],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    location: str,
) -> dict[str, DirectoryVerdict]:
    """Return a verdict for every directory of one root, keyed by directory name.

    If `txns` is None, all compactions count as committed. Raises NotEnoughHistoryError if no base
    is valid for the reader, and a compactor, which may have removed data that the reader needs,
    wrote the oldest one.
    """
    verdicts = {b.text: _judge_base(b, write_ids, txns) for b in bases}
    usable_bases = [b for b in bases if verdicts[b.text].status is DirectoryStatus.LIVE]
    base = max(usable_bases, key=_base_rank, default=None)
    if base is None:
        _require_history(bases, verdicts, write_ids, txns, location)
    else:
        for candidate in usable_bases:
            if candidate is not base:
                verdicts[candidate.text] = verdicts[candidate.text].obsolete(base.text)
    verdicts |= {d.text: _judge_delta(d, write_ids, txns) for d in deltas}
    usable = [d for d in deltas if verdicts[d.text].status is DirectoryStatus.LIVE]
    verdicts |= _choose_deltas(usable, base, write_ids, verdicts)
    return verdicts


def walk_order(delta: FoundDelta) -> tuple[int, int, int, str]:
    """Return the sort key for deltas in Hive's order (ParsedDelta.compareTo).

    Low ascending, high descending, statement ID ascending (none comes first), directory name.
    """
    return delta.name.low, -delta.name.high, _statement(delta), delta.text


# ---- pass one: each directory by itself ----------------------------------------------------------


def _judge_compaction(txn_id: TxnId | None, txns: ValidTxnList | None) -> DirectoryVerdict:
    if txn_id is None or txns is None or txns.is_visible(txn_id):
        return DirectoryVerdict()
    if txns.is_aborted(txn_id):
        return DirectoryVerdict().aborted(f"transaction {txn_id} of its compaction")
    return DirectoryVerdict().invisible(f"transaction {txn_id} of its compaction is not committed")


def _judge_base(
    base: FoundBase, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> DirectoryVerdict:
    verdict = _judge_compaction(base.name.visibility_txn_id, txns)
    if verdict.status is not DirectoryStatus.LIVE or base.name.write_id == MINIMUM_BASE:
        return verdict
    if base.is_compacted:
        return _judge_compacted_base(verdict, base.name.write_id, write_ids)
    return _judge_overwrite(verdict, base.name.write_id, write_ids)


def _judge_compacted_base(
    verdict: DirectoryVerdict, write_id: WriteId, write_ids: ValidWriteIdList
) -> DirectoryVerdict:
    first = min(WriteId(1), write_id)
    verdict = replace(verdict, is_resolved=write_ids.is_resolved(first, write_id))
    if not write_ids.is_valid_base(write_id):
        return verdict.invisible(_why_hidden(first, write_id, write_ids))
    # No write ID up to the base's was open when the compactor wrote it and dropped the rows of
    # aborted ones (CompactorWriteIdList), so no row needs a check.
    return verdict


def _judge_overwrite(
    verdict: DirectoryVerdict, write_id: WriteId, write_ids: ValidWriteIdList
) -> DirectoryVerdict:
    if write_ids.is_aborted(write_id):
        return verdict.aborted(f"write ID {write_id}")
    if write_ids.is_visible(write_id):
        return verdict
    return replace(verdict, is_resolved=False).invisible(_why_hidden(write_id, write_id, write_ids))


def _judge_delta(
    delta: FoundDelta, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> DirectoryVerdict:
    low, high = delta.name.low, delta.name.high
    verdict = replace(
        _judge_compaction(delta.name.visibility_txn_id, txns),
        is_resolved=write_ids.is_resolved(low, high),
    )
    if verdict.status is not DirectoryStatus.LIVE:
        return verdict
    if write_ids.range_aborted(low, high) is RangeVisibility.ALL:
        return verdict.aborted(f"write ID {low}" if low == high else f"write IDs {low} to {high}")
    visibility = write_ids.range_visibility(low, high)
    if visibility is RangeVisibility.NONE:
        return verdict.invisible(_why_hidden(low, high, write_ids))
    return replace(verdict, visibility=visibility)


def _why_hidden(low: WriteId, high: WriteId, write_ids: ValidWriteIdList) -> str:
    if high > write_ids.high_watermark:
        return f"write ID {high} is above the high watermark {write_ids.high_watermark}"
    opened = write_ids.lowest_open(low, high)
    if opened is None:
        return f"a write ID from {write_ids.min_open_write_id} on is open"
    return f"write ID {opened} is open"


# ---- pass two: all together ----------------------------------------------------------------------


def _base_rank(base: FoundBase) -> tuple[int, bool, int]:
    return base.name.write_id, base.is_compacted, base.name.visibility_txn_id or 0


def _require_history(
    bases: Sequence[FoundBase],
    verdicts: dict[str, DirectoryVerdict],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    location: str,
) -> None:
    """Raise an error if a compactor wrote the oldest base: its inputs may be gone (HIVE-20410).

    A base of an uncommitted compaction does not count, because it does not replace any directory
    yet. An overwrite may still be open, so its base does not prove that files were removed.
    """
    standing = [
        b
        for b in bases
        if verdicts[b.text].status is not DirectoryStatus.ABORTED
        and _judge_compaction(b.name.visibility_txn_id, txns).status is DirectoryStatus.LIVE
    ]
    oldest = min(standing, key=lambda b: b.name.write_id, default=None)
    if oldest is not None and oldest.is_compacted:
        raise NotEnoughHistoryError(
            location=location, high_watermark=write_ids.high_watermark, oldest_base=oldest.text
        )


def _choose_deltas(
    usable: Sequence[FoundDelta],
    base: FoundBase | None,
    write_ids: ValidWriteIdList,
    verdicts: dict[str, DirectoryVerdict],
) -> dict[str, DirectoryVerdict]:
    last: dict[object, FoundDelta] = {}
    for delta in sorted(usable, key=_compaction):
        last[_kind_and_range(delta)] = delta
    repeated = [d for d in usable if _compaction(d) < _compaction(last[_kind_and_range(d)])]
    skipped = {d.text for d in repeated}
    walked = sorted((d for d in usable if d.text not in skipped), key=walk_order)
    chosen = dict(_walk(walked, base, write_ids, verdicts))
    for delta in repeated:
        winner = last[_kind_and_range(delta)].text
        if chosen[winner].status is DirectoryStatus.INVISIBLE:
            chosen[delta.text] = chosen[winner]
        else:
            chosen[delta.text] = verdicts[delta.text].obsolete(winner, "compacted again as")
    return chosen


def _walk(
    deltas: Sequence[FoundDelta],
    base: FoundBase | None,
    write_ids: ValidWriteIdList,
    verdicts: dict[str, DirectoryVerdict],
) -> Iterator[tuple[str, DirectoryVerdict]]:
    """Yield a verdict for each delta.

    A delta is live if its `high` exceeds the `high` of all earlier deltas in the order; also with
    the same `high` if it is from another statement of the same write, or if it has the range of the
    live delta or delete delta before it.
    """
    reached = WriteId(0) if base is None else base.name.write_id
    cover = "" if base is None else base.text
    statement = -1
    previous: FoundDelta | None = None
    for delta in deltas:
        verdict, high = verdicts[delta.text], delta.name.high
        if high > reached:
            low = WriteId(reached + 1)
            if write_ids.range_visibility(low, high) is RangeVisibility.NONE:
                why = f"nothing from write ID {low} on is visible"
                yield delta.text, verdict.invisible(why)
                continue
            reached, cover, statement = high, delta.text, _statement(delta)
        elif not _goes_along(delta, previous, further=high == reached and statement >= 0):
            # This delta has only write ID 0, which the metastore never allocates. If no other
            # directory covers the delta, it is invisible, not obsolete.
            none = verdict.invisible("there is no write ID 0")
            yield delta.text, verdict.obsolete(cover) if cover else none
            continue
        previous = delta
        yield delta.text, verdict


def _goes_along(delta: FoundDelta, previous: FoundDelta | None, *, further: bool) -> bool:
    return further or (previous is not None and _range(delta) == _range(previous))


def _range(delta: FoundDelta) -> tuple[int, int, int]:
    return delta.name.low, delta.name.high, _statement(delta)


def _kind_and_range(delta: FoundDelta) -> tuple[bool, tuple[int, int, int]]:
    return delta.name.is_delete, _range(delta)


def _compaction(delta: FoundDelta) -> int:
    return delta.name.visibility_txn_id or 0


def _statement(delta: FoundDelta) -> int:
    return -1 if delta.name.statement_id is None else delta.name.statement_id

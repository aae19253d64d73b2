"""Which base and which deltas a reader takes, decided from their names alone, each with its reason.

Takes the names found below one root, the write IDs a reader may see and the transactions it may
see; gives one verdict per directory. The rules are those of Hive 4's AcidUtils.getAcidState, except
where Hive can show wrong rows or remove what is needed:

* a base needs every write ID up to its own resolved (Hive 4 also takes one whose own ID is open, if
  it is the lowest open one);
* of several compactions of one range only the last counts (Hive 4 reads them all, HIVE-29210);
* a directory that is not visible is never obsolete, so no cleaner removes what somebody still
  writes;
* an aborted INSERT OVERWRITE does not hide that history is missing.

Must not know files.

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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import MINIMUM_BASE, BaseName, DeltaName
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class DirectoryStatus(enum.Enum):
    """What a directory is for one reader.

    LIVE is read. OBSOLETE is replaced by a live one. ABORTED holds only aborted writes, or what an
    aborted compaction made. INVISIBLE is not (yet) committed for this reader; nobody may delete it.
    """

    LIVE = "live"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    INVISIBLE = "invisible"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBase:
    """A base by name. `is_compacted` tells a compactor's from one that INSERT OVERWRITE wrote."""

    name: BaseName
    text: str
    is_compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDelta:
    """A delta or delete delta by name; `text` is the name as found on disk."""

    name: DeltaName
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one directory is for a reader, and why, in one line.

    `visibility` tells whether the rows inside must be asked one by one (SOME) or not (ALL), NONE
    for a directory that the lists hide. `is_resolved` is False while a write ID of the name is open
    or above the high watermark. `superseded_by` is the directory that makes this one obsolete.
    """

    status: DirectoryStatus = DirectoryStatus.LIVE
    why: str = "live"
    visibility: RangeVisibility = RangeVisibility.ALL
    is_resolved: bool = True
    superseded_by: str | None = None

    def aborted(self, what: str) -> Verdict:
        """The same, found aborted."""
        return replace(
            self,
            status=DirectoryStatus.ABORTED,
            why=f"aborted: {what}",
            visibility=RangeVisibility.NONE,
        )

    def invisible(self, why: str) -> Verdict:
        """The same, found not to be visible."""
        return replace(
            self,
            status=DirectoryStatus.INVISIBLE,
            why=f"invisible: {why}",
            visibility=RangeVisibility.NONE,
        )

    def obsolete(self, cover: str, how: str = "covered by") -> Verdict:
        """The same, found to be replaced by `cover`."""
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
) -> dict[str, Verdict]:
    """Judge every directory of one root; keys are the names on disk.

    Without `txns` every compaction counts as committed. `location` is only for the error's message.

    Raises:
        NotEnoughHistoryError: no base can be read, and the oldest one is a compactor's: what this
            reader needs may be gone.
    """
    verdicts = {b.text: _judge_base(b, write_ids, txns) for b in bases}
    usable_bases = [b for b in bases if verdicts[b.text].status is DirectoryStatus.LIVE]
    base = max(usable_bases, key=_base_rank, default=None)
    if base is None:
        _require_history(bases, verdicts, write_ids, txns, location)
    else:
        for other in usable_bases:
            if other is not base:
                verdicts[other.text] = verdicts[other.text].obsolete(base.text)
    verdicts |= {d.text: _judge_delta(d, write_ids, txns) for d in deltas}
    usable = [d for d in deltas if verdicts[d.text].status is DirectoryStatus.LIVE]
    verdicts |= _choose_deltas(usable, base, write_ids, verdicts)
    return verdicts


def walk_order(delta: FoundDelta) -> tuple[int, int, int, str]:
    """Hive's order of deltas (ParsedDelta.compareTo).

    Low ascending, high descending, statement ascending with none first, then the name on disk.
    """
    return delta.name.low, -delta.name.high, _statement(delta), delta.text


# ---- pass one: each directory by itself ----------------------------------------------------------


def _judge_compaction(txn_id: TxnId | None, txns: ValidTxnList | None) -> Verdict:
    if txn_id is None or txns is None or txns.is_visible(txn_id):
        return Verdict()
    if txns.is_aborted(txn_id):
        return Verdict().aborted(f"transaction {txn_id} of its compaction")
    return Verdict().invisible(f"transaction {txn_id} of its compaction is not committed")


def _judge_base(base: FoundBase, write_ids: ValidWriteIdList, txns: ValidTxnList | None) -> Verdict:
    verdict = _judge_compaction(base.name.visibility_txn_id, txns)
    if verdict.status is not DirectoryStatus.LIVE or base.name.write_id == MINIMUM_BASE:
        return verdict
    if base.is_compacted:
        return _judge_compacted_base(verdict, base.name.write_id, write_ids)
    return _judge_overwrite(verdict, base.name.write_id, write_ids)


def _judge_compacted_base(
    verdict: Verdict, write_id: WriteId, write_ids: ValidWriteIdList
) -> Verdict:
    first = min(WriteId(1), write_id)
    verdict = replace(verdict, is_resolved=write_ids.is_resolved(first, write_id))
    if not write_ids.is_valid_base(write_id):
        return verdict.invisible(_why_hidden(first, write_id, write_ids))
    # Nothing up to here was open when it was made, so that its compactor has dropped the rows of
    # every write ID that was aborted (CompactorWriteIdList): none of them needs to be asked.
    return verdict


def _judge_overwrite(verdict: Verdict, write_id: WriteId, write_ids: ValidWriteIdList) -> Verdict:
    if write_ids.is_aborted(write_id):
        return verdict.aborted(f"write ID {write_id}")
    if write_ids.is_visible(write_id):
        return verdict
    return replace(verdict, is_resolved=False).invisible(_why_hidden(write_id, write_id, write_ids))


def _judge_delta(
    delta: FoundDelta, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> Verdict:
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
    """Highest write ID; of equal ones a compactor's before an overwrite's, then the latest."""
    return base.name.write_id, base.is_compacted, base.name.visibility_txn_id or 0


def _require_history(
    bases: Sequence[FoundBase],
    verdicts: dict[str, Verdict],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    location: str,
) -> None:
    """Fail when the oldest base is a compactor's: deltas it stands for may be gone (HIVE-20410).

    One whose compaction is not committed stands for nothing yet. An older overwrite's base is no
    proof either way: it may still be under way.
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
    verdicts: dict[str, Verdict],
) -> dict[str, Verdict]:
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
    verdicts: dict[str, Verdict],
) -> Iterator[tuple[str, Verdict]]:
    """Take what reaches higher, its further statements and its twin; the rest is covered."""
    reached = WriteId(0) if base is None else base.name.write_id
    cover = "" if base is None else base.text
    statement = -1
    previous: FoundDelta | None = None
    for delta in deltas:
        verdict, high = verdicts[delta.text], delta.name.high
        if high > reached:
            above = WriteId(reached + 1)
            if write_ids.range_visibility(above, high) is RangeVisibility.NONE:
                yield delta.text, verdict.invisible(f"nothing from write ID {above} on is visible")
                continue
            reached, cover, statement = high, delta.text, _statement(delta)
        elif not _goes_along(delta, previous, further=high == reached and statement >= 0):
            # Nothing covers a delta of write ID 0, which is never given out: leave it alone.
            none = verdict.invisible("there is no write ID 0")
            yield delta.text, verdict.obsolete(cover) if cover else none
            continue
        previous = delta
        yield delta.text, verdict


def _goes_along(delta: FoundDelta, previous: FoundDelta | None, *, further: bool) -> bool:
    """Whether a delta that reaches no higher is the last one's further statement or twin."""
    return further or (previous is not None and _range(delta) == _range(previous))


def _range(delta: FoundDelta) -> tuple[int, int, int]:
    return delta.name.low, delta.name.high, _statement(delta)


def _kind_and_range(delta: FoundDelta) -> tuple[bool, tuple[int, int, int]]:
    return delta.name.is_delete, _range(delta)


def _compaction(delta: FoundDelta) -> int:
    return delta.name.visibility_txn_id or 0


def _statement(delta: FoundDelta) -> int:
    return -1 if delta.name.statement_id is None else delta.name.statement_id

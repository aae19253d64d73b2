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
    >>> from airflow_hiveacid.format.names import BaseName, DeltaName
    >>> chosen = select(
    ...     [
    ...         AcidDirectory(name=BaseName(write_id=WriteId(2)), text="base_2"),
    ...         AcidDirectory(name=DeltaName(low=WriteId(1), high=WriteId(1)), text="delta_1_1"),
    ...     ],
    ...     ValidWriteIdList.parse("db.t:2:9223372036854775807::"),
    ...     None,
    ...     location="/t",
    ... )
    >>> [(directory.text, directory.why) for directory in chosen]
    [('base_2', 'live'), ('delta_1_1', 'obsolete: covered by base_2')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from airflow_hiveacid.format.directories import AcidDirectory, DirectoryStatus
from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import MINIMUM_BASE, DeltaName
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidTxnList, ValidWriteIdList


def select(
    directories: Sequence[AcidDirectory],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    *,
    location: str,
) -> list[AcidDirectory]:
    """Return the directories of one root with their status: bases, then deltas in Hive's order.

    If `txns` is None, all compactions count as committed. Raises NotEnoughHistoryError if no base
    is valid for the reader, and a compactor, which may have removed data that the reader needs,
    wrote the oldest one.
    """
    unjudged = [d for d in directories if d.is_base]
    bases = [_judge_base(d, write_ids, txns) for d in unjudged]
    base = max(filter(_is_live, bases), key=_base_rank, default=None)
    if base is None:
        _require_history(zip(unjudged, bases, strict=True), write_ids, txns, location)
    else:
        bases = [_covered(b, base.text) if _is_live(b) and b is not base else b for b in bases]
    deltas = {d.text: _judge_delta(d, write_ids, txns) for d in directories if not d.is_base}
    deltas |= _choose_deltas(list(filter(_is_live, deltas.values())), base, write_ids)
    return [*bases, *sorted(deltas.values(), key=_walk_order)]


def _walk_order(delta: AcidDirectory) -> tuple[int, int, int, str]:
    """Return the sort key for deltas in Hive's order (ParsedDelta.compareTo).

    Low ascending, high descending, statement ID ascending (none comes first), directory name.
    """
    return delta.low, -delta.high, _statement(delta), delta.text


def _is_live(directory: AcidDirectory) -> bool:
    return directory.status is DirectoryStatus.LIVE


def _not_read(directory: AcidDirectory, status: DirectoryStatus, reason: str) -> AcidDirectory:
    why = f"{status.value}: {reason}"
    return replace(directory, status=status, why=why, visibility=RangeVisibility.NONE)


def _covered(directory: AcidDirectory, cover: str, how: str = "covered by") -> AcidDirectory:
    """Return a directory that another one, `cover`, replaces."""
    why = f"obsolete: {how} {cover}"
    return replace(directory, status=DirectoryStatus.OBSOLETE, why=why, superseded_by=cover)


# ---- pass one: each directory by itself ----------------------------------------------------------


def _judge_compaction(directory: AcidDirectory, txns: ValidTxnList | None) -> AcidDirectory:
    txn_id = directory.name.visibility_txn_id
    if txn_id is None or txns is None or txns.is_visible(txn_id):
        return directory
    transaction = f"transaction {txn_id} of its compaction"
    if txns.is_aborted(txn_id):
        return _not_read(directory, DirectoryStatus.ABORTED, transaction)
    return _not_read(directory, DirectoryStatus.INVISIBLE, f"{transaction} is not committed")


def _judge_base(
    base: AcidDirectory, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> AcidDirectory:
    base = _judge_compaction(base, txns)
    if not _is_live(base) or base.high == MINIMUM_BASE:
        return base
    if base.is_compacted:
        return _judge_compacted_base(base, write_ids)
    return _judge_overwrite(base, write_ids)


def _judge_compacted_base(base: AcidDirectory, write_ids: ValidWriteIdList) -> AcidDirectory:
    first = min(WriteId(1), base.high)  # so that the range of a base_0 is not empty
    base = replace(base, is_resolved=write_ids.is_resolved(first, base.high))
    if not write_ids.is_valid_base(base.high):
        return _not_read(base, DirectoryStatus.INVISIBLE, _why_hidden(first, base.high, write_ids))
    # No write ID up to the base's was open when the compactor wrote it and dropped the rows of
    # aborted ones (CompactorWriteIdList), so no row needs a check.
    return base


def _judge_overwrite(base: AcidDirectory, write_ids: ValidWriteIdList) -> AcidDirectory:
    if write_ids.is_aborted(base.high):
        return _not_read(base, DirectoryStatus.ABORTED, f"write ID {base.high}")
    if write_ids.is_visible(base.high):
        return base
    why = _why_hidden(base.high, base.high, write_ids)
    return _not_read(replace(base, is_resolved=False), DirectoryStatus.INVISIBLE, why)


def _judge_delta(
    delta: AcidDirectory, write_ids: ValidWriteIdList, txns: ValidTxnList | None
) -> AcidDirectory:
    low, high = delta.low, delta.high
    delta = _judge_compaction(delta, txns)
    if not write_ids.is_resolved(low, high):
        delta = replace(delta, is_resolved=False)
    if not _is_live(delta):
        return delta
    if write_ids.range_aborted(low, high) is RangeVisibility.ALL:
        ids = f"write ID {low}" if low == high else f"write IDs {low} to {high}"
        return _not_read(delta, DirectoryStatus.ABORTED, ids)
    visibility = write_ids.range_visibility(low, high)
    if visibility is RangeVisibility.NONE:
        return _not_read(delta, DirectoryStatus.INVISIBLE, _why_hidden(low, high, write_ids))
    return delta if visibility is RangeVisibility.ALL else replace(delta, visibility=visibility)


def _why_hidden(low: WriteId, high: WriteId, write_ids: ValidWriteIdList) -> str:
    if high > write_ids.high_watermark:
        return f"write ID {high} is above the high watermark {write_ids.high_watermark}"
    opened = write_ids.lowest_open(low, high)
    if opened is None:
        return f"a write ID from {write_ids.min_open_write_id} on is open"
    return f"write ID {opened} is open"


# ---- pass two: all together ----------------------------------------------------------------------


def _base_rank(base: AcidDirectory) -> tuple[int, bool, int]:
    return base.high, base.is_compacted, _compaction(base)


def _require_history(
    bases: Iterable[tuple[AcidDirectory, AcidDirectory]],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    location: str,
) -> None:
    """Raise an error if a compactor wrote the oldest base: its inputs may be gone (HIVE-20410).

    Each of `bases` is given before and after it was judged.
    A base of an uncommitted compaction does not count, because it does not replace any directory
    yet. An overwrite may still be open, so its base does not prove that files were removed.
    """
    standing = [
        base
        for base, judged in bases
        if judged.status is not DirectoryStatus.ABORTED and _is_live(_judge_compaction(base, txns))
    ]
    oldest = min(standing, key=lambda b: b.high, default=None)
    if oldest is not None and oldest.is_compacted:
        raise NotEnoughHistoryError(
            location=location, high_watermark=write_ids.high_watermark, oldest_base=oldest.text
        )


def _choose_deltas(
    usable: Sequence[AcidDirectory], base: AcidDirectory | None, write_ids: ValidWriteIdList
) -> dict[str, AcidDirectory]:
    """Return usable deltas with status, by name; of one range, only the last compaction counts."""
    last = {_kind_and_range(d): d for d in sorted(usable, key=_compaction)}
    repeated = [d for d in usable if _compaction(d) < _compaction(last[_kind_and_range(d)])]
    skipped = {d.text for d in repeated}
    walked = sorted((d for d in usable if d.text not in skipped), key=_walk_order)
    chosen = {d.text: d for d in _walk(walked, base, write_ids)}
    for delta in repeated:
        winner = chosen[last[_kind_and_range(delta)].text]
        chosen[delta.text] = (
            replace(delta, status=winner.status, why=winner.why, visibility=winner.visibility)
            if winner.status is DirectoryStatus.INVISIBLE
            else _covered(delta, winner.text, "compacted again as")
        )
    return chosen


def _walk(
    deltas: Sequence[AcidDirectory], base: AcidDirectory | None, write_ids: ValidWriteIdList
) -> Iterator[AcidDirectory]:
    """Yield each delta with its status.

    A delta is live if its `high` exceeds the `high` of all earlier deltas in the order; also with
    the same `high` if it is from another statement of the same write, or if it has the range of the
    live delta or delete delta before it.
    """
    reached = WriteId(0) if base is None else base.high
    cover = "" if base is None else base.text
    statement = -1
    previous: AcidDirectory | None = None
    for delta in deltas:
        if delta.high > reached:
            low = WriteId(reached + 1)
            if write_ids.range_visibility(low, delta.high) is RangeVisibility.NONE:
                why = f"nothing from write ID {low} on is visible"
                yield _not_read(delta, DirectoryStatus.INVISIBLE, why)
                continue
            reached, cover, statement = delta.high, delta.text, _statement(delta)
        elif not _goes_along(delta, previous, further=delta.high == reached and statement >= 0):
            # Without a cover, nothing is reached yet, so this delta has only write ID 0, which the
            # metastore never allocates. Then the delta is invisible, not obsolete.
            none = _not_read(delta, DirectoryStatus.INVISIBLE, "there is no write ID 0")
            yield _covered(delta, cover) if cover else none
            continue
        previous = delta
        yield delta


def _goes_along(delta: AcidDirectory, previous: AcidDirectory | None, *, further: bool) -> bool:
    return further or (previous is not None and _range(delta) == _range(previous))


def _range(delta: AcidDirectory) -> tuple[int, int, int]:
    return delta.low, delta.high, _statement(delta)


def _kind_and_range(delta: AcidDirectory) -> tuple[bool, tuple[int, int, int]]:
    return delta.is_delete, _range(delta)


def _compaction(directory: AcidDirectory) -> int:
    return directory.name.visibility_txn_id or 0


def _statement(delta: AcidDirectory) -> int:
    statement_id = delta.name.statement_id if isinstance(delta.name, DeltaName) else None
    return -1 if statement_id is None else statement_id

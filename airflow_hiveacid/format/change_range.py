"""The changes between two versions of a table, derived from directory names.

The history of a root is a list of segments, each ended by an overwrite or a truncation. Within one,
a row exists from its insert event until its delete event. As cleaners remove obsolete directories
in any order, a range can be read only if the live directories contain it, or if no cleaner was
allowed to remove its directories (`Guarantee`).

Example:
    >>> now = ValidWriteIdList.parse("db.t:9:9223372036854775807::4")
    >>> part = ChangeRange(since=up_to(now, WriteId(3)), until=up_to(now, WriteId(6)))
    >>> part.holds(WriteId(4)), part.holds(WriteId(5)), part.count_within(WriteId(1), WriteId(9))
    (False, True, 2)
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from airflow_hiveacid.format.acid_state import AcidState, is_compacted, resolve
from airflow_hiveacid.format.directories import AcidDirectory, Listing
from airflow_hiveacid.format.errors import ChangesGoneError, NotEnoughHistoryError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList, settled, up_to
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import Guarantee, missing_evidence

_FIRST: WriteId = WriteId(1)


class ChangeType(enum.Enum):
    """The kind of a row change, in the order of a version's changes: removals first."""

    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRange:
    """The write IDs that are visible in `until`, but not in `since`; `until` includes `since`."""

    since: ValidWriteIdList
    until: ValidWriteIdList

    def holds(self, write_id: WriteId) -> bool:
        """Return whether a write ID is in the range."""
        return self.until.is_visible(write_id) and not self.since.is_visible(write_id)

    def count_within(self, low: WriteId, high: WriteId) -> int:
        """Return how many write IDs of low..high (inclusive) are in the range; 0 never is."""
        return self.until.visible_within(low, high) - self.since.visible_within(low, high)

    def overlaps(self, directory: AcidDirectory) -> bool:
        """Return whether a delta, or the base of an overwrite, contains a write of the range."""
        name = directory.name
        if isinstance(name, DeltaName):
            return self.count_within(name.low, name.high) > 0
        return not directory.is_compacted and self.holds(name.write_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSegment:
    """A part of a root's history that contains no overwrite.

    `state` has the segment's directories, resolved with the write ID lists of `part`. `fresh` names
    those with events of the range. If `ends_with` is set, an overwrite with that write ID deletes
    all rows at the end of the segment.
    """

    state: AcidState
    part: ChangeRange
    fresh: frozenset[str]
    ends_with: WriteId | None = None

    def is_whole(self, directory: str) -> bool:
        """Return whether every row of a directory may have changed: it is new, or all rows end."""
        return self.ends_with is not None or directory in self.fresh

    def is_all_of_range(self, directory: str) -> bool:
        """Return whether all visible inserts in a directory of `fresh` belong to the range."""
        name = next(d.name for d in self.state.live if d.text == directory)
        if not isinstance(name, DeltaName):
            return True  # the base of an overwrite has one write ID
        visible_count = self.part.until.visible_within(name.low, name.high)
        return self.part.count_within(name.low, name.high) == visible_count


def unsettled(write_ids: ValidWriteIdList) -> int:
    """Return the number of committed writes above the settled version; an open one is below them.

    Example:
        >>> unsettled(ValidWriteIdList.parse("d.t:9:7:7:"))
        2
    """
    return write_ids.visible_within(WriteId(settled(write_ids) + 1), write_ids.high_watermark)


def is_news(state: AcidState, part: ChangeRange) -> bool:
    """Return whether the names of a root's live directories show data of a range.

    A compactor normally names its base after the highest write ID in it, but after an interrupted
    stream perhaps after an aborted write. Such a base may contain any write of the range.
    """

    def may_hold(base: AcidDirectory) -> bool:
        is_named_so = not part.until.is_aborted(base.high)
        return part.holds(base.high) if is_named_so else part.count_within(_FIRST, base.high) > 0

    return any(
        part.overlaps(d) or (d.is_base and d.is_compacted and may_hold(d)) for d in state.live
    )


def holds_older(state: AcidState, version: WriteId) -> bool:
    """Return whether the oldest live data of a root is from `version` or earlier."""
    names = [d.name for d in state.live]
    begins = [n.write_id if isinstance(n, BaseName) else n.low for n in names]
    return bool(state.originals) or any(begin <= version for begin in begins)


def segments_of(  # noqa: PLR0913 - the reader, the root, the range, and what is proven
    listing: Listing,
    now: ValidWriteIdList,
    part: ChangeRange,
    *,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
    kept: Guarantee | None = None,
) -> tuple[ChangeSegment, ...]:
    """Return the segments of one root in a range, oldest first.

    It is empty if no write in the range changed the root. `now`, the reader's write ID list, must
    include every write that is visible in `part`. `kept` is the guarantee for the root's files, if
    any. Raises ChangesGoneError, with the lowest readable version, if cleaners may have deleted
    files that the range needs.
    """
    if not part.count_within(_FIRST, part.until.high_watermark):
        return ()
    today = resolve(listing, now, txns, kind)
    oldest = _oldest_live(today, now, kind)
    # If every write of the range is newer, the live files show all of its changes.
    if not part.count_within(_FIRST, oldest):
        segments = _of_live(listing, today, part, txns, kind)
        if segments is not None:
            return segments
    if kept is not None and missing_evidence(today, kept, kind) is None:
        if not part.count_within(_FIRST, kept.floor):
            return tuple(_of_kept(listing, now, part, txns, kind))
        oldest = min(oldest, kept.floor)
    raise ChangesGoneError(
        table=listing.location,
        since=part.since.high_watermark,
        oldest=oldest,
        why="a compaction or an overwrite has merged earlier versions into one directory",
    )


def _oldest_live(today: AcidState, now: ValidWriteIdList, kind: TransactionalKind) -> WriteId:
    """Return the oldest version of one root after which its live files show all changes."""
    lowest = WriteId(0) if today.base is None else max(today.base.high, WriteId(0))
    if kind is TransactionalKind.INSERT_ONLY:
        lowest = max([lowest, *(d.high for d in today.deltas if _is_mixed(d, now))])
    return lowest


def _of_live(
    listing: Listing,
    today: AcidState,
    part: ChangeRange,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
) -> tuple[ChangeSegment, ...] | None:
    """Return the range as one segment; None if the range's end needs files that are not live."""
    try:
        state = resolve(listing, part.until, txns, kind)
    except NotEnoughHistoryError:
        return None
    segment = _segment(state, part)
    if not segment.fresh:
        return ()
    live_names = {d.text for d in today.live}
    is_proven = all(d.text in live_names for d in state.live) and today.originals == state.originals
    return (segment,) if is_proven else None


def _of_kept(
    listing: Listing,
    now: ValidWriteIdList,
    part: ChangeRange,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
) -> Iterator[ChangeSegment]:
    """Yield the segments of a range; its files must all exist, including obsolete files."""
    names = {text: parse_directory_name(text) for text in listing.tops}
    bases = {text: name for text, name in names.items() if isinstance(name, BaseName)}
    overwrites = sorted({w for text, w in _overwrites(listing, bases) if part.holds(w)})
    _require_order(listing, part, overwrites)
    usable = {t for t, n in bases.items() if not part.count_within(_FIRST, n.write_id)}
    begin: WriteId | None = None
    for end in (*overwrites, None):
        within = part
        if end is not None:
            within = replace(part, until=up_to(part.until, WriteId(end - 1)))
        # The first segment begins with a base below the range, a later one with an overwrite's.
        if begin is not None:
            usable = {t for t, w in _overwrites(listing, bases) if w == begin}
        usable_listing = listing.without(set(bases) - usable)
        if kind is TransactionalKind.INSERT_ONLY:
            usable_listing = _apart(usable_listing, now, within, txns)
        segment = _segment(resolve(usable_listing, within.until, txns, kind), within, end)
        if end is not None or segment.fresh:  # the overwrite at the end deletes rows without events
            yield segment
        begin = end


def _segment(state: AcidState, part: ChangeRange, end: WriteId | None = None) -> ChangeSegment:
    fresh = frozenset(d.text for d in state.live if part.overlaps(d))
    return ChangeSegment(state=state, part=part, fresh=fresh, ends_with=end)


def _overwrites(listing: Listing, bases: dict[str, BaseName]) -> Iterator[tuple[str, WriteId]]:
    for text, name in bases.items():
        if not is_compacted(text, name, listing):
            yield text, name.write_id


def _require_order(listing: Listing, part: ChangeRange, overwrites: list[WriteId]) -> None:
    """Raise an error if an overwrite in a range was committed after a write with a higher ID.

    An overwrite excludes other writers, so this should never happen; the files would not show
    whether the overwrite or a delete event deleted a row first.
    """
    for write_id in overwrites:
        if part.since.visible_within(WriteId(write_id + 1), part.since.high_watermark):
            raise ChangesGoneError(
                table=listing.location,
                since=part.since.high_watermark,
                oldest=write_id,
                why=f"write ID {write_id} overwrote the data after a later write was committed",
            )


def _apart(
    listing: Listing, now: ValidWriteIdList, part: ChangeRange, txns: ValidTxnList | None
) -> Listing:
    """Replace each merged delta in an insert-only root's listing with the deltas that were merged.

    A merged delta does not show which of its writes inserted a row. Raises ChangesGoneError for a
    delta with several writes that a streaming writer wrote, which has no inputs.
    """
    state = resolve(listing, part.until, txns, TransactionalKind.INSERT_ONLY)
    mixed = [d for d in state.deltas if _is_mixed(d, now) and part.overlaps(d)]
    if not mixed:
        return listing
    for delta in mixed:
        if all(d.superseded_by != delta.text for d in state.obsolete_directories):
            raise ChangesGoneError(
                table=listing.location,
                since=part.since.high_watermark,
                oldest=delta.high,
                why=f"{delta.text} does not show which write a row comes from",
            )
    return _apart(listing.without({d.text for d in mixed}), now, part, txns)


def _is_mixed(directory: AcidDirectory, write_ids: ValidWriteIdList) -> bool:
    name = directory.name
    return isinstance(name, DeltaName) and write_ids.visible_within(name.low, name.high) > 1

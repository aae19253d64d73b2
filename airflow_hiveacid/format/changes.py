"""What was changed between two versions of a table, as far as names of directories tell.

Takes what lies below one root (a table's or a partition's), the write IDs of now and of both ends
of the range, and since when nothing that is needed was removed; gives the stretches of the root's
life that the range consists of, each with the directories to read. Must not know rows.

An overwrite, or a truncation, ends a stretch: all rows that live then die by it. Within a stretch a
row is born by the write ID of its insert event, and dies by the one of its delete event.

What is read must be proven to be all there is. Cleaners remove what is obsolete, directory by
directory, in any order. So a range is read from directories that are live now and hold all of it,
or from those that nobody was allowed to remove (`Kept`), or it is refused.

Example:
    >>> now = ValidWriteIdList.parse("db.t:9:9223372036854775807::4")
    >>> part = ChangeRange(since=up_to(now, WriteId(3)), until=up_to(now, WriteId(6)))
    >>> part.holds(WriteId(4)), part.holds(WriteId(5)), part.count_within(WriteId(1), WriteId(9))
    (False, True, 2)
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hiveacid.format.acid_state import AcidState, is_compacted, resolve
from airflow_hiveacid.format.errors import ChangesGoneError, NotEnoughHistoryError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import lost_witness

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from airflow_hiveacid.format.directories import AcidDirectory, Listing
    from airflow_hiveacid.format.snapshot import ValidTxnList
    from airflow_hiveacid.format.versions import Kept

_FIRST: WriteId = WriteId(1)


class ChangeType(enum.Enum):
    """What became of a row, in the order in which changes of one version are given.

    First all that go, then all that come: whoever applies them in this order has each key once.
    """

    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRange:
    """The write IDs that `until` shows and `since` does not.

    `until` shows all that `since` does.
    """

    since: ValidWriteIdList
    until: ValidWriteIdList

    def holds(self, write_id: WriteId) -> bool:
        """Whether a write ID is one of the range."""
        return self.until.is_visible(write_id) and not self.since.is_visible(write_id)

    def count_within(self, low: WriteId, high: WriteId) -> int:
        """How many of low..high (inclusive) are in the range; write ID 0 never is."""
        return self.until.visible_within(low, high) - self.since.visible_within(low, high)

    def meets(self, directory: AcidDirectory) -> bool:
        """Whether a delta may hold events of the range, or a base is an overwrite in it."""
        name = directory.name
        if isinstance(name, DeltaName):
            return self.count_within(name.low, name.high) > 0
        return not directory.is_compacted and self.holds(name.write_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSegment:
    """A stretch of a root's life in which nothing was overwritten.

    `state` has its directories, as a reader with the lists of `part` reads them; those in `fresh`
    (names on disk) hold inserts of the range, and the delete deltas among them its delete events.
    All rows that live at its end die by write ID `ends_with`, if it has one.
    """

    state: AcidState
    part: ChangeRange
    fresh: frozenset[str]
    ends_with: WriteId | None = None

    def is_all_of_range(self, directory: str) -> bool:
        """Whether every row that is visible in a fresh directory was born in the range."""
        name = next(d.name for d in self.state.live if d.text == directory)
        if not isinstance(name, DeltaName):
            return True
        seen = self.part.until.visible_within(name.low, name.high)
        return self.part.count_within(name.low, name.high) == seen


def up_to(write_ids: ValidWriteIdList, write_id: WriteId) -> ValidWriteIdList:
    """The part of a list up to a write ID, inclusive."""
    high = min(write_ids.high_watermark, write_id)
    opened = tuple(w for w in write_ids.open if w <= high)
    return ValidWriteIdList(
        table=write_ids.table,
        high_watermark=high,
        open=opened,
        aborted=tuple(w for w in write_ids.aborted if w <= high),
    )


def settled(write_ids: ValidWriteIdList) -> WriteId:
    """The highest version whose rows cannot become others: nothing up to it is open."""
    lowest_open = write_ids.min_open_write_id
    high = write_ids.high_watermark
    return high if lowest_open is None else min(high, WriteId(lowest_open - 1))


def is_news(state: AcidState, part: ChangeRange) -> bool:
    """Whether what is live of a root has data of a range, by the names of its directories.

    A compactor names its base after the highest write whose rows it holds; or, where a stream was
    broken off, after one that was aborted: then any write of the range may be in it.
    """

    def may_hold(base: AcidDirectory) -> bool:
        is_named_so = not part.until.is_aborted(base.high)
        return part.holds(base.high) if is_named_so else part.count_within(_FIRST, base.high) > 0

    return any(part.meets(d) or (d.is_base and d.is_compacted and may_hold(d)) for d in state.live)


def holds_older(state: AcidState, version: WriteId) -> bool:
    """Whether what is live of a root began with a write up to a version, or before any."""
    names = [d.name for d in state.live]
    begins = [n.write_id if isinstance(n, BaseName) else n.low for n in names]
    return bool(state.originals) or any(begin <= version for begin in begins)


def oldest_since(
    listing: Listing,
    now: ValidWriteIdList,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
    kept: Kept | None = None,
) -> WriteId:
    """The lowest version of one root since which its changes can be read, whatever they are.

    A base that is live holds no trace of what it replaced, and a merged delta of an insert-only
    table none of who wrote which row.

    Raises:
        HiveAcidError: see `resolve`.
    """
    state = resolve(listing, now, txns, kind)
    lowest = WriteId(0) if state.base is None else max(state.base.high, WriteId(0))
    if kind is TransactionalKind.INSERT_ONLY:
        lowest = max([lowest, *(d.high for d in state.deltas if _is_mixed(d, now))])
    floor = _promised(state, kept, kind)
    return lowest if floor is None else min(lowest, floor)


def _promised(state: AcidState, kept: Kept | None, kind: TransactionalKind) -> WriteId | None:
    """From which version on all is there; None if nobody says so, or what is missing belies it."""
    is_kept = kept is not None and lost_witness(state, kept, kind) is None
    return kept.floor if kept is not None and is_kept else None


def segments_of(  # noqa: PLR0913 - who looks, at what, since when, and what is proven
    listing: Listing,
    now: ValidWriteIdList,
    part: ChangeRange,
    *,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
    kept: Kept | None = None,
) -> tuple[ChangeSegment, ...]:
    """The stretches of one root's life within a range, ascending; none if nothing was changed.

    Args:
        listing: everything below the root.
        now: the reader's list; it shows all that `part` does.
        part: the range.
        txns: the transactions that the reader sees.
        kind: of the table.
        kept: what is promised of the root; None if nothing is.

    Raises:
        ChangesGoneError: files that are needed may be gone; says since when it could be told.
        HiveAcidError: see `resolve`.
    """
    if not part.count_within(_FIRST, part.until.high_watermark):
        return ()
    if not part.count_within(_FIRST, oldest_since(listing, now, txns, kind)):
        found = _of_live(listing, now, part, txns, kind)
        if found is not None:
            return found
    floor = _promised(resolve(listing, now, txns, kind), kept, kind)
    if floor is not None and not part.count_within(_FIRST, floor):
        return tuple(_of_kept(listing, now, part, txns, kind))
    raise ChangesGoneError(
        table=listing.location,
        since=part.since.high_watermark,
        oldest=oldest_since(listing, now, txns, kind, kept),
        why="a compaction or an overwrite has put what came before into one directory",
    )


def _of_live(
    listing: Listing,
    now: ValidWriteIdList,
    part: ChangeRange,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
) -> tuple[ChangeSegment, ...] | None:
    """A range that is later than the live base, so that deltas above hold it; None if others do."""
    try:
        state = resolve(listing, part.until, txns, kind)
    except NotEnoughHistoryError:
        return None
    segment = _segment(state, part)
    if not segment.fresh:
        return ()
    today = resolve(listing, now, txns, kind)
    known = {d.text for d in today.live}
    is_proven = all(d.text in known for d in state.live) and today.originals == state.originals
    return (segment,) if is_proven else None


def _of_kept(
    listing: Listing,
    now: ValidWriteIdList,
    part: ChangeRange,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
) -> Iterator[ChangeSegment]:
    """A range of which all files are there that ever were, obsolete ones too."""
    names = {text: parse_directory_name(text) for text in _tops(listing)}
    bases = {text: name for text, name in names.items() if isinstance(name, BaseName)}
    overwrites = sorted({w for text, w in _overwrites(listing, bases) if part.holds(w)})
    _require_order(listing, part, overwrites)
    usable = {t for t, n in bases.items() if not part.count_within(_FIRST, n.write_id)}
    begin: WriteId | None = None
    for end in (*overwrites, None):
        within = part
        if end is not None:
            within = replace(part, until=up_to(part.until, WriteId(end - 1)))
        if begin is not None:
            usable = {t for t, w in _overwrites(listing, bases) if w == begin}
        seen = _without(listing, set(bases) - usable)
        if kind is TransactionalKind.INSERT_ONLY:
            seen = _apart(seen, now, within, txns)
        segment = _segment(resolve(seen, within.until, txns, kind), within, end)
        if end is not None or segment.fresh:
            yield segment
        begin = end


def _segment(state: AcidState, part: ChangeRange, end: WriteId | None = None) -> ChangeSegment:
    fresh = frozenset(d.text for d in state.live if part.meets(d))
    return ChangeSegment(state=state, part=part, fresh=fresh, ends_with=end)


def _overwrites(listing: Listing, bases: dict[str, BaseName]) -> Iterator[tuple[str, WriteId]]:
    """The bases that no compactor made."""
    for text, name in bases.items():
        if not is_compacted(text, name, listing):
            yield text, name.write_id


def _require_order(listing: Listing, part: ChangeRange, overwrites: list[WriteId]) -> None:
    """See that nothing above an overwrite of the range was there before it.

    Whoever overwrites shuts others out, so there is none; of rows that were, nobody could say
    whether the overwrite or their own delete event came first.
    """
    for write_id in overwrites:
        if part.since.visible_within(WriteId(write_id + 1), part.since.high_watermark):
            raise ChangesGoneError(
                table=listing.location,
                since=part.since.high_watermark,
                oldest=write_id,
                why=f"write ID {write_id} overwrote it after a later one was committed",
            )


def _apart(
    listing: Listing, now: ValidWriteIdList, part: ChangeRange, txns: ValidTxnList | None
) -> Listing:
    """An insert-only root without the merged deltas whose parts are there, too.

    One in which the range sees a single write has the rows of later ones as well.

    Raises:
        ChangesGoneError: one has no parts: it was written so.
    """
    state = resolve(listing, part.until, txns, TransactionalKind.INSERT_ONLY)
    mixed = [d for d in state.deltas if _is_mixed(d, now) and part.meets(d)]
    if not mixed:
        return listing
    for one in mixed:
        if all(d.superseded_by != one.text for d in state.obsolete_directories):
            raise ChangesGoneError(
                table=listing.location,
                since=part.since.high_watermark,
                oldest=one.high,
                why=f"{one.text} does not say which write a row is of",
            )
    return _apart(_without(listing, {d.text for d in mixed}), now, part, txns)


def _is_mixed(directory: AcidDirectory, write_ids: ValidWriteIdList) -> bool:
    """Whether rows of several visible writes lie in one delta."""
    name = directory.name
    return isinstance(name, DeltaName) and write_ids.visible_within(name.low, name.high) > 1


def _tops(listing: Listing) -> set[str]:
    paths = itertools.chain(listing.directories, (f.path for f in listing.files if "/" in f.path))
    return {path.partition("/")[0] for path in paths}


def _without(listing: Listing, directories: Collection[str]) -> Listing:
    return replace(
        listing,
        files=tuple(f for f in listing.files if f.path.partition("/")[0] not in directories),
        directories=tuple(d for d in listing.directories if d.partition("/")[0] not in directories),
    )

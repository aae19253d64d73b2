"""Past versions of a table: which writes one has, and whether what is left still holds its rows.

A version's number N is a write ID: the state with every committed write ID up to N. The state at a
moment is the set of writes that were committed by then, which need not be the lowest ones. Either
is a `ValidWriteIdList`, so that a past state is read by the rules by which the present is.

What a cleaner may remove, it may have removed in part, so files that nobody needs *now* prove
nothing by being there. Two things do, root by root (a root is a partition, or a table without any):

* what is live now. It holds every version from the base's write ID on: rows and delete events of a
  full ACID table carry their write IDs, through minor compactions too;
* a promise that nothing is removed: from a `floor` on, every directory that was ever live is there
  (`Kept`; see docs/adr/0052).

Rows of insert-only tables carry no write IDs, so a directory that a version sees in part is none of
its own; what was merged into it has to be there. Must not know files, or who keeps promises.

Example:
    >>> now = ValidWriteIdList.parse("db.t:7:9223372036854775807::4")
    >>> as_of_number(now, WriteId(5)).text()
    'db.t:5:9223372036854775807::4'
    >>> omits(now, as_of_number(now, WriteId(5)), WriteId(4), WriteId(6))
    True
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import is_compacted, resolve
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    VersionGoneError,
    VersionNotSettledError,
    VersionUnknownError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory, Listing
    from airflow_hiveacid.format.snapshot import ValidTxnList

_KINDS: Final = ("version ", "timestamp ", "tag ")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSpec:
    """Which state of a table is asked for: by number, by time or by name; none of these is now.

    `timestamp` is aware.

    Raises:
        ConfigurationError: more than one is given, or a time without its zone.
    """

    number: WriteId | None = None
    timestamp: datetime | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        given = [one for one in (self.number, self.timestamp, self.tag) if one is not None]
        if len(given) > 1:
            found = " and ".join(map(str, given))
            raise ConfigurationError(
                f"version, timestamp and tag exclude each other; found {found}"
            )
        if self.timestamp is not None and self.timestamp.utcoffset() is None:
            raise ConfigurationError(
                f"timestamp {self.timestamp} has no zone; write 2026-11-19T02:00:00Z or +01:00"
            )

    @classmethod
    def of(
        cls,
        version: int | str | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> VersionSpec:
        """What a user's arguments say; numbers and times may be texts, as templates give them.

        Raises:
            ConfigurationError: one has another form.
        """
        return cls(
            number=None if version is None else _number(version),
            timestamp=None if timestamp is None else _moment(timestamp),
            tag=None if tag is None else _tag(tag),
        )

    @classmethod
    def parse(cls, text: str) -> VersionSpec:
        """Read what `text` printed.

        Raises:
            ConfigurationError: it is another text.

        Example:
            >>> VersionSpec.parse("version 5").number
            5
        """
        kind, _, value = text.partition(" ")
        match kind:
            case "version" | "timestamp" | "tag":
                return cls.of(**{kind: value})
            case "now":
                return cls()
            case _:
                raise ConfigurationError(f"{text!r} is none of version N, timestamp T and tag NAME")

    @classmethod
    def meant_by(cls, value: int | str | datetime | VersionSpec) -> VersionSpec:
        """Which version a user means by one value: a number, a moment, or `tag NAME`.

        Numbers and moments may be texts, as templates give them; 0 is the table before its first
        write. What `text` gives is understood, too.

        Raises:
            ConfigurationError: nobody can tell.

        Example:
            >>> VersionSpec.meant_by("12").number, VersionSpec.meant_by("tag closing").tag
            (12, 'closing')
            >>> VersionSpec.meant_by("2026-11-19T02:00:00Z").text()
            'timestamp 2026-11-19T02:00:00+00:00'
        """
        match value:
            case VersionSpec() if not value.is_now:
                return value
            case str() if value.startswith(_KINDS):
                return cls.parse(value)
            case str() if value.strip().isdecimal():
                return cls.of(version=value)
            case str() | datetime():
                return cls.of(timestamp=value)
            case int():
                return cls.of(version=value)
            case _:
                raise ConfigurationError(
                    f"{value!r} is no version: write a number such as 1234, a time such as"
                    " 2026-11-19T02:00:00Z, or 'tag NAME'"
                )

    def text(self) -> str:
        """The same as one text, for a job description."""
        if self.number is not None:
            return f"version {self.number}"
        if self.timestamp is not None:
            return f"timestamp {self.timestamp.isoformat()}"
        return "now" if self.tag is None else f"tag {self.tag}"

    @property
    def is_now(self) -> bool:
        """Whether nothing but the present is asked for."""
        return self == VersionSpec()

    def __str__(self) -> str:
        if self.number is not None:
            return f"version {self.number}"
        if self.timestamp is not None:
            return f"the state at {self.timestamp.isoformat()}"
        return "the present" if self.tag is None else f"tag {self.tag!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A promise about one root: from version `floor` on, all that was ever live is still there.

    `witnesses` are names of directories, and paths of original files, that were live when the
    promise began. One that is missing proves it broken: somebody removed files past every rule.
    """

    floor: WriteId
    witnesses: frozenset[str] = frozenset()


def _number(value: int | str) -> WriteId:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"version {value!r} is no number of a version, such as 1234")
    return WriteId(int(text))


def _moment(value: datetime | str) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"timestamp {value!r} is no time, such as 2026-11-19T02:00:00Z"
        ) from error


def _tag(value: str) -> str:
    if not value or value != value.strip() or not value.isprintable():
        raise ConfigurationError(f"tag {value!r} is no name; write letters, digits, - and _")
    return value


# ---- lists ---------------------------------------------------------------------------------------


def as_of_number(write_ids: ValidWriteIdList, number: WriteId) -> ValidWriteIdList:
    """What a reader of a version sees: all that is committed up to its write ID.

    Raises:
        VersionUnknownError: it is below 1, or above what the list knows.
        VersionNotSettledError: a write ID up to it is open.
    """
    table = write_ids.table
    if number < 1:
        raise VersionUnknownError(table=table, detail=f"has no version {number}; the first is 1")
    if number > write_ids.high_watermark:
        # A metastore may end its list early for a while (docs/adr/0014), so this is no proof that
        # the version will never be there; but nobody could say now what belongs to it.
        raise VersionUnknownError(
            table=table,
            detail=f"has no version {number} yet; the newest that the metastore lists is"
            f" {write_ids.high_watermark}",
        )
    lowest = write_ids.min_open_write_id
    if lowest is not None and lowest <= number:
        raise VersionNotSettledError(table=table, version=number, write_id=lowest)
    return ValidWriteIdList(
        table=table,
        high_watermark=number,
        aborted=tuple(w for w in write_ids.aborted if w <= number),
    )


def as_of_set(write_ids: ValidWriteIdList, left_out: Collection[WriteId]) -> ValidWriteIdList:
    """What is seen of a list without some of its committed write IDs.

    These become open ones, so that no base that covers them is taken.

    Example:
        >>> now = ValidWriteIdList.parse("db.t:5:9223372036854775807::3")
        >>> as_of_set(now, {WriteId(2), WriteId(5)}).text()
        'db.t:4:2:2:3'
    """
    hidden = {*left_out, *write_ids.open, *write_ids.aborted}
    high = write_ids.high_watermark
    while high > 0 and high in hidden:
        high = WriteId(high - 1)
    without = [w for w in left_out if not write_ids.is_aborted(w)]
    return ValidWriteIdList(
        table=write_ids.table,
        high_watermark=high,
        open=tuple(w for w in (*write_ids.open, *without) if w <= high),
        aborted=tuple(w for w in write_ids.aborted if w <= high),
    )


def without_aborted(write_ids: ValidWriteIdList, aborted: Iterable[WriteId]) -> ValidWriteIdList:
    """A list in which write IDs are aborted that the metastore may have forgotten to be so."""
    more = [w for w in aborted if write_ids.is_visible(w)]
    return dataclasses.replace(write_ids, aborted=(*write_ids.aborted, *more))


def omits(now: ValidWriteIdList, then: ValidWriteIdList, low: WriteId, high: WriteId) -> bool:
    """Whether a past list leaves out a write ID of low..high (inclusive) that is committed now."""
    return then.visible_within(low, high) < now.visible_within(low, high)


# ---- files ---------------------------------------------------------------------------------------


def state_as_of(  # noqa: PLR0913 - two lists, and all of a root
    listing: Listing,
    *,
    now: ValidWriteIdList,
    then: ValidWriteIdList,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
    kept: Kept | None,
) -> AcidState:
    """What a version reads of one root, if that is provably all of it.

    Args:
        listing: everything below the root.
        now: what is committed by now.
        then: what the version sees of that.
        txns: which compactions count; those of the present.
        kind: of the table.
        kept: what is promised of the root; None if nothing is.

    Raises:
        VersionGoneError: it is not, or nobody can tell.
        HiveAcidError: as `resolve`.
    """
    state_now = resolve(listing, now, txns, kind)
    state_then = resolve(_readable(listing, now, then, kind), then, txns, kind)
    check_provable(state_now, state_then, kept, kind, now=now, then=then)
    return state_then


def check_provable(  # noqa: PLR0913 - two lists, and what each sees
    state_now: AcidState,
    state_then: AcidState,
    kept: Kept | None,
    kind: TransactionalKind,
    *,
    now: ValidWriteIdList,
    then: ValidWriteIdList,
) -> None:
    """See that what a version would read of a root is all that it ever had there.

    Raises:
        VersionGoneError: nobody can prove it; with the root's oldest readable version.
    """
    why = _not_live(state_now, state_then, kind, now, then)
    if why is None:
        return
    if kept is not None and not omits(now, then, WriteId(1), kept.floor):
        lost = lost_witness(state_now, kept, kind)
        mixed = _batch_in_part(state_now, kind, now, then)
        if lost is None and mixed is None:
            return
        why = f"{lost} was removed by somebody who asked nobody"
        if lost is None:
            why = f"{mixed} has later rows among the version's, and nothing tells which"
    raise VersionGoneError(
        table=now.table,
        what=f"the state up to write ID {then.high_watermark}",
        oldest=oldest_readable(state_now, kept, kind),
        why=f"{state_now.location}: {why}",
    )


def oldest_readable(state_now: AcidState, kept: Kept | None, kind: TransactionalKind) -> WriteId:
    """The lowest version number that can be read of one root: 1 if all can be."""
    lowest = _oldest_live(state_now, kind)
    if kept is not None and lost_witness(state_now, kept, kind) is None:
        lowest = min(lowest, kept.floor)
    return max(WriteId(1), lowest)


def floor_of(state: AcidState, kind: TransactionalKind) -> Kept:
    """What can be promised of a root from now on if nothing is removed any more.

    Of an insert-only table nothing below what was merged already.
    """
    floor = WriteId(0) if state.base is None else max(WriteId(0), state.base.high)
    if kind is TransactionalKind.INSERT_ONLY:
        floor = max([floor, *(d.high for d in state.deltas if _is_merged(d.name))])
    live = frozenset(d.text for d in state.live)
    return Kept(floor=floor, witnesses=live | {f.path for f in state.originals})


def lost_witness(state: AcidState, kept: Kept, kind: TransactionalKind) -> str | None:
    """A directory that should be there by a promise and is not; None if there is none.

    What lies below the floor may have been cleaned since, and of a full ACID table what a wider
    delta holds.
    """
    names = {d.text: d.name for d in state.directories}
    originals = {f.path for f in (*state.originals, *state.obsolete_originals)}
    has_base = any(isinstance(n, BaseName) and n.write_id == kept.floor for n in names.values())
    for text in sorted(kept.witnesses - set(names) - originals):
        name = parse_directory_name(text)
        if name is None:  # an original file, which lies below every base
            if kept.floor == 0:
                return text
            continue
        ends = isinstance(name, DeltaName) and name.high == kept.floor and has_base
        if name.high < kept.floor or ends:
            continue
        holding = [n for n in names.values() if isinstance(n, DeltaName) and n.holds(name)]
        if any(kind is TransactionalKind.FULL_ACID or n.high <= kept.floor for n in holding):
            continue
        return text
    return None


def not_held(state: AcidState, names: Iterable[str]) -> str | None:
    """One of these that is neither there nor in what is read; None if there is none.

    What is live now proves a version only if nobody has removed any of that: without a base, a root
    from which all was removed looks like one that never had anything.

    Args:
        state: what is read.
        names: directories, and paths of original files, that were live once.
    """
    there = {d.text for d in state.directories}
    there |= {f.path for f in (*state.originals, *state.obsolete_originals)}
    for text in sorted({*names} - there):
        name = parse_directory_name(text)
        if state.base is not None and state.base.high >= write_id_of(text):
            continue
        if name is None or not _is_held(name, state.live):
            return text
    return None


def newest_of(state: AcidState) -> str | None:
    """What of a root was written last and has rows, or events: a name for `not_held`; None if none.

    It bears witness: as long as nothing has taken its place, a root without it has lost files.
    """
    full = [d for d in state.live if any(file.size_bytes for file in d.files)]
    if full:
        return max(full, key=lambda d: (d.high, not d.is_delete, d.text)).text
    return max((file.path for file in state.originals), default=None)


def write_id_of(text: str) -> WriteId:
    """Up to which write ID a directory goes; an original file lies below every one."""
    name = parse_directory_name(text)
    return WriteId(0) if name is None else name.high


def is_seen(write_ids: ValidWriteIdList, text: str) -> bool:
    """Whether a list sees anything of a directory; nobody knows since when a base's rows are."""
    name = parse_directory_name(text)
    if not isinstance(name, DeltaName):
        return True
    return write_ids.range_visibility(name.low, name.high) is not RangeVisibility.NONE


def only_of(listing: Listing, names: Collection[str]) -> Listing:
    """A listing of nothing but these directories and original files."""
    wanted = frozenset(names)
    return dataclasses.replace(
        listing,
        files=tuple(f for f in listing.files if _top(f.path) in wanted or f.path in wanted),
        directories=tuple(d for d in listing.directories if _top(d) in wanted),
    )


def _top(path: str) -> str:
    return path.partition("/")[0]


def _readable(
    listing: Listing, now: ValidWriteIdList, then: ValidWriteIdList, kind: TransactionalKind
) -> Listing:
    """A listing without the directories in which a version's rows are not told from later ones.

    They are bases that hold more than the version, and, of insert-only tables, such deltas. With
    them gone, what they were made of is found where it is left.
    """
    tops = {_top(path) for path in listing.directories}
    tops |= {_top(f.path) for f in listing.files if "/" in f.path}
    dropped = {top for top in tops if _is_mixed(top, listing, now, then, kind)}
    if not dropped:
        return listing
    return dataclasses.replace(
        listing,
        files=tuple(f for f in listing.files if _top(f.path) not in dropped),
        directories=tuple(d for d in listing.directories if _top(d) not in dropped),
    )


def _is_mixed(
    text: str,
    listing: Listing,
    now: ValidWriteIdList,
    then: ValidWriteIdList,
    kind: TransactionalKind,
) -> bool:
    name = parse_directory_name(text)
    if isinstance(name, BaseName):
        return is_compacted(text, name, listing) and not then.is_valid_base(name.write_id)
    if name is None or kind is not TransactionalKind.INSERT_ONLY or not _is_merged(name):
        return False
    return _sees_part(name, now, then)


def _sees_part(name: DeltaName, now: ValidWriteIdList, then: ValidWriteIdList) -> bool:
    seen = then.range_visibility(name.low, name.high)
    return seen is not RangeVisibility.NONE and omits(now, then, name.low, name.high)


def _not_live(
    state_now: AcidState,
    state_then: AcidState,
    kind: TransactionalKind,
    now: ValidWriteIdList,
    then: ValidWriteIdList,
) -> str | None:
    """Why a version is not made of what is live now; None if it is."""
    base_now = None if state_now.base is None else state_now.base.text
    base_then = None if state_then.base is None else state_then.base.text
    if base_now != base_then:
        return f"{base_now} holds later writes too, and what it replaced may be cleaned"
    live = {d.text for d in state_now.live}
    for directory in (*state_then.deltas, *state_then.delete_deltas):
        if directory.text not in live:
            return f"{directory.text} is replaced, and what stood beside it may be cleaned"
    if kind is TransactionalKind.INSERT_ONLY:
        for delta in state_now.deltas:
            if isinstance(delta.name, DeltaName) and _sees_part(delta.name, now, then):
                return f"{delta.text} has later rows among the version's, and nothing tells which"
    return None


def _batch_in_part(
    state: AcidState, kind: TransactionalKind, now: ValidWriteIdList, then: ValidWriteIdList
) -> str | None:
    """A delta of an insert-only table that a version sees in part and that was made of no others.

    Streams write several write IDs into one. What a compaction made begins where its first input
    begins, which ends before it.
    """
    if kind is not TransactionalKind.INSERT_ONLY:
        return None
    deltas = [(d.text, d.name) for d in state.directories if isinstance(d.name, DeltaName)]
    for text, name in deltas:
        has_input = any(n.low == name.low and n.high < name.high for _, n in deltas)
        if _is_merged(name) and _sees_part(name, now, then) and not has_input:
            return text
    return None


def _oldest_live(state: AcidState, kind: TransactionalKind) -> WriteId:
    base = WriteId(0) if state.base is None else max(WriteId(0), state.base.high)
    if kind is not TransactionalKind.INSERT_ONLY:
        return base
    merged = [d.name for d in state.deltas if isinstance(d.name, DeltaName)]
    ends = sorted({max(WriteId(1), base), *(n.high for n in merged if n.high > base)})
    return next((end for end in ends if not any(n.low <= end < n.high for n in merged)), ends[-1])


def _is_merged(name: BaseName | DeltaName) -> bool:
    return isinstance(name, DeltaName) and name.low != name.high


def _is_held(name: BaseName | DeltaName, live: Iterable[AcidDirectory]) -> bool:
    return any(isinstance(d.name, DeltaName) and d.name.holds(name) for d in live)

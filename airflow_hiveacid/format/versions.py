"""Past versions of a table: their write IDs, and whether their files are complete.

Version N is the state of the table after all committed writes with write IDs up to N. The state at
a time contains the writes that were committed by that time, perhaps with higher write IDs than
later ones. A `ValidWriteIdList` can represent either, so the rules of present states apply.

A cleaner may have removed some obsolete files. For each root, one of two facts proves that a
version is complete:

* the live directories: they contain version N, where N is the base's write ID, and all later ones.
  A minor compaction of a full-ACID table preserves the write IDs of rows and delete events;
* a guarantee that no files are removed (`Guarantee`): every directory that was live in version
  `floor` or later still exists (see docs/decisions/versions.md).

Rows of insert-only tables have no write IDs, so a version that includes only some writes of a
merged directory needs the inputs of the merge.

Example:
    >>> now = ValidWriteIdList.parse("db.t:7:9223372036854775807::4")
    >>> as_of_number(now, WriteId(5)).text()
    'db.t:5:9223372036854775807::4'
    >>> omits(now, as_of_number(now, WriteId(5)), WriteId(4), WriteId(6))
    True
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState, is_compacted, resolve
from airflow_hiveacid.format.codec import stored_as
from airflow_hiveacid.format.directories import AcidDirectory, Listing
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidTxnList, ValidWriteIdList, up_to
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.words import digits, shown

_KINDS: Final = ("version ", "timestamp ", "tag ")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSpec:
    """The requested state of a table: a version number, a time, a tag, or by default the present.

    Raises ConfigurationError for more than one, or a `timestamp` without a time zone.
    """

    number: WriteId | None = None
    timestamp: datetime | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        fields = [field for field in (self.number, self.timestamp, self.tag) if field is not None]
        if len(fields) > 1:
            texts = " and ".join(map(str, fields))
            raise errors.ConfigurationError(
                f"version, timestamp and tag are mutually exclusive; found {texts}"
            )
        if self.timestamp is not None and self.timestamp.utcoffset() is None:
            raise errors.ConfigurationError(
                f"timestamp {self.timestamp} has no zone; write 2026-11-19T02:00:00Z or +01:00"
            )

    @classmethod
    def of(
        cls,
        version: int | str | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> VersionSpec:
        """Parse user arguments, numbers and times also as strings, which templates return."""
        return cls(
            number=None if version is None else _number(version),
            timestamp=None if timestamp is None else _moment(timestamp),
            tag=None if tag is None else _tag(tag),
        )

    @classmethod
    def parse(cls, text: str) -> VersionSpec:
        """Parse a string that `VersionSpec.text` returned.

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
                raise errors.ConfigurationError(
                    f"expected 'version N', 'timestamp T' or 'tag NAME', got {text!r}"
                )

    @classmethod
    def meant_by(cls, value: int | str | datetime | VersionSpec) -> VersionSpec:
        """Parse a version that a user gives as one value: a number, a time, or `tag NAME`.

        Numbers and times may be strings; 0 means the table before its first write. A `VersionSpec`
        or its `text` is also accepted, except that of the present.

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
                raise errors.ConfigurationError(
                    f"{value!r} is not a version: write a number such as 1234, a time such as"
                    " 2026-11-19T02:00:00Z, or 'tag NAME'"
                )

    def text(self) -> str:
        """Return this request as a string for a job description."""
        if self.number is not None:
            return f"version {self.number}"
        if self.timestamp is not None:
            return f"timestamp {self.timestamp.isoformat()}"
        return "now" if self.tag is None else f"tag {self.tag}"

    @property
    def is_now(self) -> bool:
        """True if the present state is requested."""
        return self == VersionSpec()

    def __str__(self) -> str:
        if self.number is not None:
            return f"version {self.number}"
        if self.timestamp is not None:
            return f"the state at {self.timestamp.isoformat()}"
        return "the present" if self.tag is None else f"tag {self.tag!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A guarantee for one root: all files that were live in version `floor` or later still exist.

    `evidence` are the directories and the paths of original files that were live when it began. A
    cleaner may remove only some of them; if another is missing, it was broken (`missing_evidence`).
    """

    floor: WriteId
    evidence: frozenset[str] = field(default=frozenset(), metadata=stored_as("witnesses"))


def _number(value: int | str) -> WriteId:
    with suppress(ValueError):
        text = digits(value).strip()
        if text.isdigit():
            return WriteId(int(text))
    raise errors.ConfigurationError(f"version {shown(value)} is not a version number, such as 1234")


def _moment(value: datetime | str) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value.strip())
    except (AttributeError, ValueError) as error:  # a template may give a number
        raise errors.ConfigurationError(
            f"timestamp {value!r} is not a time, such as 2026-11-19T02:00:00Z"
        ) from error


def _tag(value: object) -> str:
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise errors.ConfigurationError(
            f"tag {value!r} is not a valid name; use letters, digits, - and _"
        )
    return value


# ---- lists ---------------------------------------------------------------------------------------


def as_of_number(write_ids: ValidWriteIdList, number: WriteId) -> ValidWriteIdList:
    """Return the write IDs that are visible in a version: all committed write IDs up to `number`.

    Raises VersionUnknownError if `number` is below 1 or above the high watermark, and
    VersionNotSettledError if a write ID up to it is open.
    """
    table = write_ids.table
    if number < 1:
        raise errors.VersionUnknownError(
            table=table, detail=f"has no version {number}; the first is 1"
        )
    if number > write_ids.high_watermark:
        # A list may temporarily end below a committed write ID (docs/decisions/reading.md), so it
        # is unknown which writes the version contains.
        raise errors.VersionUnknownError(
            table=table,
            detail=f"has no version {number} yet; the newest that the metastore lists is"
            f" {write_ids.high_watermark}",
        )
    lowest = write_ids.min_open_write_id
    if lowest is not None and lowest <= number:
        raise errors.VersionNotSettledError(table=table, version=number, write_id=lowest)
    return up_to(write_ids, number)


def as_of_set(write_ids: ValidWriteIdList, left_out: Collection[WriteId]) -> ValidWriteIdList:
    """Return a list in which some committed write IDs are open, so that no base covers them.

    Example:
        >>> now = ValidWriteIdList.parse("db.t:5:9223372036854775807::3")
        >>> as_of_set(now, {WriteId(2), WriteId(5)}).text()
        'db.t:4:2:2:3'
    """
    # The list ends at its newest visible write ID, which is also the version of a tag.
    hidden = {*left_out, *write_ids.open, *write_ids.aborted}
    high = write_ids.high_watermark
    while high > 0 and high in hidden:
        high = WriteId(high - 1)
    open_ids = (w for w in left_out if w <= high and not write_ids.is_aborted(w))
    list_then = up_to(write_ids, high)
    return dataclasses.replace(list_then, open=(*list_then.open, *open_ids))


def without_aborted(write_ids: ValidWriteIdList, aborted: Iterable[WriteId]) -> ValidWriteIdList:
    """Return a copy that lists `aborted` as aborted, even if the metastore forgot them."""
    forgotten_ids = [w for w in aborted if write_ids.is_visible(w)]
    return dataclasses.replace(write_ids, aborted=(*write_ids.aborted, *forgotten_ids))


def omits(now: ValidWriteIdList, then: ValidWriteIdList, low: WriteId, high: WriteId) -> bool:
    """Return whether `then`, a part of `now`, lacks a visible write ID of low..high (inclusive)."""
    return then.visible_within(low, high) < now.visible_within(low, high)


# ---- files ---------------------------------------------------------------------------------------


def state_as_of(  # noqa: PLR0913 - two lists, and the description of a root
    listing: Listing,
    *,
    now: ValidWriteIdList,
    then: ValidWriteIdList,
    txns: ValidTxnList | None,
    kind: TransactionalKind,
    kept: Guarantee | None,
) -> AcidState:
    """Return the files of one root in a past version.

    Raises VersionGoneError, with the oldest readable version, unless the files are provably whole.
    `then` are the write IDs of `now` that the version includes. The current `txns` show which
    compactions are visible. `kept` is the guarantee for the root's files, if any.
    """
    state_now = resolve(listing, now, txns, kind)
    state_then = resolve(_readable(listing, now, then, kind), then, txns, kind)
    why = _not_live(state_now, state_then, kind, now, then)
    if why is None:
        return state_then
    lost = None
    # A guarantee covers the versions that have every write up to its floor.
    if kept is not None and not omits(now, then, WriteId(1), kept.floor):
        lost = missing_evidence(state_now, kept, kind)
        mixed = _batch_in_part(state_now, kind, now, then)
        if lost is None and mixed is None:
            return state_then
        why = f"{lost} was deleted outside Hive and this provider"
        if lost is None:
            why = f"{mixed} mixes the version's rows with later rows that cannot be told apart"
    raise errors.VersionGoneError(
        table=now.table,
        what=f"the state up to write ID {then.high_watermark}",
        oldest=oldest_readable(state_now, kept, kind),
        why=f"{state_now.location}: {why}",
        keeping_helps=lost is None,
    )


def oldest_readable(
    state_now: AcidState, kept: Guarantee | None, kind: TransactionalKind
) -> WriteId:
    """Return the oldest readable version of one root; it is 1 if all versions can be read."""
    lowest = _oldest_live(state_now, kind)
    if kept is not None and missing_evidence(state_now, kept, kind) is None:
        lowest = min(lowest, kept.floor)
    return max(WriteId(1), lowest)


def floor_of(state: AcidState, kind: TransactionalKind) -> Guarantee:
    """Return a root's guarantee, without versions whose insert-only deltas were merged."""
    floor = WriteId(0) if state.base is None else max(WriteId(0), state.base.high)
    if kind is TransactionalKind.INSERT_ONLY:
        floor = max([floor, *(d.high for d in state.deltas if _is_merged(d.name))])
    live = frozenset(d.text for d in state.live)
    return Guarantee(floor=floor, evidence=live | {f.path for f in state.originals})


def missing_evidence(state: AcidState, kept: Guarantee, kind: TransactionalKind) -> str | None:
    """Return a missing directory or file that a guarantee requires, or None.

    Cleaners were allowed to remove some directories: those below the floor and, in a full-ACID
    table, those that a wider delta covers.
    """
    names = {d.text: d.name for d in state.directories}
    originals = {f.path for f in (*state.originals, *state.obsolete_originals)}
    has_base = any(isinstance(n, BaseName) and n.write_id == kept.floor for n in names.values())
    for text in sorted(kept.evidence - set(names) - originals):
        name = parse_directory_name(text)
        if name is None:  # an original file; it is older than every base
            if kept.floor == 0:
                return text
            continue
        # A base at the floor has replaced a delta that ends at the floor.
        ends = isinstance(name, DeltaName) and name.high == kept.floor and has_base
        if name.high < kept.floor or ends:
            continue
        # In an insert-only table, a wider delta may replace only one that also ends at the floor.
        holding = [n for n in names.values() if isinstance(n, DeltaName) and n.holds(name)]
        if any(kind is TransactionalKind.FULL_ACID or n.high <= kept.floor for n in holding):
            continue
        return text
    return None


def not_held(state: AcidState, names: Iterable[str]) -> str | None:
    """Return one of `names` that is missing and not covered by a live directory, if any.

    They were live at some time. Without a base, a root that has lost all its files looks like one
    that was always empty, so live directories alone do not prove that a version is complete.
    """
    present_names = {d.text for d in state.directories}
    present_names |= {f.path for f in (*state.originals, *state.obsolete_originals)}
    for text in sorted({*names} - present_names):
        name = parse_directory_name(text)
        if state.base is not None and state.base.high >= write_id_of(text):
            continue
        if name is None or not _is_held(name, state.live):
            return text
    return None


def newest_of(state: AcidState) -> str | None:
    """Return the newest nonempty entry of a root, or None; `not_held` uses it as evidence."""
    full = [d for d in state.live if any(file.size_bytes for file in d.files)]
    if full:
        return max(full, key=lambda d: (d.high, not d.is_delete, d.text)).text
    return max((file.path for file in state.originals), default=None)


def write_id_of(text: str) -> WriteId:
    """Return the highest write ID in a directory name, or 0 for an original file."""
    name = parse_directory_name(text)
    return WriteId(0) if name is None else name.high


def is_seen(write_ids: ValidWriteIdList, text: str) -> bool:
    """Return whether any write of a directory is visible; a base, which may hold older ones, is."""
    name = parse_directory_name(text)
    if not isinstance(name, DeltaName):
        return True
    return write_ids.range_visibility(name.low, name.high) is not RangeVisibility.NONE


def only_of(listing: Listing, names: Collection[str]) -> Listing:
    """Return a listing that contains only these directories and original files."""
    name_set = frozenset(names)
    return dataclasses.replace(
        listing,
        files=tuple(f for f in listing.files if _top(f.path) in name_set or f.path in name_set),
        directories=tuple(d for d in listing.directories if _top(d) in name_set),
    )


def _top(path: str) -> str:
    return path.partition("/")[0]


def _readable(
    listing: Listing, now: ValidWriteIdList, then: ValidWriteIdList, kind: TransactionalKind
) -> Listing:
    """Return the listing without directories that mix rows of a version with later rows.

    A mixed directory is a base with rows of later writes, or a delta of an insert-only table. If
    its inputs still exist, a reader of the shorter listing chooses them.
    """
    dropped = {top for top in listing.tops if _is_mixed(top, listing, now, then, kind)}
    return listing.without(dropped) if dropped else listing


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
    visibility = then.range_visibility(name.low, name.high)
    return visibility is not RangeVisibility.NONE and omits(now, then, name.low, name.high)


def _not_live(
    state_now: AcidState,
    state_then: AcidState,
    kind: TransactionalKind,
    now: ValidWriteIdList,
    then: ValidWriteIdList,
) -> str | None:
    """Return why a version needs directories that are not live; None if all are live."""
    base_now = None if state_now.base is None else state_now.base.text
    base_then = None if state_then.base is None else state_then.base.text
    if base_now != base_then:
        return f"{base_now} contains later writes, too; the files that it replaced may be cleaned"
    live = {d.text for d in state_now.live}
    for directory in (*state_then.deltas, *state_then.delete_deltas):
        if directory.text not in live:
            return f"{directory.text} was replaced, and files that it needs may have been cleaned"
    if kind is TransactionalKind.INSERT_ONLY:
        for delta in state_now.deltas:
            if isinstance(delta.name, DeltaName) and _sees_part(delta.name, now, then):
                return (
                    f"{delta.text} mixes the version's rows with later rows that cannot be told"
                    " apart"
                )
    return None


def _batch_in_part(
    state: AcidState, kind: TransactionalKind, now: ValidWriteIdList, then: ValidWriteIdList
) -> str | None:
    """Return an insert-only delta that has no inputs and is only partly visible in a version.

    A streaming writer stores several write IDs in one delta. The first input of a compacted delta
    has the same lowest write ID, but a lower highest one.
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
    """Return the oldest version that live files show whole: it ends inside no insert-only delta."""
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

"""A table as of a version: the version's writes, and a check that its files are complete.

Notes are read after the files are listed, while the reader's transaction is open: a cleaner that
writes a horizon waits for readers that may not have read it. Must not read rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NoReturn

from airflow_hiveacid.format import errors, versions
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.records import Promises, Tag, time_text
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TransactionalKind
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry, CompactionState
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.fencing import owner_text, writer_of
from airflow_hiveacid.plan.history import Knowledge, as_of_time
from airflow_hiveacid.plan.keeping import leaves_alone
from airflow_hiveacid.storage.stores.conversion_note import list_in_place
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.loss_detector import LossDetector

Root = tuple[PartitionInfo, Listing]

_MOST_DROPPED: Final = 5
# Compaction states in which the server's cleaner has not removed any file. FAILED is not included.
# The cleaner of Hive 3.1 sets this state after an error, when it may have removed files.
_NEVER_CLEANED: Final = frozenset(
    {
        CompactionState.INITIATED,
        CompactionState.WORKING,
        CompactionState.ATTEMPTED,
        CompactionState.DID_NOT_INITIATE,
        CompactionState.REFUSED,
        CompactionState.ABORTED,
    }
)


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class Past:
    """A table as of a version.

    `now` contains all committed write IDs, `then` those of the version. `loss_detector` finds files
    that were removed without a write ID. If `promises` is None, `promised` reads the guarantees.
    """

    client: MetastorePort
    table: TableInfo
    version: versions.VersionSpec
    now: ValidWriteIdList
    then: ValidWriteIdList
    txns: ValidTxnList
    loss_detector: LossDetector
    tag: Tag | None = None
    promises: Promises | None = field(default=None, repr=False)

    def states(
        self, partitions: Sequence[PartitionInfo], listings: Sequence[Listing]
    ) -> tuple[AcidState, ...]:
        """Return the version's state of each root; the listings must be current.

        Raises VersionGoneError, with the oldest complete version, if files may be missing.
        """
        states, failure = [], None
        for info, listing in zip(partitions, listings, strict=True):
            try:
                states.append(self.state(info, listing))
            except errors.VersionGoneError as error:
                failure = failure or error
        if failure is not None:
            roots = list(zip(partitions, listings, strict=True))
            oldest = Readable(past=self, roots=roots).oldest()
            self._fail(failure.why, oldest, keeping_helps=failure.keeping_helps)
        return tuple(states)

    def state(self, info: PartitionInfo, listing: Listing) -> AcidState:
        """Return the version's state of one root; see `states`."""
        try:
            state = self._state_if(listing, None)
        except errors.VersionGoneError:
            if self.tag is not None:
                return self._tagged(info, listing, self.tag)
            promise = self.promised.of(info.name)
            if promise is None:
                raise
            state = self._state_if(listing, promise)
        if self.tag is None:
            missed = self.loss_detector.missed(info, state, self.then)
            missed = missed or self.loss_detector.unproven(state, self.then)
        else:
            root = self.tag.root(info.name)
            lost = versions.not_held(state, frozenset() if root is None else root.names)
            missed = None if lost is None else f"{listing.location}/{lost} is missing"
        if missed is not None:
            self._fail(missed, oldest=0, keeping_helps=False)
        return state

    def vanished(self, existing: Collection[PartitionName]) -> tuple[PartitionName, ...]:
        """Return the known partitions of the version that no longer exist."""
        if self.tag is None:
            partitions = self.loss_detector.vanished(existing, self.then)
        else:
            partitions = frozenset(root.partition for root in self.tag.roots if root.names)
        return tuple(sorted(partitions - set(existing), key=str))

    def check_vanished(self, existing: Collection[PartitionName]) -> None:
        """Check that all known partitions of the version still exist.

        Raises VersionGoneError, with some of the missing ones and the oldest readable version.
        """
        names = self.vanished(existing)
        if not names:
            return
        roots = self.client.list_partitions(self.table)
        listings = list_in_place(self.table, roots)
        every = list(zip(roots, listings, strict=True))
        oldest = Readable(past=self, roots=every, is_whole=True).oldest()
        self._fail(_dropped(names), oldest, keeping_helps=False)

    def at(self, number: WriteId) -> Past:
        """Return the same table as of a different version number."""
        return replace(
            self,
            version=versions.VersionSpec(number=number),
            then=versions.as_of_number(self.now, number),
            tag=None,
            promises=self.promised,
        )

    @cached_property
    def promised(self) -> Promises:
        """The guarantees about the table, except guarantees that another client has broken."""
        return promises_of(self.client, self.table) if self.promises is None else self.promises

    def _fail(self, why: str, oldest: int, *, keeping_helps: bool) -> NoReturn:
        raise errors.VersionGoneError(
            table=self.table.ref,
            what=str(self.version),
            oldest=oldest,
            why=why,
            keeping_helps=keeping_helps,
        )

    def _state_if(self, listing: Listing, promise: versions.Guarantee | None) -> AcidState:
        return versions.state_as_of(
            listing,
            now=self.now,
            then=self.then,
            txns=self.txns,
            kind=self.table.kind,
            kept=promise,
        )

    def _tagged(self, info: PartitionInfo, listing: Listing, tag: Tag) -> AcidState:
        """Return the state with the files of the tag; raise an error if a file is missing."""
        root = tag.root(info.name)
        names = frozenset() if root is None else root.names
        state = resolve(versions.only_of(listing, names), self.then, self.txns, self.table.kind)
        lost = names - {d.text for d in state.live} - {f.path for f in state.originals}
        if lost:
            missing = f"{listing.location}/{min(lost)} is missing"
            self._fail(missing, oldest=0, keeping_helps=False)
        if root is not None and root.location.rstrip("/") != info.location.rstrip("/"):
            moved = f"partition {info.name} was at {root.location}"
            self._fail(moved, oldest=0, keeping_helps=False)
        return state


@dataclass(frozen=True, kw_only=True)  # no slots: results are cached
class Readable:
    """The readable versions of some roots, or of the whole table if `is_whole`.

    Two versions use the same files of a root if no write ID in a file name or note lies between
    them. So only one version of each such interval is checked.
    """

    past: Past
    roots: Sequence[Root]
    is_whole: bool = False
    _of_roots: dict[tuple[int, int], bool] = field(default_factory=dict, init=False, repr=False)
    _of_all: dict[int, bool] = field(default_factory=dict, init=False, repr=False)

    def holds(self, number: WriteId) -> bool:
        """Return True if the version with this number is readable."""
        try:
            past = self.past.at(number)
        except (errors.VersionNotSettledError, errors.VersionUnknownError):
            return False
        key = bisect_right(self._all_borders, number)
        if key not in self._of_all:
            self._of_all[key] = not self._missing.vanished(self._existing, past.then) and all(
                self._holds(past, index, number) for index in range(len(self.roots))
            )
        return self._of_all[key]

    def oldest(self) -> int:
        """Return the oldest readable version; 0 if there is none."""
        numbers = (n for n in {1, *self._all_borders} if n > 0)
        return next((n for n in sorted(numbers) if self.holds(WriteId(n))), 0)

    def _holds(self, past: Past, index: int, number: WriteId) -> bool:
        key = index, bisect_right(self._borders[index], number)
        if key not in self._of_roots:
            self._of_roots[key] = False
            with suppress(errors.VersionGoneError, errors.NotEnoughHistoryError):
                past.state(*self.roots[index])
                self._of_roots[key] = True
        return self._of_roots[key]

    @cached_property
    def _existing(self) -> frozenset[PartitionName]:
        return frozenset(info.name for info, _ in self.roots)

    @cached_property
    def _missing(self) -> LossDetector:
        """The notes about missing partitions; empty unless all roots are known."""
        if not (self.is_whole and self.past.table.is_partitioned):
            return LossDetector(table=self.past.table)
        return self.past.loss_detector.without(self._existing)

    @cached_property
    def _all_borders(self) -> list[int]:
        missing = _noted(self._missing, self.past.now)
        return sorted({b for borders in self._borders for b in borders} | missing)

    @cached_property
    def _borders(self) -> list[list[int]]:
        """For each root, the ascending version numbers at which the readability can change.

        These are the ends of each note and each directory name.
        """
        write_ids, root_borders = self.past.now, []
        is_partitioned = self.past.table.is_partitioned
        # `unproven` refuses no version of a partitioned table.
        unknown = None if is_partitioned else self.past.loss_detector.first_unknown(write_ids)
        for info, listing in self.roots:
            borders = _noted(self.past.loss_detector.of_root(info), write_ids)
            if unknown is not None:
                borders.add(unknown)
            names = _names(listing)
            for name in names:
                borders |= _ends(name, write_ids)
            # A moved directory is missing at its old place only in later versions.
            moved = self.past.loss_detector.strangers(info, names)
            borders |= {until + 1 for _, until in moved if until < write_ids.high_watermark}
            promise = self.past.promised.of(info.name)
            if promise is not None:
                borders.add(_last_visible(write_ids, promise.floor))
            root_borders.append(sorted(borders))
        return root_borders


def _noted(loss_detector: LossDetector, write_ids: ValidWriteIdList) -> set[int]:
    """Return the version numbers at which these notes may change what is readable."""
    numbers: set[int] = {note.write_id for note in loss_detector.commits}
    numbers |= {horizon.write_id for horizon in loss_detector.horizons}
    for reset in loss_detector.resets:
        numbers |= {reset.lowest, reset.write_id + 1}
    for root in () if loss_detector.keeping is None else loss_detector.keeping.roots.values():
        names = map(parse_directory_name, root.evidence)
        numbers |= {end for name in names if name is not None for end in _ends(name, write_ids)}
    return numbers


def _names(listing: Listing) -> list[BaseName | DeltaName]:
    tops = {path.partition("/")[0] for path in listing.directories}
    tops |= {file.path.partition("/")[0] for file in listing.files}
    return [name for top in tops if (name := parse_directory_name(top)) is not None]


def _ends(name: BaseName | DeltaName, write_ids: ValidWriteIdList) -> set[int]:
    """Return the version numbers at which the visible part of a directory changes."""
    low = name.low if isinstance(name, DeltaName) else name.write_id
    first = low
    while first < name.high and not write_ids.is_visible(first):
        first = WriteId(first + 1)
    return {low, first, name.high, _last_visible(write_ids, name.high)}


def _last_visible(write_ids: ValidWriteIdList, write_id: WriteId) -> WriteId:
    """Return the highest committed write ID up to `write_id`; 0 if there is none."""
    while write_id > 0 and not write_ids.is_visible(write_id):
        write_id = WriteId(write_id - 1)
    return write_id


def _dropped(names: Sequence[PartitionName]) -> str:
    if len(names) == 1:
        return f"partition {names[0]} was dropped"
    text = ", ".join(map(str, names[:_MOST_DROPPED]))
    rest = len(names) - _MOST_DROPPED
    return f"partitions {text}{f' and {rest} more' if rest > 0 else ''} were dropped"


def past_of(
    client: MetastorePort,
    table: TableInfo,
    version: versions.VersionSpec,
    snapshot: Snapshot,
    *,
    taken_s: Callable[[], float | None],
) -> Past:
    """Return a `Past` for a version of a transactional table; else raise an error.

    Reads the table's notes, and who runs an open write of the version; `Past.promised` reads the
    compaction queue later. `version` must not be the current state. `taken_s` returns a time of the
    metastore's clock from before the snapshot. For the errors of a version, see `as_of_number` and
    `as_of_time`.
    """
    if table.kind is TransactionalKind.NONE:
        raise errors.NotTransactionalError(table=table.ref)
    present = present_of(client, table, snapshot)
    current_ids, tag = present.now, None
    if version.number is not None:
        version_ids = _settled(client, table, current_ids, version.number)
    elif version.timestamp is not None:
        knowledge = Knowledge.of(present.loss_detector.commits, born_s=table.born_s)
        now_s = taken_s()
        try:
            version_ids = as_of_time(current_ids, version.timestamp, knowledge, taken_s=now_s)
        except errors.VersionDoubtfulError:  # only now read the server's event log
            logged = knowledge.with_log(client.logged_commits(table.ref))
            version_ids = as_of_time(current_ids, version.timestamp, logged, taken_s=now_s)
    else:
        tag = _tag_of(VersionNotes.of(table), table, version.tag or "", taken_s())
        version_ids = ValidWriteIdList.parse(tag.write_ids)
    return replace(present, version=version, then=version_ids, tag=tag)


def present_of(client: MetastorePort, table: TableInfo, snapshot: Snapshot) -> Past:
    """Return a `Past` for the current state of a table, with the notes about its past."""
    notes = VersionNotes.of(table)
    commits = notes.commits()
    promises = notes.promises()
    forgotten = Knowledge.of(commits).aborted | promises.aborted
    write_ids = versions.without_aborted(snapshot.write_ids(table.ref), forgotten)
    return Past(
        client=client,
        table=table,
        version=versions.VersionSpec(),
        now=write_ids,
        then=write_ids,
        txns=snapshot.txns,
        loss_detector=LossDetector.of(table, commits, promises),
    )


def promises_of(
    client: MetastorePort, table: TableInfo, notes: VersionNotes | None = None
) -> Promises:
    """Return the guarantees about a table, except those that another client has broken.

    If one appears broken, the notes are listed again: our compactors write their notes before the
    queue shows their compactions as finished.
    """
    if notes is not None:
        promises = _promises_of(client, table, notes)
        if promises.keeping is not None or not notes.is_kept():
            return promises
        notes.refresh()
    return _promises_of(client, table, VersionNotes.of(table) if notes is None else notes)


def _promises_of(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> Promises:
    promises = notes.promises()
    if promises.keeping is None:
        return promises
    entries = [e for e in client.show_compactions(table.ref) if _may_be_cleaned(e)]
    ids = [entry.entry_id for entry in entries if entry.entry_id is not None]
    is_whole = len(ids) == len(entries) and not promises.is_broken(ids)
    if is_whole and leaves_alone(table.parameters, client.generation):
        return promises
    return Promises(own=promises.own, resets=promises.resets)


def _may_be_cleaned(entry: CompactionEntry) -> bool:
    return entry.is_committed or entry.state not in _NEVER_CLEANED


def _settled(
    client: MetastorePort, table: TableInfo, current_ids: ValidWriteIdList, number: WriteId
) -> ValidWriteIdList:
    try:
        return versions.as_of_number(current_ids, number)
    except errors.VersionNotSettledError as error:
        writer = writer_of(client, table.ref, WriteId(error.write_id))
        raise errors.VersionNotSettledError(
            table=table.ref,
            version=number,
            write_id=error.write_id,
            who="" if writer is None else owner_text(client, writer),
        ) from None


def existing_tag(notes: VersionNotes, table: TableInfo, name: str) -> Tag:
    """Return a table's tag, which may have expired. Raises VersionUnknownError if there is none."""
    tag = notes.tag(name)
    if tag is None:
        names = ", ".join(tag.name for tag in notes.tags()) or "none"
        raise errors.VersionUnknownError(
            table=table.ref, detail=f"has no tag {name!r}; its tags are: {names}"
        )
    return tag


def _tag_of(notes: VersionNotes, table: TableInfo, name: str, now_s: float | None) -> Tag:
    tag = existing_tag(notes, table, name)
    if tag.expires_s is not None and (now_s is None or tag.has_expired(now_s)):
        raise errors.VersionUnknownError(
            table=table.ref,
            detail=f"no longer has tag {name!r}; it expired at {time_text(tag.expires_s)}",
        )
    return tag

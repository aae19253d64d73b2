"""A table as of a version: which writes that is, and whether its files are provably all there.

Takes a metastore, a table, what is committed now, and what the user asks for; gives a `Past`, which
chooses the files of each root. Notes are read after the files were listed, and a reader's
transaction is open all the while: a cleaner that writes a horizon waits for those that may not have
read it. Must not know rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.errors import (
    NotTransactionalError,
    VersionDoubtfulError,
    VersionGoneError,
    VersionNotSettledError,
    VersionUnknownError,
)
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName, TransactionalKind
from airflow_hiveacid.format.versions import (
    as_of_number,
    is_seen,
    not_held,
    oldest_readable,
    only_of,
    state_as_of,
    without_aborted,
    write_id_of,
)
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.plan.history import Knowledge, as_of_time, below, time_text
from airflow_hiveacid.plan.keeping import Horizon, Keeping, Promises, Reset, Tag, leaves_alone
from airflow_hiveacid.storage.stores.version_notes import VersionNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.format.versions import Kept, VersionSpec
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.history import CommitNote

_MOST_WRITERS: Final = 5
# Of no such entry has a cleaner of the server's removed anything. FAILED is none of them: 3.1's
# cleaner says so when it died half-way.
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


@dataclass(frozen=True, kw_only=True)  # no slots: promises are asked for once
class Past:
    """One table as of a version. `now` is what is committed by now, `then` what it sees of that.

    `keeping` bears witness of what was live when it began, also if it was broken since.
    """

    client: MetastorePort
    table: TableInfo
    version: VersionSpec
    now: ValidWriteIdList
    then: ValidWriteIdList
    txns: ValidTxnList
    commits: tuple[CommitNote, ...] = field(default=(), repr=False)
    resets: tuple[Reset, ...] = ()
    tag: Tag | None = None
    keeping: Keeping | None = None
    horizons: tuple[Horizon, ...] = ()

    def states(
        self, partitions: Sequence[PartitionInfo], listings: Sequence[Listing]
    ) -> tuple[AcidState, ...]:
        """What the version reads of each of these roots, which were listed just now.

        Raises:
            VersionGoneError: not all of it is provably there.
            HiveAcidError: as `resolve`, or a note cannot be read.
        """
        found, gone = [], None
        for info, listing in zip(partitions, listings, strict=True):
            try:
                found.append(self._state(info, listing))
            except VersionGoneError as error:
                gone = gone or error
        if gone is not None:
            self._fail(gone.why, self._oldest(partitions, listings))
        for info, state in zip(partitions, found, strict=True):
            self._check_commits(info, state)
        return tuple(found)

    def _oldest(self, partitions: Sequence[PartitionInfo], listings: Sequence[Listing]) -> int:
        """The oldest version that all of these roots hold."""
        kind = self.table.kind
        return max(
            oldest_readable(
                resolve(listing, self.now, self.txns, kind), self._kept(info.name), kind
            )
            for info, listing in zip(partitions, listings, strict=True)
        )

    def vanished(self, existing: Collection[PartitionName]) -> tuple[PartitionName, ...]:
        """Partitions that the version had, as far as we know, and that are not there any more."""
        if self.tag is not None:
            known = {root.partition for root in self.tag.roots if root.names}
        else:
            known = {
                PartitionName.parse(name)
                for note in self.commits
                if self.then.is_visible(note.write_id)
                for name in note.partitions
                if not is_reset(self.resets, PartitionName.parse(name), note.write_id, self.then)
            }
            roots = () if self.keeping is None else self.keeping.roots
            known |= {name for name in roots if self.witnesses(name)}
            # One that was renamed is a new one by name, of which no horizon is known.
            known |= {
                one.partition
                for one in self.horizons
                if not is_reset(self.resets, one.partition, one.write_id, self.then)
            }
        return tuple(sorted(known - set(existing), key=str))

    def check_vanished(self, existing: Collection[PartitionName]) -> None:
        """See that all partitions are there that the version had, as far as we know.

        Raises:
            VersionGoneError: one is not.
        """
        for name in self.vanished(existing):
            self._fail(f"partition {name} was dropped", oldest=0)

    def witnesses(self, partition: PartitionName) -> tuple[str, ...]:
        """What was live in a partition when keeping began, and may be the version's."""
        root = None if self.keeping is None else self.keeping.roots.get(partition)
        return tuple(
            text
            for text in (() if root is None else root.witnesses)
            if is_seen(self.then, text)
            and not is_reset(self.resets, partition, write_id_of(text), self.then)
        )

    def _fail(self, why: str, oldest: int) -> NoReturn:
        raise VersionGoneError(table=self.table.ref, what=str(self.version), oldest=oldest, why=why)

    def _state(self, info: PartitionInfo, listing: Listing) -> AcidState:
        try:
            state = self._state_if(listing, None)
        except VersionGoneError:
            if self.tag is not None:
                return self._tagged(info, listing, self.tag)
            kept = self._kept(info.name)
            if kept is None:
                raise
            return self._state_if(listing, kept)
        if self.tag is None:
            names: Collection[str] = self.witnesses(info.name)
        else:
            root = self.tag.root(info.name)
            names = frozenset() if root is None else root.names
        lost = not_held(state, names)
        if lost is not None:
            self._fail(f"{listing.location}/{lost} is not there any more", oldest=0)
        return state

    def _state_if(self, listing: Listing, kept: Kept | None) -> AcidState:
        return state_as_of(
            listing,
            now=self.now,
            then=self.then,
            txns=self.txns,
            kind=self.table.kind,
            kept=kept,
        )

    def _tagged(self, info: PartitionInfo, listing: Listing, tag: Tag) -> AcidState:
        """What the tag has noted, if every bit of it is still there."""
        root = tag.root(info.name)
        names = frozenset() if root is None else root.names
        state = resolve(only_of(listing, names), self.then, self.txns, self.table.kind)
        lost = names - {d.text for d in state.live} - {f.path for f in state.originals}
        if lost:
            self._fail(f"{listing.location}/{min(lost)} is not there any more", oldest=0)
        if root is not None and root.location.rstrip("/") != info.location.rstrip("/"):
            self._fail(f"partition {info.name} was at {root.location}", oldest=0)
        return state

    @cached_property
    def _promises(self) -> Promises:
        """What is promised of the table, if nobody has broken it."""
        return promises_of(self.client, self.table)

    def _kept(self, partition: PartitionName) -> Kept | None:
        return self._promises.of(partition)

    def _check_commits(self, info: PartitionInfo, state: AcidState) -> None:
        """See that nothing that we know was written by then is gone from a root.

        TRUNCATE of Hive 3.1, DROP and ADD PARTITION, and hands remove files without a write ID.
        """
        if self.tag is not None:
            return
        for note in self.commits:
            if not self.then.is_visible(note.write_id):
                continue
            if is_reset(self.resets, info.name, note.write_id, self.then):
                continue
            for name in lost_of(note, self.table, info, state):
                self._fail(
                    f"{name}, which version {note.write_id} wrote, is not at {info.location} any"
                    " more, without a version of its own: somebody dropped or moved the partition,"
                    " or truncated the table with Hive 3.1, or removed files by hand",
                    oldest=0,
                )


def past_of(
    client: MetastorePort,
    table: TableInfo,
    version: VersionSpec,
    snapshot: Snapshot,
    *,
    taken_s: Callable[[], float | None],
) -> Past:
    """A table as of a version.

    Args:
        client: asked who holds a version open, and what the compaction queue knows.
        table: it.
        version: which; not the present.
        snapshot: what is committed now.
        taken_s: answers a moment, by the metastore's clock, before it was taken.

    Raises:
        NotTransactionalError: the table has no versions.
        VersionUnknownError, VersionDoubtfulError, VersionNotSettledError: the version is not known,
            or could still become another one.
        StorageError: notes cannot be read.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    notes = VersionNotes.of(table)
    commits = notes.commits()
    known = Knowledge.of(commits, born_s=table.born_s)
    promises = notes.promises()
    forgotten = known.aborted | promises.aborted
    now = without_aborted(snapshot.write_ids(table.ref), forgotten)
    tag = None
    if version.number is not None:
        then = _settled(client, table, now, version.number)
    elif version.timestamp is not None:
        then = _as_of(client, table, now, version.timestamp, known, taken_s=taken_s())
    else:
        tag = _tag_of(notes, table, version.tag or "", taken_s())
        then = ValidWriteIdList.parse(tag.write_ids)
    return Past(
        client=client,
        table=table,
        version=version,
        now=now,
        then=then,
        txns=snapshot.txns,
        commits=commits,
        resets=notes.resets(),
        tag=tag,
        keeping=promises.keeping,
        horizons=promises.horizons,
    )


def promises_of(client: MetastorePort, table: TableInfo) -> Promises:
    """What is promised of a table; what somebody has broken is left out."""
    promises = VersionNotes.of(table).promises()
    if promises.keeping is None:
        return promises
    entries = [e for e in client.show_compactions(table.ref) if e.state not in _NEVER_CLEANED]
    ids = [entry.entry_id for entry in entries if entry.entry_id is not None]
    is_whole = len(ids) == len(entries) and not promises.is_broken(ids)
    if is_whole and leaves_alone(table.parameters, client.generation):
        return promises
    return Promises(own=promises.own)


def lost_of(
    note: CommitNote, table: TableInfo, info: PartitionInfo, state: AcidState
) -> tuple[str, ...]:
    """What a commit put into a root, of which nothing is left there, as paths or URIs.

    Args:
        note: the commit.
        table: the table.
        info: the root.
        state: what a reader reads there who sees the commit.
    """
    if state.base is not None and state.base.high >= note.write_id:
        return ()
    where = below(table.location, f"{info.location.rstrip('/')}/")
    paths = [below(table.location, path) for path in note.directories]
    here = [p for p in paths if p.startswith(where) and "/" not in p.removeprefix(where)]
    wrote_here = str(info.name) in note.partitions if info.name.columns else bool(paths)
    if wrote_here and not here:
        return tuple(paths)  # the partition is at another place now
    live = [d.name for d in state.live]
    return tuple(p for p in here if not _is_held(p.removeprefix(where), live))


def is_reset(
    resets: Iterable[Reset], partition: PartitionName, write_id: WriteId, then: ValidWriteIdList
) -> bool:
    """Whether it is known that what a commit wrote was removed before a version came to be."""
    return any(
        one.partition == partition and write_id <= one.write_id < then.high_watermark
        for one in resets
    )


def _is_held(text: str, live: Iterable[BaseName | DeltaName]) -> bool:
    name = parse_directory_name(text)
    if name is None:
        return True  # not one that we know how to look for
    # Nothing holds a base: there is none from its write ID on.
    return any(isinstance(other, DeltaName) and other.holds(name) for other in live)


def _settled(
    client: MetastorePort, table: TableInfo, now: ValidWriteIdList, number: WriteId
) -> ValidWriteIdList:
    try:
        return as_of_number(now, number)
    except VersionNotSettledError as error:
        writers = [
            f"{lock} since {time_text(lock.acquired_s)}" if lock.acquired_s else str(lock)
            for lock in client.show_locks(table.ref)
            if lock.lock_type is not LockType.SHARED_READ
        ]
        who = "; ".join(sorted(set(writers))[:_MOST_WRITERS])
        raise VersionNotSettledError(
            table=table.ref, version=number, write_id=error.write_id, who=who
        ) from None


def _as_of(  # noqa: PLR0913 - who is asked, of what, and what is known
    client: MetastorePort,
    table: TableInfo,
    now: ValidWriteIdList,
    at: datetime,
    known: Knowledge,
    *,
    taken_s: float | None,
) -> ValidWriteIdList:
    """See `as_of_time`. The server's log, which may be long, is read if notes do not suffice."""
    try:
        return as_of_time(now, at, known, taken_s=taken_s)
    except VersionDoubtfulError:
        logged = known.with_log(client.logged_commits(table.ref))
        return as_of_time(now, at, logged, taken_s=taken_s)


def _tag_of(notes: VersionNotes, table: TableInfo, name: str, now_s: float | None) -> Tag:
    tag = notes.tag(name)
    if tag is None:
        there = ", ".join(one.name for one in notes.tags()) or "none"
        raise VersionUnknownError(
            table=table.ref, detail=f"has no tag {name!r}; its tags are: {there}"
        )
    if tag.expires_s is not None and (now_s is None or tag.has_expired(now_s)):
        raise VersionUnknownError(
            table=table.ref,
            detail=f"has no tag {name!r} any more; it expired at {time_text(tag.expires_s)}",
        )
    return tag

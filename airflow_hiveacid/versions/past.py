"""A table as of a version: which writes that is, and whether its files are provably all there.

Takes a metastore, a table, what is committed now, and what the user asks for; gives a `Past`, which
chooses the files of each root. Notes are read after the files were listed, and a reader's
transaction is open all the while: a cleaner that writes a horizon waits for those that may not have
read it. Must not know rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import (
    VersionSpec,
    as_of_number,
    not_held,
    only_of,
    state_as_of,
    without_aborted,
)
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.plan.history import Knowledge, as_of_time, time_text
from airflow_hiveacid.plan.keeping import Promises, leaves_alone
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.readable import Readable
from airflow_hiveacid.versions.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
    from airflow_hiveacid.format.versions import Kept
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.keeping import Tag

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

    `witnesses` say what it had that may have been removed without a version. `promises` are known
    already; None if they have to be asked for when files do not do.
    """

    client: MetastorePort
    table: TableInfo
    version: VersionSpec
    now: ValidWriteIdList
    then: ValidWriteIdList
    txns: ValidTxnList
    witnesses: Witnesses
    tag: Tag | None = None
    promises: Promises | None = field(default=None, repr=False)

    def states(
        self, partitions: Sequence[PartitionInfo], listings: Sequence[Listing]
    ) -> tuple[AcidState, ...]:
        """What the version reads of each of these roots, which were listed just now.

        Raises:
            VersionGoneError: not all of it is provably there; with the oldest version that is.
            HiveAcidError: as `resolve`, or a note cannot be read.
        """
        found, gone = [], None
        for info, listing in zip(partitions, listings, strict=True):
            try:
                found.append(self.state(info, listing))
            except VersionGoneError as error:
                gone = gone or error
        if gone is not None:
            roots = list(zip(partitions, listings, strict=True))
            self._fail(gone.why, Readable(past=self, roots=roots).oldest())
        return tuple(found)

    def state(self, info: PartitionInfo, listing: Listing) -> AcidState:
        """What the version reads of one root; see `states`.

        Raises:
            VersionGoneError: not all of it is provably there.
        """
        try:
            state = self._state_if(listing, None)
        except VersionGoneError:
            if self.tag is not None:
                return self._tagged(info, listing, self.tag)
            kept = self.promised.of(info.name)
            if kept is None:
                raise
            state = self._state_if(listing, kept)
        if self.tag is None:
            missed = self.witnesses.missed(info, state, self.then)
            missed = missed or self.witnesses.unproven(state, self.then)
        else:
            root = self.tag.root(info.name)
            lost = not_held(state, frozenset() if root is None else root.names)
            missed = None if lost is None else f"{listing.location}/{lost} is not there any more"
        if missed is not None:
            self._fail(missed, oldest=0)
        return state

    def vanished(self, existing: Collection[PartitionName]) -> tuple[PartitionName, ...]:
        """Partitions that the version had, as far as we know, and that are not there any more."""
        if self.tag is None:
            known = self.witnesses.vanished(existing, self.then)
        else:
            known = frozenset(root.partition for root in self.tag.roots if root.names)
        return tuple(sorted(known - set(existing), key=str))

    def check_vanished(self, existing: Collection[PartitionName]) -> None:
        """See that all partitions are there that the version had, as far as we know.

        Raises:
            VersionGoneError: one is not; with the oldest version of the table that can be read.
        """
        for name in self.vanished(existing):
            roots = self.client.list_partitions(self.table)
            listings = each_in_threads(lambda info: list_table(info.location), roots)
            every = list(zip(roots, listings, strict=True))
            oldest = Readable(past=self, roots=every, is_whole=True).oldest()
            self._fail(f"partition {name} was dropped", oldest)

    def at(self, number: WriteId) -> Past:
        """The same table as of another version, known by its number.

        Raises:
            VersionNotSettledError, VersionUnknownError: there is none yet, or not for good.
        """
        return replace(
            self,
            version=VersionSpec(number=number),
            then=as_of_number(self.now, number),
            tag=None,
            promises=self.promised,
        )

    @cached_property
    def promised(self) -> Promises:
        """What is promised of the table, if nobody has broken it."""
        return promises_of(self.client, self.table) if self.promises is None else self.promises

    def _fail(self, why: str, oldest: int) -> NoReturn:
        raise VersionGoneError(table=self.table.ref, what=str(self.version), oldest=oldest, why=why)

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
        VersionUnknownError, VersionDoubtfulError, VersionNotSettledError, VersionNotYetError: the
            version is not known, or could still become another one.
        StorageError: notes cannot be read.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    found = present_of(client, table, snapshot)
    now, tag = found.now, None
    if version.number is not None:
        then = _settled(client, table, now, version.number)
    elif version.timestamp is not None:
        known = Knowledge.of(found.witnesses.commits, born_s=table.born_s)
        then = _as_of(client, table, now, version.timestamp, known, taken_s=taken_s())
    else:
        tag = _tag_of(VersionNotes.of(table), table, version.tag or "", taken_s())
        then = ValidWriteIdList.parse(tag.write_ids)
    return replace(found, version=version, then=then, tag=tag)


def present_of(client: MetastorePort, table: TableInfo, snapshot: Snapshot) -> Past:
    """A table as of now, with what is noted of its past.

    Raises:
        StorageError: notes cannot be read.
    """
    notes = VersionNotes.of(table)
    commits = notes.commits()
    promises = notes.promises()
    forgotten = Knowledge.of(commits).aborted | promises.aborted
    now = without_aborted(snapshot.write_ids(table.ref), forgotten)
    return Past(
        client=client,
        table=table,
        version=VersionSpec(),
        now=now,
        then=now,
        txns=snapshot.txns,
        witnesses=Witnesses(
            table=table,
            commits=commits,
            keeping=promises.keeping,
            horizons=promises.horizons,
            resets=promises.resets,
        ),
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
    return Promises(own=promises.own, resets=promises.resets)


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

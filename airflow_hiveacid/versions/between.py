"""What lies between two versions of a table, and what is known of it from notes.

Takes a metastore, a table, what is committed now, and two versions; gives the range of writes
between them, what is promised of each root, and when its writes were committed. Must not know rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.changes import (
    ChangeRange,
    ChangeSegment,
    segments_of,
    settled,
    up_to,
)
from airflow_hiveacid.format.errors import (
    ChangesGoneError,
    NotEnoughHistoryError,
    VersionRangeError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.versions import VersionSpec, newest_of, not_held, without_aborted
from airflow_hiveacid.plan.history import Knowledge
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.past import Past, past_of, promises_of
from airflow_hiveacid.versions.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
    from airflow_hiveacid.format.versions import Kept
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.history import CommitNote
    from airflow_hiveacid.plan.keeping import Promises

Version = int | str | datetime | VersionSpec
"""What `VersionSpec.meant_by` understands."""

# The metastore's clock shows whole seconds.
_EXACT_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)  # no slots: promises are asked for once
class Between:
    """The writes of one table between two versions, as a reader who comes now finds them.

    `first` and `last` are the versions; None is the table before its first write. `held` are names
    (`newest_of`), by the partition's text, of what the caller knows to have been in a root at the
    first version, `had` the partitions that it knows to have been there; None if it does not.
    """

    client: MetastorePort
    table: TableInfo
    now: ValidWriteIdList
    txns: ValidTxnList
    part: ChangeRange
    commits: tuple[CommitNote, ...]
    first: Past | None
    last: Past | None
    held: Mapping[str, str] = field(default_factory=dict)
    had: frozenset[PartitionName] | None = None

    @property
    def ends_now(self) -> bool:
        """Whether the later version shows all that is committed now."""
        first = WriteId(1)
        then = self.part.until.visible_within(first, self.part.until.high_watermark)
        return then == self.now.visible_within(first, self.now.high_watermark)

    def vanished(self, existing: Collection[PartitionName]) -> frozenset[PartitionName]:
        """Partitions that either version had, as far as we know, and that are not there."""
        first, last = (
            frozenset(() if past is None else past.vanished(existing))
            for past in (self.first, self.last)
        )
        # By its number alone the first version may be of before they were dropped, or of after.
        gone_before = frozenset() if self.had is None else first - self.had
        return (first | last) - gone_before

    def check_vanished(self, names: Collection[PartitionName]) -> None:
        """See that none of the partitions vanished that matter.

        Raises:
            ChangesGoneError: one has.
        """
        for name in sorted(names, key=str):
            raise self._gone(f"partition {name} was dropped, and its rows with it", 0)

    def segments(self, info: PartitionInfo, listing: Listing) -> tuple[ChangeSegment, ...]:
        """The stretches of one root's life, which was listed just now.

        Raises:
            ChangesGoneError: files that are needed may be gone.
        """
        try:
            found = self._segments(listing)
        except ChangesGoneError:
            # Asked for after the files were listed: a cleaner notes first, and then removes.
            kept = self._promises.of(info.name)
            if kept is None:
                raise
            found = self._segments(listing, kept)
        self._check_commits(info, listing)
        self._check_held(info, listing, found)
        return found

    def newest(self, listing: Listing) -> str | None:
        """What was written last of a root by the later version (`newest_of`); None if not known."""
        try:
            return newest_of(resolve(listing, self.part.until, self.txns, self.table.kind))
        except NotEnoughHistoryError:
            return None

    def commit_times(self) -> Mapping[WriteId, float]:
        """When writes of the range were committed, to the second, as far as anybody noted it."""
        known = Knowledge.of(self.commits, born_s=self.table.born_s)
        found: dict[WriteId, float] = {}
        for note in self.commits:
            if self.part.holds(note.write_id):
                time = known.of_commit(note.write_id)
                if time.by_s is None or time.after_s is None:
                    continue
                if time.by_s - time.after_s <= _EXACT_S:
                    found[note.write_id] = time.by_s
        return found

    def _segments(self, listing: Listing, kept: Kept | None = None) -> tuple[ChangeSegment, ...]:
        return segments_of(
            listing, self.now, self.part, txns=self.txns, kind=self.table.kind, kept=kept
        )

    def _check_commits(self, info: PartitionInfo, listing: Listing) -> None:
        """See that nothing that we know was written is gone without a write ID."""
        since, until = self.part.since, self.part.until
        try:
            state = resolve(listing, until, self.txns, self.table.kind)
        except NotEnoughHistoryError:
            return  # a base stands for it
        why = self._witnesses.missed(info, state, until)
        if why is None and self._witnesses.removed_between(info.name, since, until):
            why = f"files at {info.location} were removed without a version of their own"
        if why is not None:
            raise self._gone(why, 0)

    def _check_held(
        self, info: PartitionInfo, listing: Listing, found: tuple[ChangeSegment, ...]
    ) -> None:
        """See that what was there at the first version is there, or what has taken its place.

        What an overwrite or a compaction of the range has made does not take it: of rows that were
        gone by then, and that it did not find, no change would tell.
        """
        if found:
            state = found[0].state
            why = self._witnesses.missed(info, state, self.part.since)
            if why is not None:
                raise self._gone(why, 0)
        else:
            state = resolve(listing, self.now, self.txns, self.table.kind)
        name = self.held.get(str(info.name))
        if name is None or any(f.path == name or _top(f.path) == name for f in listing.files):
            return
        if not_held(state, [name]) is not None:
            raise self._gone(
                f"{name} was at {info.location} at that version and is gone without a version of"
                " its own, as by TRUNCATE of Hive 3.1 or by hand",
                0,
            )

    @cached_property
    def _promises(self) -> Promises:
        return promises_of(self.client, self.table)

    @cached_property
    def _witnesses(self) -> Witnesses:
        resets = VersionNotes.of(self.table).resets()
        return Witnesses(table=self.table, commits=self.commits, resets=resets)

    def _gone(self, why: str, oldest: int) -> ChangesGoneError:
        return ChangesGoneError(
            table=self.table.ref, since=self.part.since.high_watermark, oldest=oldest, why=why
        )


def between(  # noqa: PLR0913 - a table, two versions of it, and who is asked
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    since: Version,
    until: Version | None,
    *,
    taken_s: Callable[[], float | None],
) -> Between:
    """The writes after one version up to another.

    Args:
        client: the metastore.
        table: it.
        snapshot: what is committed now.
        since: the earlier version.
        until: the later one; None for the newest that no open write can change.
        taken_s: see `past_of`.

    Raises:
        VersionRangeError: the later one lacks what the earlier one has.
        VersionUnknownError, VersionDoubtfulError, VersionNotSettledError, VersionNotYetError: one
            of them is not known, or could still become another one.
        StorageError: notes cannot be read.
    """
    notes = VersionNotes.of(table)
    commits = notes.commits()
    aborted = Knowledge.of(commits).aborted | notes.promises().aborted
    now = without_aborted(snapshot.write_ids(table.ref), aborted)

    def past(version: Version) -> Past | None:
        spec = VersionSpec.meant_by(version)
        if spec.number == 0:
            return None
        return past_of(client, table, spec, snapshot, taken_s=taken_s)

    first = past(since)
    newest = settled(now)
    if until is None and first is not None and first.then.high_watermark > newest:
        until = since
    last = past(newest if until is None else until)
    before, after = (up_to(now, WriteId(0)) if one is None else one.then for one in (first, last))
    if before.shows_more_than(after):
        raise VersionRangeError(
            table=table.ref, since=before.high_watermark, until=after.high_watermark
        )
    return Between(
        client=client,
        table=table,
        now=now,
        txns=snapshot.txns,
        part=ChangeRange(since=before, until=after),
        commits=commits,
        first=first,
        last=last,
    )


def _top(path: str) -> str:
    return path.partition("/")[0]

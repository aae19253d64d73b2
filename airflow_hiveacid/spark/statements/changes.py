"""A feed of changes: one range more, once.

Read `feed_changes` downwards: the feed's last range says where to go on; the changes since then are
read under one snapshot and written aside; one rename, or the note that comes last, makes them the
next range. Whoever dies before that has done nothing, and his next try does the range again, whole;
whoever is tried again after it, cleared, or deleted and made again under the same name, finds that
in a note, and does nothing: a run has one range, whatever becomes of the run.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.changes import ChangeType, holds_older, settled
from airflow_hiveacid.format.errors import ChangesGoneError, ConfigurationError, FeedError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs.changes import ChangesSpec, WhenGone
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.plan.reruns import differing_parts
from airflow_hiveacid.spark.reading.change_columns import CHANGE_TYPE
from airflow_hiveacid.spark.reading.changes import (
    ChangeQuery,
    changes_of,
    keys_of,
    known_columns,
    whole_of,
    writes_between,
)
from airflow_hiveacid.spark.reading.tables import held_snapshot
from airflow_hiveacid.spark.store_settings import give_store_settings
from airflow_hiveacid.spark.store_tokens import give_store_tokens
from airflow_hiveacid.spark.tasks import job_group
from airflow_hiveacid.spark.writing.feed_files import write_files, write_no_rows
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.reading.changes import Told
    from airflow_hiveacid.spark.reading.tables import ReadSnapshot
    from airflow_hiveacid.spark.writing.context import JobContext
    from airflow_hiveacid.versions.between import Between, Version

log = logging.getLogger("hiveacid")

_ASKED: Final = ("columns", "is_net", "keys", "pre_images", "since", "target", "until", "where")
_COUNTED: Final = {
    ChangeType.INSERT: "inserted",
    ChangeType.UPDATE_POSTIMAGE: "updated",
    ChangeType.DELETE: "deleted",
}


def feed_changes(job: JobContext) -> JobResult:
    """Write the changes since the feed's last range as its next one.

    Raises:
        ChangesGoneError: files that hold them may be gone.
        FeedError: the feed is of another table, or of other rows of it; or a partition was dropped
            since, or added with rows of before.
        ConfigurationError: this run has written a range of other changes before; or the primary key
            has changed by which the feed goes.
        FeedOvertakenError: somebody else went on with the feed meanwhile.
        HiveAcidError: nothing was changed.
    """
    spec = job.job_of(ChangesSpec)
    give_store_settings(job.spark)
    give_store_tokens(job.spark)
    feed = ChangeFeed(spec.location)
    with (
        job_group(job.spark, job.spec.attempt),
        held_snapshot(
            job.client,
            [spec.target],
            job_key=job.spec.job_key,
            attempt=AttemptId.parse(job.spec.attempt),
            lock_timeout_s=job.spec.lock_timeout_s,
            on_step=job.on_step,
        ) as snapshot,
    ):
        last, own = feed.last(), _own(feed, job)
        if own is not None:
            log.warning("nothing is done: %s has written its range before", job.spec.job_key)
            status = JobStatus.ALREADY_DONE if own.files else JobStatus.NOTHING_TO_DO
            return _result(job, status, own.until, own, feed.place_of(own))
        return _next_range(job, spec, feed, last, snapshot)


def _next_range(
    job: JobContext,
    spec: ChangesSpec,
    feed: ChangeFeed,
    last: FeedNote | None,
    snapshot: ReadSnapshot,
) -> JobResult:
    table = snapshot.tables[TableRef.parse(spec.target)]
    births = _births(snapshot.client, table)
    keys = keys_of(snapshot, table, spec.keys)
    if last is not None:
        _check_same(feed, last, table, spec.where)
        if spec.keys is None:
            _check_keys(feed, last, keys)
    since: Version = (spec.since or 0) if last is None else last.until
    now = snapshot.snapshot.write_ids(table.ref)
    stays = _result(job, JobStatus.NOTHING_TO_DO, None if last is None else last.until)
    if last is not None and settled(now) < last.until:
        # A metastore may end its list early for a while (docs/adr/0014).
        return stays
    held = {} if last is None else last.held
    had = None if last is None else frozenset(map(PartitionName.parse, last.births))
    wanted = ChangeQuery(
        table=table,
        writes=replace(_writes(snapshot, table, since, spec.until), held=held, had=had),
        columns=known_columns(table, spec.columns or table.column_names),
        keys=keys,
        is_net=spec.is_net,
        where=spec.where,
        pre_images=spec.pre_images,
    )
    found = _rows(job, feed, last, snapshot, wanted, births=births)
    if found is None:
        return stays
    told, is_whole = found
    begin, end = wanted.writes.part.since.high_watermark, wanted.writes.part.until.high_watermark
    place = feed.place_for(begin, AttemptId.parse(job.spec.attempt).nonce)
    files = write_files(told.rows, place, CHANGE_TYPE)
    if is_whole and not files:
        # Who follows the table has to hear that it has no rows any more.
        files = [write_no_rows(told.rows, place)]
    kinds: Counter[str] = Counter()
    for file in files:
        kinds.update(file.kinds)
    note = FeedNote(
        table=str(table.ref),
        table_id=table.table_id,
        since=begin,
        until=end,
        is_whole=is_whole,
        job_key=job.spec.job_key,
        attempt=job.spec.attempt,
        files=tuple(file.name for file in files),
        rows=dict(kinds),
        size_bytes=sum(file.size_bytes for file in files),
        births=births,
        where=spec.where or "",
        asked=_asked(job),
        held=dict(told.held) if is_whole else {**held, **told.held},
        keys=keys,
    )
    job.on_step("staged")
    sizes = {file.name: file.size_bytes for file in files}
    # Whoever was killed, or has a newer copy, hears so here: nothing takes a range back.
    uri = feed.publish(place, note, sizes, guard=snapshot.confirm_alive)
    job.on_step("published")
    # Without rows it is a range, too: the next one need not look for them again.
    status = JobStatus.COMMITTED if files else JobStatus.NOTHING_TO_DO
    return _result(job, status, end, note, uri)


def _writes(
    snapshot: ReadSnapshot, table: TableInfo, since: Version, until: Version | None
) -> Between:
    """The writes of a range from which the next one can go on.

    At a moment a lower write may have been open when a higher one was committed. The next range
    begins at a number, so this one ends below that write. If it begins at a moment when that was
    open, there is no range yet.
    """
    found = writes_between(snapshot, table, since, until)
    whole = settled(found.part.until)
    if whole == found.part.until.high_watermark:
        return found
    begins_above = whole < found.part.since.high_watermark
    return writes_between(snapshot, table, since, since if begins_above else whole)


def _rows(  # noqa: PLR0913 - what is asked for, and what is known of the feed and its table
    job: JobContext,
    feed: ChangeFeed,
    last: FeedNote | None,
    snapshot: ReadSnapshot,
    wanted: ChangeQuery,
    *,
    births: Mapping[str, int],
) -> tuple[Told, bool] | None:
    """The rows of the next range, and whether they are the whole table; None if it is empty.

    Raises:
        ChangesGoneError, FeedError: nobody can tell its changes, and the whole is not wanted.
    """
    spec = job.job_of(ChangesSpec)
    is_empty = wanted.writes.part.until.high_watermark <= wanted.writes.part.since.high_watermark
    is_whole = last is None and spec.since is None
    try:
        if last is not None:
            _check_dropped(feed, last, births)
            _check_added(feed, last, births, snapshot)
        if is_empty:
            return None
        if not is_whole:
            return changes_of(job.spark, snapshot, wanted), False
    except (ChangesGoneError, FeedError) as error:
        if spec.when_gone is WhenGone.FAIL or is_empty:
            raise
        log.warning("the range is the whole table: %s", error)
    return whole_of(job.spark, snapshot, wanted), True


def _own(feed: ChangeFeed, job: JobContext) -> FeedNote | None:
    """The range that this run of the task has written: in an earlier try, or before it was cleared.

    Or before it was deleted, and made again under the same name. Whoever clears a run, or deletes
    it, with what comes after it wants that to have the same range again. Other runs may have gone
    on with the feed meanwhile, so all ranges are asked.

    Raises:
        ConfigurationError: it has, when it was asked for other changes.
    """
    own = feed.written_by(job.spec.job_key)
    if own is None:
        return None
    differing = differing_parts(own.asked, _asked(job)) if own.asked else ()
    if differing:
        raise ConfigurationError(
            f"{job.spec.job_key} has written versions {own.since} to {own.until} of the feed at"
            f" {feed.location} before, with another {', '.join(differing)}. What is written stays"
            " as it is: a run with another ID goes on with the feed, and at another location one"
            " begins anew"
        )
    return own


def _asked(job: JobContext) -> dict[str, str]:
    """A digest of each argument that says which changes are asked for, and in which form."""
    return {name: job.spec.statement[name] for name in _ASKED}


def _births(client: MetastorePort, table: TableInfo) -> dict[str, int]:
    if not table.is_partitioned:
        return {}
    found = client.partition_births(table, client.partition_names(table))
    return {str(name): born_s for name, born_s in found.items()}


def _check_same(feed: ChangeFeed, last: FeedNote, table: TableInfo, where: str | None) -> None:
    """See that the table is the one that the feed is of, and that the same of its rows are wanted.

    Of two feeds of other rows at one place each would leave out what the other has gone over.

    Raises:
        FeedError: it is not.
    """
    if last.table != str(table.ref):
        raise FeedError(location=feed.location, reason=f"it is of table {last.table}")
    if last.table_id != table.table_id:
        reason = f"table {table.ref} was dropped and made again since"
        raise FeedError(location=feed.location, reason=reason)
    if last.where != (where or ""):
        reason = f"it has the rows of {table.ref} where {last.where or 'true'}, not where"
        raise FeedError(location=feed.location, reason=f"{reason} {where or 'true'}")


def _check_keys(feed: ChangeFeed, last: FeedNote, keys: tuple[str, ...]) -> None:
    """See that a primary key by which the feed goes, since nobody has named keys, is what it was.

    By other keys other rows are pairs; and without old values rows that go have nothing but their
    keys, of which whoever goes by the old ones finds none.

    Raises:
        ConfigurationError: it is not.
    """
    if last.keys is not None and {*last.keys} != {*keys}:
        old, new = (", ".join(names) or "none" for names in (last.keys, keys))
        raise ConfigurationError(
            f"the feed at {feed.location} goes by the keys {old}, and by its primary key table"
            f" {last.table} has {new} now. Nothing was written; say by `keys` which it goes on by"
        )


def _check_dropped(feed: ChangeFeed, last: FeedNote, births: Mapping[str, int]) -> None:
    """See that the table has all the partitions still that it had.

    One that is dropped leaves nothing behind that says which rows have gone with it.

    Raises:
        FeedError: it has not.
    """
    gone = [name for name, born_s in last.births.items() if births.get(name) != born_s]
    if gone:
        raise FeedError(
            location=feed.location,
            reason=f"partition {gone[0]} of {last.table} was dropped since version {last.until},"
            " and no file says which rows went with it",
        )


def _check_added(
    feed: ChangeFeed, last: FeedNote, births: Mapping[str, int], snapshot: ReadSnapshot
) -> None:
    """See that the partitions that have come since have no rows of before.

    Files are brought to a table without a write of theirs by who adds a partition that has some, or
    repairs the table. No range from here on would tell of their rows.

    Raises:
        FeedError: one has.
    """
    ref = TableRef.parse(last.table)
    table, now = snapshot.tables[ref], snapshot.snapshot.write_ids(ref)
    added = [PartitionName.parse(name) for name in births if name not in last.births]
    places = snapshot.client.get_partitions(table, added) if added else ()
    listings = each_in_threads(lambda place: list_table(place.location), places)
    for place, listing in zip(places, listings, strict=True):
        state = resolve(listing, now, snapshot.snapshot.txns, table.kind)
        if holds_older(state, WriteId(last.until)):
            raise FeedError(
                location=feed.location,
                reason=f"partition {place.name} of {last.table} was added since version"
                f" {last.until} with rows that are older",
            )


def _counted(kinds: Mapping[str, int]) -> RowCounts:
    """Rows as a result counts them: an update once."""
    return RowCounts(**{name: kinds.get(kind.value, 0) for kind, name in _COUNTED.items()})


def _result(
    job: JobContext,
    status: JobStatus,
    until: int | None,
    note: FeedNote | None = None,
    uri: str = "",
) -> JobResult:
    """What was done, of a range that lies there; `until` is the version that the feed has come to.

    A range without rows is told by that version alone: there is nothing to take over.
    """
    ranges = []
    if note is not None and note.files:
        ranges = [
            {
                "location": uri,
                "since": note.since,
                "until": note.until,
                "is_whole": note.is_whole,
                "rows": dict(note.rows),
            }
        ]
    return JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=status,
        table=job.job_of(ChangesSpec).target,
        rows=RowCounts() if note is None else _counted(note.rows),
        files=0 if note is None else len(note.files),
        size_bytes=0 if note is None else note.size_bytes,
        details={"ranges": ranges} if until is None else {"ranges": ranges, "until": until},
    )

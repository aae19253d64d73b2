"""The next range of a change feed; each range is written exactly once.

The changes after the feed's last range are read under one snapshot, staged, and published by one
rename or, without renames, by a note that is written last. A job that is killed earlier has
published nothing. A run that is retried after publication, cleared, or created again with the same
name finds the note of its range, and does nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.change_range import ChangeType, holds_older, unsettled
from airflow_hiveacid.format.errors import ChangesGoneError, ConfigurationError, FeedError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList, settled
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, WhenGone
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.reruns import differing_parts
from airflow_hiveacid.plan.statements.parameters import said
from airflow_hiveacid.reading.snapshots import ReadSnapshot
from airflow_hiveacid.spark.engine.session import give_store_settings
from airflow_hiveacid.spark.engine.store_tokens import give_store_tokens
from airflow_hiveacid.spark.reading import read_changes
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.feed_files import write_files, write_no_rows
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote
from airflow_hiveacid.storage.stores.conversion_note import list_in_place
from airflow_hiveacid.versions.history import Version, WriteRange

log = logging.getLogger("hiveacid")

_ASKED: Final = frozenset(
    {"columns", "is_net", "keys", "pre_images", "since", "target", "until", "where", "parameters"}
)
_COUNTED: Final = {
    ChangeType.INSERT: "inserted",
    ChangeType.UPDATE_POSTIMAGE: "updated",
    ChangeType.DELETE: "deleted",
}


def feed_changes(job: JobContext) -> JobResult:
    """Write the changes since the feed's last range as its next range.

    After an error, no range was published.

    Raises ChangesGoneError if files with these changes may have been removed, and FeedError if the
    feed belongs to a different table or selects different rows, or if a partition was dropped, or
    one with older rows was added. Raises ConfigurationError if this run has already written a range
    with different arguments, or the primary key that the feed uses has changed, and
    FeedOvertakenError if a different job has continued the feed.
    """
    spec = job.job_of(ChangeFeedSpec)
    give_store_settings(job.spark)
    give_store_tokens(job.spark)
    feed = ChangeFeed(spec.location)
    with job.snapshot(spec.target) as snapshot:
        last, own = feed.last(), _own(feed, job)
        if own is not None:
            log.warning("nothing to do: %s has already written its range", job.spec.job_key)
            status = JobStatus.ALREADY_DONE if own.files else JobStatus.NOTHING_TO_DO
            return _result(job, status, own.until, own, feed.directory_of(own))
        result = _next_range(job, spec, feed, last, snapshot)
        if spec.until is not None:
            return result
        return _with_left(result, snapshot.snapshot.write_ids(TableRef.parse(spec.target)))


def _next_range(
    job: JobContext,
    spec: ChangeFeedSpec,
    feed: ChangeFeed,
    last: FeedNote | None,
    snapshot: ReadSnapshot,
) -> JobResult:
    table = snapshot.tables[TableRef.parse(spec.target)]
    births = _births(snapshot.client, table)
    keys = read_changes.keys_of(snapshot, table, spec.keys)
    if last is not None:
        _check_same(feed, last, table, said(spec.where, spec.parameters))
        if spec.keys is None:
            _check_keys(feed, last, keys)
    since: Version = (spec.since or 0) if last is None else last.until
    write_ids = snapshot.snapshot.write_ids(table.ref)
    stays = _result(job, JobStatus.NOTHING_TO_DO, None if last is None else last.until)
    if last is not None and settled(write_ids) < last.until:
        # The feed is not really ahead of the table. The metastore's list of write IDs temporarily
        # ends too early (docs/decisions/reading.md). A later run continues the feed.
        return stays
    newest = {} if last is None else last.held
    had = None if last is None else frozenset(map(PartitionName.parse, last.births))
    query = read_changes.ChangeQuery(
        table=table,
        writes=replace(_writes(snapshot, table, since, spec.until), held=newest, had=had),
        columns=read_changes.known_columns(table, spec.columns or table.column_names),
        keys=keys,
        is_net=spec.is_net,
        where=spec.where,
        terms=job.text_terms(spec.parameters),
        pre_images=spec.pre_images,
    )
    contents = _rows(job, feed, last, snapshot, query, births=births)
    if contents is None:
        return stays
    changes, is_whole = contents
    begin, end = query.writes.part.since.high_watermark, query.writes.part.until.high_watermark
    directory = feed.new_directory(begin, job.terms.attempt.nonce)
    files = write_files(changes.rows, directory, read_changes.CHANGE_TYPE)
    if is_whole and not files:
        # This range tells the feed's consumers that the table is now empty.
        files = [write_no_rows(changes.rows, directory)]
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
        where=said(spec.where, spec.parameters),
        asked=_asked(job),
        held=dict(changes.held) if is_whole else {**newest, **changes.held},
        keys=keys,
    )
    job.terms.on_step("staged")
    sizes = {file.name: file.size_bytes for file in files}
    # A published range cannot be undone, so the guard first stops a killed or replaced job.
    uri = feed.publish(directory, note, sizes, guard=snapshot.confirm_alive)
    job.terms.on_step("published")
    # Even a range without rows is published, so that the next run does not search it again.
    status = JobStatus.COMMITTED if files else JobStatus.NOTHING_TO_DO
    return _result(job, status, end, note, uri)


def _with_left(result: JobResult, now: ValidWriteIdList) -> JobResult:
    """Say in a result which committed writes wait for an open write with a lower write ID."""
    number = unsettled(now)
    if not number:
        return result
    why = f"write ID {settled(now) + 1} is lower and still open; a later run writes them"
    return replace(result, details={**result.details, "left": {"versions": number, "why": why}})


def _writes(
    snapshot: ReadSnapshot, table: TableInfo, since: Version, until: Version | None
) -> WriteRange:
    """Return the writes of a range whose end can be the start of the next range.

    A lower write ID may be open while a higher one is committed, and the next range begins at a
    write ID. So this range ends below the open one, and is empty if that is below the start.
    """
    writes = read_changes.writes_between(snapshot, table, since, until)
    end = settled(writes.part.until)
    if end == writes.part.until.high_watermark:
        return writes
    is_empty = end < writes.part.since.high_watermark
    return read_changes.writes_between(snapshot, table, since, since if is_empty else end)


def _rows(  # noqa: PLR0913 - the query, and the facts about the feed and its table
    job: JobContext,
    feed: ChangeFeed,
    last: FeedNote | None,
    snapshot: ReadSnapshot,
    wanted: read_changes.ChangeQuery,
    *,
    births: Mapping[str, int],
) -> tuple[read_changes.FoundChanges, bool] | None:
    """Return the range's rows, and whether these are the whole table; None for an empty range."""
    spec = job.job_of(ChangeFeedSpec)
    is_empty = wanted.writes.part.until.high_watermark <= wanted.writes.part.since.high_watermark
    is_whole = last is None and spec.since is None
    try:
        if last is not None:
            _check_dropped(feed, last, births)
            _check_added(feed, last, births, snapshot)
        if is_empty:
            return None
        if not is_whole:
            return read_changes.changes_of(job.spark, snapshot, wanted), False
    except (ChangesGoneError, FeedError) as error:
        # A new range must end at a later version, so an empty one cannot become the whole table.
        if spec.when_gone is WhenGone.FAIL or is_empty:
            raise
        log.warning("writing the whole table as the range: %s", error)
    return read_changes.whole_of(job.spark, snapshot, wanted), True


def _own(feed: ChangeFeed, job: JobContext) -> FeedNote | None:
    """Return the range that this run has already written, or None.

    It was an earlier try, or the run was cleared or deleted: downstream tasks must then get the
    same range again. All ranges are searched, as other runs may have continued the feed.
    """
    own = feed.written_by(job.spec.job_key)
    if own is None:
        return None
    differing = differing_parts(own.asked, _asked(job)) if own.asked else ()
    if differing:
        raise ConfigurationError(
            f"{job.spec.job_key} has already written versions {own.since} to {own.until} of the"
            f" feed at {feed.location}, with a different {', '.join(differing)}. That range does"
            " not change: continue the feed in a run with another ID, or begin a feed at another"
            " location"
        )
    return own


def _asked(job: JobContext) -> dict[str, str]:
    """Return a digest of each argument that affects which changes are written, or how."""
    return {name: text for name, text in job.spec.statement.items() if name in _ASKED}


def _births(client: MetastorePort, table: TableInfo) -> dict[str, int]:
    if not table.is_partitioned:
        return {}
    births = client.partition_births(table, client.partition_names(table))
    return {str(name): born_s for name, born_s in births.items()}


def _check_same(feed: ChangeFeed, last: FeedNote, table: TableInfo, where: str | None) -> None:
    if last.table != str(table.ref):
        raise FeedError(location=feed.location, reason=f"it belongs to table {last.table}")
    if last.table_id != table.table_id:
        reason = f"table {table.ref} was dropped and created again since"
        raise FeedError(location=feed.location, reason=reason)
    if last.where != (where or ""):
        reason = f"it contains the rows of {table.ref} where {last.where or 'true'}, not where"
        raise FeedError(location=feed.location, reason=f"{reason} {where or 'true'}")


def _check_keys(feed: ChangeFeed, last: FeedNote, keys: tuple[str, ...]) -> None:
    """If the feed uses the primary key as its keys, check that this key has not changed.

    Other keys would pair other rows as updates, and a deleted row without old values contains only
    its keys, by which a consumer could not find it.
    """
    if {*last.keys} != {*keys}:
        old, new = (", ".join(names) or "none" for names in (last.keys, keys))
        raise ConfigurationError(
            f"the feed at {feed.location} uses the keys {old}, but the present primary key"
            f" of {last.table} is {new}. Nothing was written; choose the feed's keys with `keys`"
        )


def _check_dropped(feed: ChangeFeed, last: FeedNote, births: Mapping[str, int]) -> None:
    """Check that the table still has all partitions of the last range: a drop leaves no record."""
    dropped = [name for name, born_s in last.births.items() if births.get(name) != born_s]
    if dropped:
        raise FeedError(
            location=feed.location,
            reason=f"partition {dropped[0]} of {last.table} was dropped since version {last.until},"
            " and no file records which rows it contained",
        )


def _check_added(
    feed: ChangeFeed, last: FeedNote, births: Mapping[str, int], snapshot: ReadSnapshot
) -> None:
    """Check that added partitions have no older rows, which no later range would contain."""
    ref = TableRef.parse(last.table)
    table, write_ids = snapshot.tables[ref], snapshot.snapshot.write_ids(ref)
    added = [PartitionName.parse(name) for name in births if name not in last.births]
    partitions = snapshot.client.get_partitions(table, added) if added else ()
    listings = list_in_place(table, partitions)
    for info, listing in zip(partitions, listings, strict=True):
        state = resolve(listing, write_ids, snapshot.snapshot.txns, table.kind)
        if holds_older(state, WriteId(last.until)):
            raise FeedError(
                location=feed.location,
                reason=f"partition {info.name} of {last.table} was added after version"
                f" {last.until}, but contains older rows",
            )


def _result(
    job: JobContext,
    status: JobStatus,
    until: int | None,
    note: FeedNote | None = None,
    uri: str = "",
) -> JobResult:
    counts = {} if note is None else note.rows
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
        table=job.job_of(ChangeFeedSpec).target,
        rows=RowCounts(**{name: counts.get(kind.value, 0) for kind, name in _COUNTED.items()}),
        files=0 if note is None else len(note.files),
        size_bytes=0 if note is None else note.size_bytes,
        details={"ranges": ranges} if until is None else {"ranges": ranges, "until": until},
    )

"""Errors of versions: time travel, tags, restore and change feeds."""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.format.errors import tree

# A list of a million write IDs, or of ten thousand partitions, would fill logs and XComs.
_MOST_SHOWN: Final = 20


class VersionRangeError(tree.TableError):
    """A range of versions ends before it begins."""

    def __init__(self, *, table: object, since: int, until: int) -> None:
        self.since, self.until = since, until
        super().__init__(
            table=table,
            detail=f"there are no changes since version {since} until version {until}: the range"
            " ends before it begins. Give the earlier version as since",
        )


class VersionUnknownError(tree.TableError):
    """There is no such version or tag, or the time is before the table's creation or far ahead."""


class VersionDoubtfulError(tree.TableError):
    """It is unknown whether some writes were committed by the requested time.

    `doubtful` describes each of these writes. `before` is the newest version that contains none of
    them, or 0; `after` is the oldest version that contains them all.
    """

    def __init__(
        self, *, table: object, when: str, doubtful: tuple[str, ...], before: int, after: int
    ) -> None:
        self.when, self.doubtful, self.before, self.after = when, doubtful, before, after
        first = "; ".join(doubtful[:_MOST_SHOWN])
        more = len(doubtful) - _MOST_SHOWN
        without = f"version {before}, which excludes them, or " if before else ""
        super().__init__(
            table=table,
            detail=f"it is unknown which writes were committed at {when}: {first}"
            + (f"; and {more} more" if more > 0 else "")
            + f". Request {without}version {after}, which includes them",
        )


class TagTakenError(tree.TableError):
    """A tag with the requested name already exists for a different version."""

    def __init__(self, *, table: object, tag: str, stands_for: str) -> None:
        self.tag, self.stands_for = tag, stands_for
        super().__init__(
            table=table,
            detail=f"has a tag {tag!r} for {stands_for}; remove it first, or choose another name",
        )


class VersionNotSettledError(tree.TransactionError, tree.RetryableError):
    """A write at or below the version is still open, so the version's rows could change."""

    def __init__(self, *, table: object, version: int, write_id: int, who: str = "") -> None:
        self.table, self.version, self.write_id, self.who = str(table), version, write_id, who
        super().__init__(
            f"table {table}: version {version} is not settled, because write ID {write_id} is still"
            f" open{who and f': {who}'}. Retry when that write has ended"
            + (f", or request version {write_id - 1}" if write_id > 1 else "")
        )


class VersionNotYetError(tree.TransactionError, tree.RetryableError):
    """The requested time is still in the future according to the metastore's clock."""

    def __init__(self, *, table: object, when: str, now: str) -> None:
        self.table, self.when, self.now = str(table), when, now
        super().__init__(
            f"table {table}: has no state at {when} yet; by the metastore's clock it is {now}."
            " Retry after that time"
        )


class NotEnoughHistoryError(tree.StorageError, tree.RetryableError):
    """The snapshot is older than every remaining base.

    A compactor wrote the table's first base, and a write was open when the snapshot was taken. A
    base's name does not show which snapshots can read it, because Hive 3.1 and Trino could not
    parse such a name. The next try takes a new snapshot, which can read it.
    """

    def __init__(self, *, location: str, high_watermark: int, oldest_base: str) -> None:
        self.location, self.high_watermark, self.oldest_base = location, high_watermark, oldest_base
        super().__init__(
            f"{location}: not enough history for write ID {high_watermark}; the oldest remaining"
            f" base is {oldest_base}. Retry with a newer snapshot"
        )


class VersionGoneError(tree.StorageError):
    """A version cannot be read, because its files were deleted or cannot be proven complete.

    `oldest` is the oldest readable version, or 0 if it is unknown. `keeping_helps` is False if the
    files would also have been lost from a kept table.
    """

    retryable = False

    def __init__(
        self, *, table: object, what: str, oldest: int, why: str, keeping_helps: bool = True
    ) -> None:
        self.table, self.what, self.oldest, self.why = str(table), what, oldest, why
        self.keeping_helps = keeping_helps
        if oldest:
            gone = "compacted away" if keeping_helps else "incomplete"
            text = f"{what} is {gone}: the oldest readable version is {oldest} ({why})"
        else:
            text = f"{what} no longer exists ({why}). Request a later version, or the current state"
        if keeping_helps:
            advice = (
                "Old versions stay readable for the time in the table parameter"
                " hiveacid.readable.for, but only from the day when it is set. Set it with"
                f" `python -m airflow_hiveacid keep {table} --readable-for '7 days'` or"
                " readable_for of HiveAcidCreateTableOperator"
            )
        else:
            advice = (
                "No setting keeps the files of a dropped partition, nor files that were removed by"
                " hand or by TRUNCATE of Hive 3.1. Use TRUNCATE of this provider or of Hive 4 to"
                " empty a partition: that creates a version, so a restore can undo it"
            )
        super().__init__(f"table {table}: {text}. {advice}")


class ChangesGoneError(tree.StorageError):
    """The remaining files do not show the changes in a range of versions.

    All changes after version `oldest` can be read. `oldest` is 0 if no such version is known.
    """

    retryable = False

    def __init__(self, *, table: object, since: int, oldest: int, why: str) -> None:
        self.table, self.since, self.oldest, self.why = str(table), since, oldest, why
        start = f" The oldest version whose changes can be read is {oldest}." if oldest else ""
        super().__init__(
            f"the changes of {table} since version {since} are gone: {why}.{start} Read the"
            " whole table (a feed does so with when_gone='whole'), then the changes after that"
        )


class KeepingRefusedError(tree.TransactionError, tree.RetryableError):
    """A pending compaction may cause the removal of files that must be kept."""

    def __init__(self, *, table: object, waiting: str) -> None:
        self.table, self.waiting = str(table), waiting
        super().__init__(
            f"versions of table {table} cannot be kept yet, because an unfinished compaction may"
            f" cause the removal of files: {waiting}. Retry when the entry has ended"
        )


class FeedError(tree.StorageError):
    """A change feed cannot continue from its stored position; the user must restart the feed."""

    retryable = False

    def __init__(self, *, location: str, reason: str) -> None:
        self.location, self.reason = location, reason
        super().__init__(
            f"the feed at {location} cannot continue: {reason}. Remove the feed, or"
            " give another location, so that the feed starts again with the whole table"
        )


class FeedOvertakenError(tree.StorageError, tree.RetryableError):
    """A different process, such as an earlier try, advanced the change feed during this run."""

    def __init__(self, *, location: str) -> None:
        self.location = location
        super().__init__(
            f"another process wrote the range {location} during this run, so this run did not"
            " change it. Retry: if an earlier try wrote the range, the retry uses the range;"
            " otherwise the feed continues after the range. If the directory contains no"
            " _changes.json, the range is an unfinished write: remove the directory"
        )

"""Errors of versions: time travel, tags, restore and change feeds."""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.format.errors.tree import (
    RetryableError,
    StorageError,
    TableError,
    TransactionError,
)

# A list of a million write IDs, or of ten thousand partitions, would fill logs and XComs.
_MOST_SHOWN: Final = 20


class VersionRangeError(TableError):
    """A range of versions ends before it begins."""

    def __init__(self, *, table: object, since: int, until: int) -> None:
        self.since, self.until = since, until
        super().__init__(
            table=table,
            detail=f"there are no changes since version {since} until version {until}: the range"
            " ends before it begins. Give the earlier version as since",
        )


class VersionUnknownError(TableError):
    """The table has no such version, or the requested time is far in the future."""


class VersionDoubtfulError(TableError):
    """It is unknown whether some writes were committed by the requested time.

    `doubtful` describes each of these writes. `before` is the newest version without these writes,
    or 0 if there is no such version. `after` is the oldest version with all these writes.
    """

    def __init__(
        self, *, table: object, when: str, doubtful: tuple[str, ...], before: int, after: int
    ) -> None:
        self.when, self.doubtful, self.before, self.after = when, doubtful, before, after
        first = "; ".join(doubtful[:_MOST_SHOWN])
        more = len(doubtful) - _MOST_SHOWN
        without = f"version {before}, without them, or " if before else ""
        super().__init__(
            table=table,
            detail=f"what was committed at {when} is not known exactly: {first}"
            + (f"; and {more} more" if more > 0 else "")
            + f". Ask for {without}version {after}, with them",
        )


class TagTakenError(TableError):
    """A tag with the requested name already exists for a different version."""

    def __init__(self, *, table: object, tag: str, stands_for: str) -> None:
        self.tag, self.stands_for = tag, stands_for
        super().__init__(
            table=table,
            detail=f"has a tag {tag!r} for {stands_for}; remove it first, or choose another name",
        )


class VersionNotSettledError(TransactionError, RetryableError):
    """A write at or below the version is still open, so the version's rows could change."""

    def __init__(self, *, table: object, version: int, write_id: int, who: str = "") -> None:
        self.table, self.version, self.write_id, self.who = str(table), version, write_id, who
        super().__init__(
            f"table {table}: version {version} is not settled, because write ID {write_id} is still"
            f" open{who and f' ({who})'}; retry when that write has ended, or ask for version"
            f" {write_id - 1}"
        )


class VersionNotYetError(TransactionError, RetryableError):
    """The requested time is still in the future according to the metastore's clock.

    The metastore's clock may be behind Airflow's clock, which sets `data_interval_end`.
    """

    def __init__(self, *, table: object, when: str, now: str) -> None:
        self.table, self.when, self.now = str(table), when, now
        super().__init__(
            f"table {table}: has no state at {when} yet; by the metastore's clock it is {now}."
            " Retry when that time is over"
        )


class NotEnoughHistoryError(StorageError, RetryableError):
    """The snapshot is older than every remaining base.

    This happens at a table's first major compaction if a write was open when the snapshot was
    taken. A base's name does not show for which snapshots the base is valid, because Hive 3.1 and
    Trino could not parse such a name. The snapshot of the next try can read the base.
    """

    def __init__(self, *, location: str, high_watermark: int, oldest_base: str) -> None:
        self.location, self.high_watermark, self.oldest_base = location, high_watermark, oldest_base
        super().__init__(
            f"{location}: not enough history for write ID {high_watermark}; the oldest remaining"
            f" base is {oldest_base}. Read a newer snapshot"
        )


class VersionGoneError(StorageError):
    """A version cannot be read, because its files were deleted or cannot be proven complete.

    `oldest` is the oldest readable version, or 0 if it is unknown. `keeping_helps` is False if the
    files would have been removed from a table whose versions are kept, too.
    """

    def __init__(
        self, *, table: object, what: str, oldest: int, why: str, keeping_helps: bool = True
    ) -> None:
        self.table, self.what, self.oldest, self.why = str(table), what, oldest, why
        self.keeping_helps = keeping_helps
        if oldest:
            gone = "compacted away" if keeping_helps else "incomplete"
            text = f"{what} is {gone}: the oldest readable version is {oldest} ({why})"
        else:
            text = f"{what} is not there any more ({why}). Ask for a later one, or the present"
        if keeping_helps:
            advice = (
                "A table keeps its past for the time in its parameter hiveacid.readable.for,"
                " counted from the day on which it is set. Set it with `python -m airflow_hiveacid"
                f" keep {table} --readable-for '7 days'` or readable_for of"
                " HiveAcidCreateTableOperator"
            )
        else:
            advice = (
                "No setting keeps the files of a dropped partition, nor those that were removed"
                " by hand or by TRUNCATE of Hive 3.1. TRUNCATE of this provider or of Hive 4"
                " empties a partition and makes a version, so that a restore can undo it"
            )
        super().__init__(f"table {table}: {text}. {advice}")


class ChangesGoneError(StorageError):
    """The remaining files do not show the changes in a range of versions.

    `oldest` is the oldest version from which on changes can be read, or 0 if it is unknown.
    """

    def __init__(self, *, table: object, since: int, oldest: int, why: str) -> None:
        self.table, self.since, self.oldest, self.why = str(table), since, oldest, why
        told = f" The oldest version whose changes can be read is {oldest}." if oldest else ""
        super().__init__(
            f"the changes of {table} since version {since} are gone: {why}.{told} Read the table as"
            " a whole (a feed does so with when_gone='whole'), and its changes from there"
        )


class KeepingRefusedError(TransactionError, RetryableError):
    """A pending compaction may cause the removal of files that are to be kept."""

    def __init__(self, *, table: object, waiting: str) -> None:
        self.table, self.waiting = str(table), waiting
        super().__init__(
            f"table {table}: nothing is kept yet, because {waiting} and its cleaning may remove"
            " files; retry when it is done"
        )


class FeedError(StorageError):
    """A change feed cannot continue from its stored position; the user must restart the feed."""

    def __init__(self, *, location: str, reason: str) -> None:
        self.location, self.reason = location, reason
        super().__init__(
            f"the feed at {location} cannot continue: {reason}. Remove it, or give another"
            " location, and it starts with the table as a whole"
        )


class FeedOvertakenError(StorageError, RetryableError):
    """Another process, such as an earlier try, advanced the change feed during this run."""

    def __init__(self, *, location: str) -> None:
        self.location = location
        super().__init__(
            f"{location} was written by another process meanwhile, and was not touched. Retry: if"
            " this task wrote it, the retry finds that; otherwise the feed continues from there. If"
            " the directory has no _changes.json, it is an unfinished write: remove it"
        )

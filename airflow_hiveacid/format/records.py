"""Plain records that are stored in a table's directory or received from a metastore.

Versions are kept from the time when Hive's cleaner is disabled for the table and no cleaning is in
progress. From then on only our cleaner removes files, after a note of the versions that become
unreadable (a horizon). `Promises` returns each root's oldest version whose files are all kept.

Other programs can write ledger files, so `doubt_of` verifies that an entry's transaction and write
ID are allocated and committed in the metastore, and `is_twin` that another table's ledger agrees.
See docs/decisions/ledger.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from airflow_hiveacid.format.codec import stored_as
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.format.words import age_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBounds:
    """A time span from `after_s` to `by_s`, in seconds since 1970; None is an unknown bound."""

    after_s: float | None = None
    by_s: float | None = None

    def within(self, other: TimeBounds) -> TimeBounds:
        """Return the intersection of two spans."""
        starts = [s for s in (self.after_s, other.after_s) if s is not None]
        ends = [s for s in (self.by_s, other.by_s) if s is not None]
        return TimeBounds(after_s=max(starts, default=None), by_s=min(ends, default=None))

    @property
    def is_one(self) -> bool:
        """True if the span is not empty."""
        return self.after_s is None or self.by_s is None or self.after_s <= self.by_s

    def __str__(self) -> str:
        parts = []
        if self.after_s is not None:
            parts.append(f"after {time_text(self.after_s)}")
        if self.by_s is not None:
            parts.append(f"by {time_text(self.by_s)}")
        return " and ".join(parts) or "at an unknown time"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """The effect of one committed write by this provider on one table.

    `table_id` tells the table from an earlier one of the same name and location. `kind` names the
    statements. `directories` are relative to the table's location, so that a rename does not change
    them; others are URIs. `committed` contains the commit; `opened_s` is before the allocation of
    the write ID. `seen` is the table's write ID list in the writer's snapshot, in Hive's string
    form, taken between `seen_after_s` and `seen_by_s`; it is empty if the metastore did not return
    a time.
    """

    table_id: str
    write_id: WriteId
    txn_id: TxnId
    job_key: str
    attempt: str
    kind: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    directories: tuple[str, ...] = ()
    opened_s: float | None = None
    seen: str = ""
    seen_after_s: float = 0.0
    seen_by_s: float = 0.0
    committed: TimeBounds = field(default_factory=TimeBounds)


def time_text(seconds: float) -> str:
    """Format a time in UTC, to the millisecond.

    Example:
        >>> time_text(1.5)
        '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}.{moment.microsecond // 1000:03d}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """A note that versions of a partition below `write_id` are no longer kept.

    `at_s` is its time in seconds since 1970, `high_watermark` the highest transaction ID then.
    """

    partition: PartitionName
    write_id: WriteId
    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Files of a partition that were removed without a new version of the table.

    The cause is DROP PARTITION, TRUNCATE of Hive 3.1, or a removal by hand. Versions from `lowest`
    to `write_id` may have contained the files; later versions did not. `highest` is the highest
    write ID of the removed files. `names` are missing directories and original files of earlier
    notes; if empty, only versions up to `write_id` are unreadable.
    """

    partition: PartitionName
    write_id: WriteId
    lowest: WriteId
    highest: WriteId
    names: frozenset[str] = frozenset()

    def may_have_been_in(self, version: WriteId) -> bool:
        """Return whether a version may have contained the removed files."""
        return self.lowest <= version <= self.write_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The time from which a table's versions are kept, and the live files at that time.

    `roots` has the guarantee of each partition that existed. `last_entry_id` is the newest entry of
    the compaction queue at the start of keeping, or -1 if the queue was empty.
    """

    last_entry_id: int
    since_s: float
    roots: Mapping[PartitionName, Guarantee]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCompaction:
    """A compaction by us, after which the server may forget earlier aborted write IDs."""

    entry_id: int
    aborted: tuple[WriteId, ...] = ()


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class Promises:
    """All notes about the kept versions of a table."""

    keeping: Keeping | None = None
    horizons: tuple[Horizon, ...] = ()
    own: tuple[OwnCompaction, ...] = ()
    resets: tuple[Reset, ...] = ()
    has_ended: bool = False

    @property
    def aborted(self) -> frozenset[WriteId]:
        """The write IDs that were aborted, including those that the metastore has forgotten."""
        return frozenset(w for compaction in self.own for w in compaction.aborted)

    def is_broken(self, entry_ids: Collection[int]) -> bool:
        """Return True if nothing is kept, or a queue entry is another program's compaction."""
        if self.keeping is None or self.has_ended:
            return True
        ours = {compaction.entry_id for compaction in self.own}
        return any(i > self.keeping.last_entry_id and i not in ours for i in entry_ids)

    def of(self, partition: PartitionName) -> Guarantee | None:
        """Return one partition's guarantee, above its horizons and resets; None if none is kept."""
        if self.keeping is None or self.has_ended:
            return None
        # A partition that is not in `roots` was added after keeping began.
        guarantee = self.keeping.roots.get(partition, Guarantee(floor=WriteId(0)))
        floor = max(guarantee.floor, self._ends.get(partition, guarantee.floor))
        return Guarantee(floor=floor, evidence=guarantee.evidence)

    @cached_property
    def _ends(self) -> Mapping[PartitionName, WriteId]:
        """For each partition, the lowest version that no horizon or reset excludes."""
        floors: dict[PartitionName, WriteId] = {}
        ends = [(h.partition, h.write_id) for h in self.horizons]
        for partition, end in (*ends, *((r.partition, r.write_id + 1) for r in self.resets)):
            floors[partition] = WriteId(max(end, floors.get(partition, end)))
        return floors


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRoot:
    """The directory names and original files of one partition of a tagged version."""

    partition: PartitionName
    location: str
    names: frozenset[str]


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class Tag:
    """A named version whose files are kept until the tag is removed or expires.

    `write_ids` lists the version's visible write IDs, in Hive's string form. Without `expires_s`,
    it never expires. `is_sure` becomes True when the tag's creator has checked that no cleaner
    selected files of the tag before it was written.
    """

    name: str
    table_id: str
    write_ids: str
    made_s: float
    made_by: str = ""
    expires_s: float | None = None
    roots: tuple[TaggedRoot, ...] = field(default=())
    is_sure: bool = True

    @property
    def version(self) -> int:
        """The version number; for the state at a time, the newest write ID in that state."""
        return ValidWriteIdList.parse(self.write_ids).high_watermark

    def has_expired(self, now_s: float) -> bool:
        """Return whether the tag has expired, so that its files are no longer kept."""
        return self.expires_s is not None and self.expires_s <= now_s

    def root(self, partition: PartitionName) -> TaggedRoot | None:
        """Return the tag's entry for a partition; None if the tag has no such entry."""
        return self._by_name.get(partition)

    @cached_property
    def _by_name(self) -> Mapping[PartitionName, TaggedRoot]:
        return {root.partition: root for root in self.roots}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One attempt's change of one table, as recorded in the ledger.

    `statement` maps each part of the job description to a digest. `table_id` tells the table from
    an earlier one of the same name and location. `directories` are the URIs that the attempt
    publishes. `result` is the job's result as JSON text. The entry is kept for at least
    `retention_s` seconds after `recorded_s`, which is since 1970. Not stored: `is_legible` is False
    if the entry is damaged and only its owner is known, and `doubt` is why a confirmed entry is not
    trusted.
    """

    job_key: str
    generation: int
    attempt: AttemptId
    statement: Mapping[str, str]
    table_id: str
    txn_id: TxnId
    write_id: WriteId
    directories: tuple[str, ...]
    result: str
    recorded_s: float
    retention_s: float
    is_confirmed: bool = False
    is_legible: bool = field(default=True, metadata=stored_as(None))
    doubt: str = field(default="", metadata=stored_as(None))

    @property
    def when(self) -> str:
        """The time of recording as a string in UTC."""
        return datetime.fromtimestamp(self.recorded_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def is_twin(self, other: LedgerEntry) -> bool:
        """Return True if both are entries of one transaction, as its tables' ledgers have them.

        A damaged entry still counts, by the numbers in its file's name.
        """
        if (self.txn_id, self.generation) != (other.txn_id, other.generation):
            return False
        return self.result == other.result or not (self.is_legible and other.is_legible)


def doubt_of(entry: LedgerEntry, write_ids: ValidWriteIdList, txns: ValidTxnList) -> str:
    """Return why the metastore contradicts a confirmed entry; "" if they agree.

    A write ID stays visible after its rows are compacted, and after the table is truncated. In
    `write_ids`, the list of a reader's snapshot, the reader's own write ID must be open.
    """
    if entry.txn_id > txns.high_watermark:
        return _doubt(
            f"transaction {entry.txn_id}",
            f"has allocated transactions only up to {txns.high_watermark}",
        )
    if not txns.is_visible(entry.txn_id):
        state = "aborted" if txns.is_aborted(entry.txn_id) else "open"
        return _doubt(f"transaction {entry.txn_id}", f"lists it as {state}")
    if write_ids.is_visible(entry.write_id):
        return ""
    if entry.write_id <= write_ids.high_watermark:
        state = "aborted" if write_ids.is_aborted(entry.write_id) else "open"
        return _doubt(f"write ID {entry.write_id}", f"lists it as {state}")
    return _doubt(
        f"write ID {entry.write_id}",
        f"has allocated write IDs of the table only up to {write_ids.high_watermark}",
    )


def doubt_without_twins(tables: Iterable[object]) -> str:
    """Return why an entry is not trusted that these tables of its job lack; "" for no table."""
    names = ", ".join(map(str, tables))
    if not names:
        return ""
    return (
        "a job adds an entry to the ledger of each of its tables before it commits, but the ledger"
        f" of {names} has no entry of this transaction with the same result. Either that table was"
        " dropped and made again, or its entry has expired, or another program wrote the entry"
    )


def _doubt(what: str, why: str) -> str:
    return (
        f"the entry says that {what} was committed, but the metastore {why}. Either the metastore"
        " was restored from a backup that is older than the table's files (restore both to the same"
        " time before anything else is written), or another program wrote the entry"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSeen:
    """The time and transaction high watermark when a cleaner first saw a replacement directory."""

    high_watermark: TxnId
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An open transaction that may read the table, for the reason `why`.

    `job_key`, from its locks, identifies one of our jobs or a query of another engine.
    """

    txn_id: TxnId
    why: str = ""
    user: str = ""
    host: str = ""
    job_key: str = ""
    open_for_s: float | None = None

    def __str__(self) -> str:
        owner = "@".join(part for part in (self.user, self.host) if part)
        job = f"job {self.job_key}" if self.job_key else ""
        details = "; ".join(part for part in (owner, job, self.why) if part)
        age = "is open"
        if self.open_for_s is not None:
            age = f"has been open for {age_text(self.open_for_s)}"
        is_open = f"transaction {self.txn_id} {age} and may read it"
        return f"{is_open} ({details})" if details else is_open


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftUpload:
    """An unfinished upload to a path below the location."""

    path: str
    upload_id: str
    begun_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The table that a directory belongs to.

    `metastore` is the ID of its database. `table_id` tells the table from an earlier one of the
    same name. `is_checked` is False until a maintenance job has found that no other table of the
    metastore shares the directory.
    """

    metastore: str
    table: TableRef
    table_id: str
    is_checked: bool = False

    def __str__(self) -> str:
        return f"table {self.table} of the metastore {self.metastore}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file to rename; both paths are relative to the location of a table or partition."""

    location: str
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailures:
    """The number of jobs that failed since the last success, and what the last one reported.

    `job_key` is the last job, whose retries do not count again. `last_s` is the time of its
    failure, in seconds since 1970. `why` is its error.
    """

    count: int
    job_key: str
    last_s: float
    why: str

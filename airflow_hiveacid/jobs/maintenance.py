"""The specs of jobs that compact, clean, search, restore, rebalance, convert or feed a table."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.statements import Parameter

# The thresholds for compaction where neither a task nor a table sets one.
DELTA_COUNT: Final = 10
DELTA_RATIO: Final = 0.1

ABORTED_TRANSACTIONS: Final = 1000
"""The threshold for aborted transactions; the default of `hive.compactor.abortedtxn.threshold`."""


class Off(enum.StrEnum):
    """The value that switches a threshold off; None leaves the threshold to the table."""

    OFF = "off"


def check_not_all_off(
    delta_count: int | Off | None,
    delta_ratio: float | Off | None,
    also_when: Mapping[str, float | Off],
) -> None:
    """Raise a ConfigurationError if all thresholds of a compaction are off."""
    if {delta_count, delta_ratio, *also_when.values()} == {Off.OFF}:
        raise ConfigurationError(
            "delta_count and delta_ratio are both off, so hardly any table would need"
            " compaction; leave out one of them, or give it a value"
        )


class CompactionChoice(enum.Enum):
    """The requested kind of compaction.

    With QUEUED, the metastore's queue requests it: only partitions with a waiting request of
    another client are compacted, each as its request says.
    """

    AUTO = "auto"
    MINOR = "minor"
    MAJOR = "major"
    QUEUED = "queued"

    @property
    def insists(self) -> bool:
        """True if a blocked compaction fails the job; otherwise, a later job does it."""
        return self in (CompactionChoice.MINOR, CompactionChoice.MAJOR)


class AtEnd(enum.Enum):
    """What happens at the end of a job's window to the partitions that are running.

    With FINISH, they finish. With STOP, their transactions are aborted.
    """

    FINISH = "finish"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesSpec:
    """The tables of a maintenance job; a table or partition that fails does not stop the others.

    `tables` are names or patterns, such as `sales.orders` or `sales.*`. With `is_of_table`, it is
    one name: the result lists each partition of the table, and `partition` (`month=1`) limits the
    job. Otherwise the result has only what was due, by table. With `plan_only`, the job changes
    nothing.
    """

    tables: tuple[str, ...]
    partition: str | None = None
    is_of_table: bool = False
    plan_only: bool = False

    def __post_init__(self) -> None:
        """Refuse a pattern in place of the only table's name."""
        if self.is_of_table:
            TableRef.parse(self.target)

    @classmethod
    def of_table(cls, target: str, **fields: Any) -> Self:  # noqa: ANN401 - other fields of the spec
        """Return the spec of a job of one table."""
        return cls(tables=(target,), is_of_table=True, **fields)

    @property
    def target(self) -> str:
        """The name of the only table with `is_of_table`; else all `tables`, for messages."""
        return ", ".join(self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSpec(TablesSpec):
    """Compact transactional tables, each partition in its own transaction.

    If a needed compaction is blocked, MINOR and MAJOR fail, and AUTO and QUEUED only report the
    reason in their result. AUTO compacts from `delta_count` delta directories on, from deltas of
    `delta_ratio` times the size of the base on, or when a threshold in `also_when`
    (`plan.thresholds.ALSO_WHEN`) is reached. `plan.compaction_policy` says what applies if a
    threshold is None or missing.

    `max_bytes` limits the input of all compactions of the job. The partitions with the highest
    score (`CompactionPlan.score`) come first, or with QUEUED the oldest requests; the others remain
    for a later job. With QUEUED, `pools` are the pools whose requests are served; None means all.
    From `until_s` on (seconds since 1970), the job starts no partition, and `at_end` says what
    happens to the running ones. What is committed stays, and the job succeeds.
    """

    choice: CompactionChoice = CompactionChoice.AUTO
    delta_count: int | Off | None = None
    delta_ratio: float | Off | None = None
    also_when: Mapping[str, float | Off] = field(default_factory=dict)
    max_bytes: int | None = None
    pools: tuple[str, ...] | None = None
    until_s: float | None = None
    at_end: AtEnd = AtEnd.FINISH

    def __post_init__(self) -> None:
        """Refuse a job whose thresholds are all off, and what `TablesSpec` refuses."""
        TablesSpec.__post_init__(self)  # a class with slots has no super() here
        check_not_all_off(self.delta_count, self.delta_ratio, self.also_when)

    def serves(self, pool: str | None) -> bool:
        """Return whether a job with QUEUED serves the requests of a pool."""
        return self.pools is None or pool in self.pools


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSpec(TablesSpec):
    """Remove obsolete directories, aborted directories, and staging directories of crashed writers.

    `retention_s` is how long a replaced directory is kept. `orphan_age_s` is the minimum age of a
    staging directory to remove. `unknown_age_s` is the minimum age of an unknown file to remove;
    None means that unknown files are only listed.
    """

    retention_s: float = 0.0
    orphan_age_s: float = 86400.0
    unknown_age_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveErasureSpec:
    """Prove that no file of a table stores a row that satisfies a condition.

    `locations` are URIs of more directories to search. `parameters` are the parameters in `where`.
    """

    target: str
    where: str
    locations: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSpec:
    """Restore the rows that a table had at a version, with one overwrite.

    `version` is `VersionSpec.text`. Partitions without rows at that version become empty. Unchanged
    partitions are not rewritten. The job fails if a partition was dropped after the version, or if
    the version is unreadable. With `plan_only`, the job changes nothing.
    """

    target: str
    version: str
    plan_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSpec:
    """Spread the rows of a table or one partition (`month=1`) evenly, with one overwrite.

    Each partition gets `buckets` files. If `buckets` is None, the size determines the number of
    files. `order_by` are the columns by which the rows of a partition are sorted, ascending, across
    its files. With `plan_only`, the job changes nothing.
    """

    target: str
    partition: str | None = None
    buckets: int | None = None
    order_by: tuple[str, ...] = ()
    plan_only: bool = False


class ConversionTarget(enum.Enum):
    """The kind of table that a conversion creates."""

    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"
    FLAT = "flat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSpec:
    """Make a flat table transactional, or a transactional table flat; keep its rows."""

    target: str
    to: ConversionTarget
    plan_only: bool = False


class WhenGone(enum.Enum):
    """The reaction of a feed to unreadable changes: fail, or write the whole table."""

    FAIL = "fail"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeedSpec:
    """Write a table's changes since the feed's last range; each range gets its own directory.

    `target` is the table that is read, and `location` is the URI of the feed. If `keys` is None,
    the feed uses the table's primary key. If `columns` is empty, the feed contains all columns. If
    `is_net`, the feed leaves out rows that are inserted and deleted within a range. With
    `pre_images`, the feed includes old values. The first range has the changes after `since`,
    or the whole table if `since` is None. `until` is the last version. By default, `until` is the
    newest version that no open write can change. `since` and `until` are `VersionSpec.text`. If the
    changes can no longer be read and `when_gone` is WHOLE, the range contains the whole table.
    `parameters` are the parameters in `where`.
    """

    target: str
    location: str
    keys: tuple[str, ...] | None = None
    is_net: bool = False
    columns: tuple[str, ...] = ()
    where: str | None = None
    since: str | None = None
    until: str | None = None
    pre_images: bool = True
    when_gone: WhenGone = WhenGone.FAIL
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

"""Tables that define which of two jobs can commit, and which operations the jobs record.

Input is a conflict policy, a metastore generation and the operations of two jobs. Output is the
guaranteed outcome if they *meet*: each began before the other committed, and both write to the same
partition or unpartitioned table. Locks, recorded changes and detected conflicts all follow these
tables.

Example:
    >>> meeting = Meeting(earlier=WriteKind.INSERT, later=WriteKind.INSERT)
    >>> outcome(ConflictPolicy.STRICT, MetastoreGeneration.V4, meeting)
    <ConflictOutcome.FAILS: 'E'>
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockType,
    MetastoreGeneration,
    lock_type_for,
    recorded_as,
)
from airflow_hiveacid.format.errors import ConfigurationError

POLICY_PROPERTY: Final = "hiveacid.conflict.policy"
"""The table property that selects a table's conflict policy."""


class ConflictPolicy(enum.Enum):
    """HIVE is Hive's own rule. With STRICT, the second of two writers to a partition fails."""

    HIVE = "hive"
    STRICT = "strict"


class WriteKind(enum.Enum):
    """The kind of a job's change: TRUNCATE is an OVERWRITE; UPDATE, DELETE, MERGE a CHANGE."""

    OVERWRITE = "overwrite"
    INSERT = "insert"
    CHANGE = "change"
    MINOR = "minor"
    MAJOR = "major"


class ConflictOutcome(enum.Enum):
    """The outcome when two jobs meet. The "earlier" job is the job that ends first.

    REPLACES: both succeed, and the later job's rows replace the earlier job's. FAILS: the later job
    fails, and none of its changes are visible. NO_EFFECT: neither affects the other; a later
    compaction does nothing, but a requested and needed one fails with a retryable error. COMPACTS:
    both succeed, and the later one is a compaction that publishes its result. BOTH: both succeed,
    and the changes of both are visible.
    """

    REPLACES = "W"
    FAILS = "E"
    NO_EFFECT = "N"
    COMPACTS = "C"
    BOTH = "B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Two jobs that meet, in the order in which the jobs end."""

    earlier: WriteKind
    later: WriteKind


def _cells(*rows: str) -> Mapping[Meeting, ConflictOutcome]:
    """Parse a printed table: earlier jobs by row, later ones by column, as in WriteKind."""
    return {
        Meeting(earlier=earlier, later=later): ConflictOutcome(letter)
        for earlier, row in zip(WriteKind, rows, strict=True)
        for later, letter in zip(WriteKind, row.split(), strict=True)
    }


# MaxCompute documents these outcomes in "Manage transactions".
_STRICT: Final = _cells(
    "W E E E E",
    "W E E C E",
    "W E E C E",
    "W N N E C",
    "W N N E E",
)
# If two compactions of one partition meet, the second finds nothing to do.
_HIVE: Final = _cells(
    "W B B N N",
    "W B B C C",
    "W B E C C",
    "W N N N N",
    "W N N N N",
)
# On Hive 3.1, two jobs that change one partition need incompatible locks, so the second waits and
# sees the first's changes. On Hive 4, both run, and only the first commit succeeds.
_QUEUE_UP: Final = Meeting(earlier=WriteKind.CHANGE, later=WriteKind.CHANGE)
_TABLES: Final[
    Mapping[tuple[ConflictPolicy, MetastoreGeneration], Mapping[Meeting, ConflictOutcome]]
] = {
    (ConflictPolicy.HIVE, MetastoreGeneration.V3): {**_HIVE, _QUEUE_UP: ConflictOutcome.BOTH},
    (ConflictPolicy.HIVE, MetastoreGeneration.V4): _HIVE,
    (ConflictPolicy.STRICT, MetastoreGeneration.V3): _STRICT,
    (ConflictPolicy.STRICT, MetastoreGeneration.V4): _STRICT,
}

_I, _U, _D = DataOperation.INSERT, DataOperation.UPDATE, DataOperation.DELETE
# A metastore rejects the second of two concurrent transactions that recorded an update of one
# partition, whatever rows they changed. So all that must conflict is recorded as an update.
_RECORDED: Final[Mapping[ConflictPolicy, Mapping[DataOperation, DataOperation]]] = {
    ConflictPolicy.HIVE: {},
    ConflictPolicy.STRICT: {_I: _U, _D: _U},
}
# On Hive 3.1, shared write locks wait for each other, so STRICT requests shared read locks: both
# jobs run, but only the first commit succeeds, as it checks every commit. A Hive 4 metastore does
# not check commits of Hive's own updates, so there our shared write lock, compatible with others of
# ours, makes these updates wait.
_LOCKS: Final[
    Mapping[tuple[ConflictPolicy, MetastoreGeneration], Mapping[DataOperation, LockType]]
] = {
    (ConflictPolicy.HIVE, MetastoreGeneration.V3): {},
    (ConflictPolicy.HIVE, MetastoreGeneration.V4): {},
    (ConflictPolicy.STRICT, MetastoreGeneration.V3): dict.fromkeys((_U, _D), LockType.SHARED_READ),
    (ConflictPolicy.STRICT, MetastoreGeneration.V4): {},
}


def outcome(
    policy: ConflictPolicy, generation: MetastoreGeneration, meeting: Meeting
) -> ConflictOutcome:
    """Return the guaranteed outcome when two jobs meet."""
    return _TABLES[policy, generation][meeting]


def lock_under(
    policy: ConflictPolicy, generation: MetastoreGeneration, operation: DataOperation
) -> LockType:
    """Return the lock to request before this operation on a transactional table."""
    return _LOCKS[policy, generation].get(operation) or lock_type_for(operation)


def recorded_under(policy: ConflictPolicy, operation: DataOperation) -> DataOperation:
    """Return the operation that a job records to let the metastore detect conflicts at commit."""
    return _RECORDED[policy].get(operation) or recorded_as(operation)


def write_kind_of(operations: Collection[DataOperation]) -> WriteKind:
    """Combine all operations of a job on one partition into one kind of job.

    Example:
        >>> write_kind_of({DataOperation.INSERT, DataOperation.UPDATE})
        <WriteKind.CHANGE: 'change'>
    """
    if DataOperation.OVERWRITE in operations:
        return WriteKind.OVERWRITE
    return WriteKind.CHANGE if {_U, _D}.intersection(operations) else WriteKind.INSERT


def looks_for_rivals(policy: ConflictPolicy, doing: WriteKind) -> bool:
    """Return whether a job must check for conflicts that the metastore does not detect.

    At commit, it detects recorded changes since the transaction was opened, but no earlier ones,
    and no compactions and inserts by other engines.
    """
    if policy is ConflictPolicy.HIVE:
        return False
    return any(
        outcome(policy, generation, Meeting(earlier=earlier, later=doing)) is ConflictOutcome.FAILS
        for generation in MetastoreGeneration
        for earlier in WriteKind
    )


def chosen_policy(
    argument: ConflictPolicy | None,
    parameters: Mapping[str, str],
    connection: ConflictPolicy,
    *,
    table: object,
) -> ConflictPolicy:
    """Return the policy from the argument, else from the table, else from the connection.

    Raises ConfigurationError if the table property does not contain a valid policy.
    """
    if argument is not None:
        return argument
    text = parameters.get(POLICY_PROPERTY)
    if text is None:
        return connection
    try:
        return ConflictPolicy(text.strip().lower())
    except ValueError:
        policies = ", ".join(policy.value for policy in ConflictPolicy)
        raise ConfigurationError(
            f"table {table}: {POLICY_PROPERTY} is {text!r}; set it to one of {policies}"
        ) from None

"""Lookup tables: which locks wait for each other, which commits conflict, and which job can commit.

The metastore applies these rules; this provider uses them to request locks, and to predict and
check the outcome of two jobs.

Input is a conflict policy, a metastore generation and the operations of two jobs. Output is the
guaranteed outcome if they *meet*: each began before the other committed, and both write to the same
partition or unpartitioned table. Locks, recorded changes and detected conflicts all follow these
tables.

Example:
    >>> lock_type_for(DataOperation.UPDATE)
    <LockType.SHARED_WRITE: 'shared_write'>
    >>> may_share(LockType.SHARED_WRITE, LockType.SHARED_WRITE, MetastoreGeneration.V3)
    False
    >>> meeting = Meeting(earlier=WriteKind.INSERT, later=WriteKind.INSERT)
    >>> outcome(ConflictPolicy.STRICT, MetastoreGeneration.V4, meeting)
    <ConflictOutcome.FAILS: 'E'>
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self, cast

from airflow_hiveacid.format.errors import ConfigurationError, MetastoreVersionError


class ServerEnum(enum.Enum):
    """Base class of the enumerations whose values a metastore sends.

    A newer server's unknown value becomes an object that shows it and differs from every member.

    Example:
        >>> LockType.received("blue").value, LockType.received("blue").is_known
        ('blue', False)
    """

    @classmethod
    def received(cls, value: str) -> Self:
        """Return the member with this value, or an object that only shows the value."""
        try:
            return cls(value)
        except ValueError:
            return cast("Self", _unknown(cls, value))

    @property
    def is_known(self) -> bool:
        """False if only a newer server has this value."""
        return type(self).__members__.get(self.name) is self

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        # By default, unpickling calls the class, which refuses an unknown value.
        return type(self).received, (self.value,)


@lru_cache  # equal values are one object, as for members
def _unknown(cls: type[ServerEnum], value: str) -> ServerEnum:
    member = object.__new__(cls)
    member._name_, member._value_ = value, value
    return member


class MetastoreGeneration(enum.Enum):
    """The generation of a server: V3 is Hive 3.1, V4 is Hive 4."""

    V3 = "3"
    V4 = "4"


class DataOperation(enum.Enum):
    """An operation on a table or partition; a MERGE counts as an UPDATE."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    OVERWRITE = "overwrite"


class LockType(ServerEnum):
    """The type of a lock, from shared to exclusive; only V4 has EXCL_WRITE."""

    SHARED_READ = "shared_read"
    SHARED_WRITE = "shared_write"
    EXCL_WRITE = "excl_write"
    EXCLUSIVE = "exclusive"


class LockLevel(enum.Enum):
    """The kind of a locked object; the lock also covers all objects inside that object."""

    DB = "db"
    TABLE = "table"
    PARTITION = "partition"


class LockState(ServerEnum):
    """The metastore's answer to a lock request.

    ABORT: its transaction is aborted or unknown. NOT_ACQUIRED: it was not to wait.
    """

    ACQUIRED = "acquired"
    WAITING = "waiting"
    ABORT = "abort"
    NOT_ACQUIRED = "not_acquired"


_R, _W = LockType.SHARED_READ, LockType.SHARED_WRITE
_XW, _X = LockType.EXCL_WRITE, LockType.EXCLUSIVE

# The locks of DbTxnManager.acquireLocks in Hive 3.1, also on V4: with EXCL_WRITE, which Hive 4
# requests for updates if hive.txn.xlock.write is set, updates would wait for each other; without,
# only the first commit succeeds, as commit_txn checks for conflicts if exclWriteEnabled is false.
# An overwrite requests EXCLUSIVE: an insert by Hive holds only SHARED_READ, and could otherwise run
# at the same time and lose its rows.
_LOCK_TYPES: Final[Mapping[DataOperation, LockType]] = {
    DataOperation.SELECT: _R,
    DataOperation.INSERT: _R,
    DataOperation.UPDATE: _W,
    DataOperation.DELETE: _W,
    DataOperation.OVERWRITE: _X,
}

# For each requested lock type, the held lock types that do not block the request
# (TxnHandler.checkLock; LockTypeComparator).
_COMPATIBLE: Final[Mapping[MetastoreGeneration, Mapping[LockType, frozenset[LockType]]]] = {
    MetastoreGeneration.V3: {
        _R: frozenset({_R, _W}),
        _W: frozenset({_R}),
        _X: frozenset(),
    },
    MetastoreGeneration.V4: {
        _R: frozenset({_R, _W, _XW}),
        _W: frozenset({_R, _W}),
        _XW: frozenset({_R}),
        _X: frozenset(),
    },
}

# Pairs of operations that conflict: if two concurrent transactions record them for one partition,
# in the table WRITE_SET, the metastore rejects the second commit.
_U, _D = DataOperation.UPDATE, DataOperation.DELETE
_CONFLICTS: Final[Mapping[MetastoreGeneration, frozenset[tuple[DataOperation, DataOperation]]]] = {
    MetastoreGeneration.V3: frozenset({(_U, _U), (_U, _D), (_D, _U)}),
    MetastoreGeneration.V4: frozenset({(_U, _U), (_U, _D), (_D, _U), (_D, _D)}),
}


def lock_type_for(operation: DataOperation) -> LockType:
    """Return the lock to request before this operation on a transactional table."""
    return _LOCK_TYPES[operation]


def may_share(
    requested: LockType,
    held: LockType,
    generation: MetastoreGeneration,
    *,
    requested_level: LockLevel = LockLevel.TABLE,
    held_level: LockLevel = LockLevel.TABLE,
) -> bool:
    """Return whether a transaction can get `requested` while another transaction holds `held`.

    A read lock on a database and an exclusive lock on a table do not block each other, in either
    order (TxnHandler.ignoreConflict). A held type that is unknown, or that the generation lacks, is
    incompatible: a distribution may have added it. Raises MetastoreVersionError if the generation
    lacks the requested type.
    """
    table = _COMPATIBLE[generation]
    if requested not in table:
        raise MetastoreVersionError(
            f"a metastore of Hive {generation.value} has no {requested.name} lock; use Hive 4"
        )
    pair = {(requested, requested_level), (held, held_level)}
    if (_R, LockLevel.DB) in pair and (_X, LockLevel.TABLE) in pair:
        return True
    return held in table[requested]


def recorded_as(operation: DataOperation) -> DataOperation:
    """Return the operation type to record in the metastore; overwrites are recorded as updates."""
    return DataOperation.UPDATE if operation is DataOperation.OVERWRITE else operation


def conflict(mine: DataOperation, theirs: DataOperation, generation: MetastoreGeneration) -> bool:
    """Return whether a commit fails because a different transaction committed first.

    Both must have written to the same partition, and the other must have committed after `mine` was
    opened. V4 checks only if the commit request states that the transaction held no exclusive write
    lock.
    """
    return (recorded_as(mine), recorded_as(theirs)) in _CONFLICTS[generation]


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
    """Parse rows for earlier, columns for later jobs: OVERWRITE, INSERT, CHANGE, MINOR, MAJOR."""
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
_TWO_CHANGES: Final = Meeting(earlier=WriteKind.CHANGE, later=WriteKind.CHANGE)
# If two compactions of one partition meet, the second finds nothing to do.
_HIVE: Final = _cells(
    "W B B N N",
    "W B B C C",
    "W B E C C",
    "W N N N N",
    "W N N N N",
)


def outcome(
    policy: ConflictPolicy, generation: MetastoreGeneration, meeting: Meeting
) -> ConflictOutcome:
    """Return the guaranteed outcome when two jobs meet.

    On Hive 3.1, two jobs that change one partition need incompatible locks, so with HIVE the second
    waits and sees the first's changes. On Hive 4, both run, and only the first commit succeeds.
    """
    if policy is ConflictPolicy.STRICT:
        return _STRICT[meeting]
    is_queue = generation is MetastoreGeneration.V3 and meeting == _TWO_CHANGES
    return ConflictOutcome.BOTH if is_queue else _HIVE[meeting]


def lock_under(
    policy: ConflictPolicy, generation: MetastoreGeneration, operation: DataOperation
) -> LockType:
    """Return the lock to request before this operation on a transactional table.

    On Hive 3.1, shared write locks wait for each other, so STRICT requests shared read locks: both
    jobs run, but only the first commit succeeds, as Hive 3.1 checks every commit. A Hive 4
    metastore does not check commits of Hive's own updates, so there our shared write lock,
    compatible with others of ours, makes these updates wait.
    """
    is_strict = policy is ConflictPolicy.STRICT and generation is MetastoreGeneration.V3
    return _R if is_strict and operation in {_U, _D} else lock_type_for(operation)


def recorded_under(policy: ConflictPolicy, operation: DataOperation) -> DataOperation:
    """Return the operation that a job records to let the metastore detect conflicts at commit.

    A metastore rejects the second of two concurrent transactions that recorded an update of one
    partition, whatever rows they changed. So STRICT records all changes as updates.
    """
    is_strict = policy is ConflictPolicy.STRICT and operation in {DataOperation.INSERT, _D}
    return _U if is_strict else recorded_as(operation)


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

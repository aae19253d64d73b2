"""Who may commit beside whom, as two tables of 25 cells, and what is told the metastore for it.

Takes a policy, a generation of metastores and what two jobs do; gives the outcome that is promised.
Two jobs meet if both began before either committed, and both write the same partition, or the same
table without partitions. Must not know how an outcome is brought about: locks are asked for
(`metastore.locks`), changes recorded and rivals looked for (`spark.writing`, `spark.maintenance`)
by what these tables say, nowhere by a case of its own.

Example:
    >>> meeting = Meeting(earlier=Doing.INSERT, later=Doing.INSERT)
    >>> outcome(ConflictPolicy.STRICT, MetastoreGeneration.V4, meeting)
    <Outcome.FAILS: 'E'>
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockType,
    MetastoreGeneration,
    lock_type_for,
    recorded_as,
)
from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

POLICY_PROPERTY: Final = "hiveacid.conflict.policy"
"""The table property that says which policy holds for a table."""


class ConflictPolicy(enum.Enum):
    """HIVE does as Hive does; with STRICT the second of two writers of a partition fails."""

    HIVE = "hive"
    STRICT = "strict"


class Doing(enum.Enum):
    """What a job does to a table, as far as others are concerned.

    OVERWRITE is a truncate, too. CHANGE is an update, a delete, or a merge.
    """

    OVERWRITE = "overwrite"
    INSERT = "insert"
    CHANGE = "change"
    MINOR = "minor"
    MAJOR = "major"


class Outcome(enum.Enum):
    """What becomes of two jobs that meet, of which the earlier is the first to end.

    REPLACES: both succeed, and the later one's rows replace the earlier one's. FAILS: the later one
    fails, and nothing of it is seen. NO_EFFECT: both succeed, and neither changes what the other
    does. COMPACTS: both succeed, the later one is a compaction and goes through. BOTH: both
    succeed, and what both have done is there.
    """

    REPLACES = "W"
    FAILS = "E"
    NO_EFFECT = "N"
    COMPACTS = "C"
    BOTH = "B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Two jobs, by the order in which they end."""

    earlier: Doing
    later: Doing


def _cells(*rows: str) -> Mapping[Meeting, Outcome]:
    """A table as it is printed: the earlier one down, the later one across, in Doing's order."""
    return {
        Meeting(earlier=earlier, later=later): Outcome(letter)
        for earlier, row in zip(Doing, rows, strict=True)
        for later, letter in zip(Doing, row.split(), strict=True)
    }


# What "Manage transactions" of MaxCompute promises.
_STRICT: Final = _cells(
    "W E E E E",
    "W E E C E",
    "W E E C E",
    "W N N E C",
    "W N N E E",
)
# Compactors of one partition step back for each other: the second has nothing to do.
_HIVE: Final = _cells(
    "W B B N N",
    "W B B C C",
    "W B E C C",
    "W N N N N",
    "W N N N N",
)
# On 3.1 two that change rows of a partition lock each other out, so that the second sees what the
# first has done. On 4.x both are at work, and the first to commit wins.
_QUEUE_UP: Final = Meeting(earlier=Doing.CHANGE, later=Doing.CHANGE)
_TABLES: Final[Mapping[tuple[ConflictPolicy, MetastoreGeneration], Mapping[Meeting, Outcome]]] = {
    (ConflictPolicy.HIVE, MetastoreGeneration.V3): {**_HIVE, _QUEUE_UP: Outcome.BOTH},
    (ConflictPolicy.HIVE, MetastoreGeneration.V4): _HIVE,
    (ConflictPolicy.STRICT, MetastoreGeneration.V3): _STRICT,
    (ConflictPolicy.STRICT, MetastoreGeneration.V4): _STRICT,
}

_I, _U, _D = DataOperation.INSERT, DataOperation.UPDATE, DataOperation.DELETE
# Of two recorded updates of a partition that overlap a metastore lets the first commit, whatever
# they are: so whatever has to fail is one.
_RECORDED: Final[Mapping[ConflictPolicy, Mapping[DataOperation, DataOperation]]] = {
    ConflictPolicy.HIVE: {},
    ConflictPolicy.STRICT: {_I: _U, _D: _U},
}
# On 3.1 a shared write waits for another one. Without it both are at work, and the metastore, which
# asks there at every commit, Hive's too, lets the first win. On 4.x it is what keeps Hive's own
# updates away, at whose commit nobody asks; and two of ours go together.
_LOCKS: Final[
    Mapping[tuple[ConflictPolicy, MetastoreGeneration], Mapping[DataOperation, LockType]]
] = {
    (ConflictPolicy.HIVE, MetastoreGeneration.V3): {},
    (ConflictPolicy.HIVE, MetastoreGeneration.V4): {},
    (ConflictPolicy.STRICT, MetastoreGeneration.V3): dict.fromkeys((_U, _D), LockType.SHARED_READ),
    (ConflictPolicy.STRICT, MetastoreGeneration.V4): {},
}


def outcome(policy: ConflictPolicy, generation: MetastoreGeneration, meeting: Meeting) -> Outcome:
    """What is promised of two jobs that meet."""
    return _TABLES[policy, generation][meeting]


def lock_under(
    policy: ConflictPolicy, generation: MetastoreGeneration, operation: DataOperation
) -> LockType:
    """The lock to ask for before doing this to a transactional table."""
    return _LOCKS[policy, generation].get(operation) or lock_type_for(operation)


def recorded_under(policy: ConflictPolicy, operation: DataOperation) -> DataOperation:
    """The operation that the metastore is told, by which it finds conflicts at a commit."""
    return _RECORDED[policy].get(operation) or recorded_as(operation)


def doing_of(operations: Collection[DataOperation]) -> Doing:
    """What a writer does who does all of these to one partition.

    Example:
        >>> doing_of({DataOperation.INSERT, DataOperation.UPDATE})
        <Doing.CHANGE: 'change'>
    """
    if DataOperation.OVERWRITE in operations:
        return Doing.OVERWRITE
    return Doing.CHANGE if {_U, _D}.intersection(operations) else Doing.INSERT


def looks_for_rivals(policy: ConflictPolicy, doing: Doing) -> bool:
    """Whether somebody's commit can make this fail although the metastore lets it commit.

    Its own look, at the commit, knows changes that were recorded since the transaction was opened.
    It knows no compactions, no inserts of other engines, and nothing that was committed before a
    transaction that began anew.
    """
    if policy is ConflictPolicy.HIVE:
        return False
    return any(
        outcome(policy, generation, Meeting(earlier=earlier, later=doing)) is Outcome.FAILS
        for generation in MetastoreGeneration
        for earlier in Doing
    )


def chosen_policy(
    argument: ConflictPolicy | None,
    parameters: Mapping[str, str],
    connection: ConflictPolicy,
    *,
    table: object,
) -> ConflictPolicy:
    """The policy that holds: the argument's, else the table's own, else the connection's.

    Raises:
        ConfigurationError: the table's property names none.
    """
    if argument is not None:
        return argument
    text = parameters.get(POLICY_PROPERTY)
    if text is None:
        return connection
    try:
        return ConflictPolicy(text.strip().lower())
    except ValueError:
        known = ", ".join(policy.value for policy in ConflictPolicy)
        raise ConfigurationError(
            f"table {table}: {POLICY_PROPERTY} is {text!r}; it is one of {known}"
        ) from None

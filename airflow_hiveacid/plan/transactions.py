"""Decides which statements a transaction can contain, and in which order.

All writes of a transaction to a table have one write ID. Readers distinguish its statements by the
statement IDs of their deltas, but the `base_<write ID>` of an overwrite has none. Readers ignore
every delta up to the base's write ID, even of the same transaction (Hive's AcidUtils.getAcidState,
Trino's AcidTables). So rows that a later statement adds to the overwritten partition would be
invisible, and only another overwrite may follow there.

Example:
    >>> overwrite = Step(table="db.t", replaces=True, partition=None)
    >>> check_order([Step(table="db.t", replaces=False, partition=None), overwrite])
    >>> check_order([overwrite, overwrite])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Final

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    SharedTargetError,
    StatementOrderError,
)
from airflow_hiveacid.format.ids import MAX_STATEMENT_ID
from airflow_hiveacid.jobs.statements import (
    InsertMode,
    InsertSpec,
    LoadSpec,
    MultiInsertSpec,
    StatementSpec,
    TruncateSpec,
    each,
)

MOST_STATEMENTS: Final = MAX_STATEMENT_ID + 1
"""The maximum number of statements in a transaction that row IDs can distinguish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The properties of a statement that restrict later statements in its transaction.

    `partition` is None if the statement may write several partitions; otherwise it identifies the
    only one, and is equal for two steps on it. `together` is the position of the multi-insert to
    which the step belongs, if any; its steps have no order.
    """

    table: str
    replaces: bool
    partition: Hashable
    together: int | None = None


@contextmanager
def numbered(number: int, count: int) -> Iterator[None]:
    """Add a statement's 1-based number to an error if its transaction has several statements."""
    try:
        yield
    except Exception as error:
        if count > 1:
            error.add_note(f"in statement {number} of the transaction")
        raise


def check_order(steps: Sequence[Step]) -> None:
    """Raise an error if readers could not distinguish the statements of a transaction.

    Raises:
        StatementOrderError: a change follows an overwrite of the same partition or table.
        ConfigurationError: the transaction has no statement, or too many for distinct row IDs.
    """
    if not 0 < len(steps) <= MOST_STATEMENTS:
        raise ConfigurationError(
            f"a transaction has 1 to {MOST_STATEMENTS} statements, found {len(steps)}"
        )
    _check_together(steps)
    overwrites: list[tuple[int, Step]] = []
    for number, step in enumerate(steps, start=1):
        if step.replaces:
            overwrites.append((number, step))
            continue
        for position, overwrite in overwrites:
            if _may_overlap(overwrite, step):
                raise StatementOrderError(table=step.table, statement=number, overwriting=position)


def _check_together(steps: Sequence[Step]) -> None:
    for together, group in groupby(steps, key=lambda step: step.together):
        if together is None:
            continue
        inserts = list(enumerate(group, start=1))
        for (earlier_number, earlier), (number, step) in combinations(inserts, 2):
            if (earlier.replaces or step.replaces) and _may_overlap(earlier, step):
                raise SharedTargetError(table=step.table, statement=number, other=earlier_number)


def _may_overlap(one: Step, other: Step) -> bool:
    are_apart = (
        one.partition is not None
        and other.partition is not None
        and one.partition != other.partition
    )
    return one.table == other.table and not are_apart


def steps_of(statements: Sequence[StatementSpec | MultiInsertSpec]) -> list[Step]:
    """Return the steps of statements; the definitions of their tables are not known yet.

    If two statements name a partition each, the function assumes that the partitions are different.
    """
    return [
        Step(
            table=statement.target.lower(),
            replaces=_replaces(statement),
            partition=(position, nth) if _names_partition(statement) else None,
            together=position if isinstance(part, MultiInsertSpec) else None,
        )
        for position, part in enumerate(statements)
        for nth, statement in enumerate(each(part))
    ]


def _replaces(statement: StatementSpec) -> bool:
    match statement:
        case InsertSpec(mode=mode):
            return mode is InsertMode.OVERWRITE
        case LoadSpec(overwrite=overwrite):
            return overwrite
        case _:
            return isinstance(statement, TruncateSpec)


def _names_partition(statement: StatementSpec) -> bool:
    match statement:
        case InsertSpec() | TruncateSpec() | LoadSpec():
            return bool(statement.partition)
        case _:
            return False

"""Which statements one transaction can hold, in which order: a decision over plain values.

All that a transaction writes to a table has one write ID. Readers tell several statements apart by
the statement ID of their deltas, but `base_<write ID>`, which an overwrite makes, has none: it
covers every delta up to its write ID, those of the same transaction too (AcidUtils.getAcidState;
so does Trino's AcidTables). What comes before an overwrite is replaced by it, as it should be; what
comes after it in the same place could not be seen. Only another overwrite can follow.

Example:
    >>> overwrite = Step(table="db.t", replaces=True, partition=None)
    >>> check_order([Step(table="db.t", replaces=False, partition=None), overwrite])
    >>> check_order([overwrite, overwrite])
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, groupby
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.bucket_codec import MAX_STATEMENT_ID
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    SharedTargetError,
    StatementOrderError,
)
from airflow_hiveacid.jobs.loading import LoadSpec
from airflow_hiveacid.jobs.specs import InsertMode, InsertSpec, MultiInsertSpec, TruncateSpec, each

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from airflow_hiveacid.jobs.specs import StatementSpec

MOST_STATEMENTS: Final = MAX_STATEMENT_ID + 1
"""As many as the identity of a row can tell apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a statement is to the others of its transaction.

    `partition` is the only one that it writes, in a form that is equal for equal partitions; None
    where it may write several. Steps of one multi-insert have its place in `together`: they are in
    no order.
    """

    table: str
    replaces: bool
    partition: Hashable
    together: int | None = None


def check_order(steps: Sequence[Step]) -> None:
    """Refuse statements that readers could not tell apart.

    Raises:
        StatementOrderError: a change follows an overwrite in the same place.
        SharedTargetError: two of one multi-insert write the same place, and one overwrites it.
        ConfigurationError: there are none, or more than can be told apart.
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
        for before, overwrite in overwrites:
            if _may_meet(overwrite, step):
                raise StatementOrderError(table=step.table, statement=number, overwriting=before)


def _check_together(steps: Sequence[Step]) -> None:
    for together, found in groupby(steps, key=lambda step: step.together):
        if together is None:
            continue
        inserts = list(enumerate(found, start=1))
        for (other, one), (number, step) in combinations(inserts, 2):
            if (one.replaces or step.replaces) and _may_meet(one, step):
                raise SharedTargetError(table=step.table, statement=number, other=other)


def _may_meet(one: Step, other: Step) -> bool:
    are_apart = (
        one.partition is not None
        and other.partition is not None
        and one.partition != other.partition
    )
    return one.table == other.table and not are_apart


def steps_of(statements: Sequence[StatementSpec | MultiInsertSpec]) -> list[Step]:
    """What can be said of statements before their tables are known.

    Where two name partitions, these may be different ones.
    """
    return [
        Step(
            table=one.target.lower(),
            replaces=_replaces(one),
            partition=(place, nth) if _names_partition(one) else None,
            together=place if isinstance(part, MultiInsertSpec) else None,
        )
        for place, part in enumerate(statements)
        for nth, one in enumerate(each(part))
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

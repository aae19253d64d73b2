"""The writers' changes, drawn from a seed, each as a job and as a model of it.

A change is drawn once and stays the same in every try. Two rules make the order of write IDs a
serial order that a model can replay. Only one change ever inserts an ID, and an update or delete
picks IDs of changes that were confirmed before it was drawn. A row's new value depends on the old
one and on the change, so a change that is applied twice, half, or in another order is detected.

Example:
    >>> plan = draw(Random(1), number=7, confirmed=())
    >>> rows: Rows = {}
    >>> plan.apply(rows)
    >>> all(row_id // SPAN == 7 for row_id in rows)
    True
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, assert_never

from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance import RebalanceSpec
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    UpdateSpec,
)

SPAN: Final = 1000
"""The number of IDs that belong to one change: from its number times this."""

PARTITIONS: Final = 4
"""A row of the partitioned table is in the partition of its ID modulo this."""

_MODULUS: Final = 1_000_003
_GONE: Final = 7  # a merge deletes a matched row if this divides its source value
_RECENT: Final = 12  # the latest changes, from which later ones pick rows
_COLUMNS: Final = ("id", "v", "job")

Rows = dict[int, tuple[int, str]]
"""A table's rows: ID to value and the number of the change that wrote it last."""


class Table(enum.Enum):
    """The campaign's two tables."""

    PARTED = "parted"
    BUCKETED = "bucketed"


class Action(enum.Enum):
    """The kind of a change."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    REBALANCE = "rebalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Rows of one confirmed change: those with an ID of `remainder` modulo `divisor`."""

    number: int
    divisor: int
    remainder: int

    def holds(self, row_id: int) -> bool:
        return row_id // SPAN == self.number and row_id % self.divisor == self.remainder

    @property
    def where(self) -> str:
        low = self.number * SPAN
        return f"id >= {low} AND id < {low + SPAN} AND id % {self.divisor} = {self.remainder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One change.

    `fresh` are new rows as ID and value; a merge also has `known` rows. UPDATE and DELETE have a
    `choice`, OVERWRITE of a partitioned table has a `partition`. REBALANCE has one, too, and the
    number of `files` that it writes there; it changes no row.
    """

    number: int
    table: Table
    action: Action
    fresh: tuple[tuple[int, int], ...] = ()
    known: tuple[tuple[int, int], ...] = ()
    choice: Choice | None = None
    partition: int | None = None
    files: int = 0

    def apply(self, rows: Rows) -> None:
        """Change a model as the job changes the table."""
        match self.action:
            case Action.INSERT:
                self._add(rows)
            case Action.OVERWRITE:
                _remove(rows, [i for i in rows if self._replaces(i)])
                self._add(rows)
            case Action.UPDATE:
                for row_id in self._chosen(rows):
                    rows[row_id] = self._changed(rows[row_id][0], self.number)
            case Action.DELETE:
                _remove(rows, self._chosen(rows))
            case Action.MERGE:
                self._merge(rows)
            case Action.REBALANCE:
                pass
            case _:
                assert_never(self.action)

    def job(self, db: str) -> Job:
        """Return the job that makes the change."""
        target = f"{db}.{self.table.value}"
        match self.action:
            case Action.INSERT:
                return InsertSpec(target=target, source=self._source(), columns=self._columns)
            case Action.OVERWRITE:
                return self._overwrite(target)
            case Action.UPDATE:
                assignments = {
                    "v": f"(v * 3 + {self.number}) % {_MODULUS}",
                    "job": f"'{self.number}'",
                }
                return UpdateSpec(target=target, set=assignments, where=self._where)
            case Action.DELETE:
                return DeleteSpec(target=target, where=self._where)
            case Action.MERGE:
                return self._merge_spec(target)
            case Action.REBALANCE:
                # A partition with an order is always due.
                return RebalanceSpec(
                    target=target,
                    partition=f"p={self.partition}",
                    buckets=self.files,
                    order_by=("id",),
                )
            case _:
                assert_never(self.action)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*_COLUMNS, "p") if self.table is Table.PARTED else _COLUMNS

    @property
    def _where(self) -> str:
        return self.choice.where if self.choice else "false"

    def _chosen(self, rows: Rows) -> list[int]:
        return [i for i in rows if self.choice is not None and self.choice.holds(i)]

    def _replaces(self, row_id: int) -> bool:
        return self.partition is None or row_id % PARTITIONS == self.partition

    def _changed(self, value: int, by: int) -> tuple[int, str]:
        return (value * 3 + by) % _MODULUS, str(self.number)

    def _add(self, rows: Rows) -> None:
        for row_id, value in self.fresh:
            rows[row_id] = (value, str(self.number))

    def _merge(self, rows: Rows) -> None:
        for row_id, value in self.known:
            if row_id not in rows:
                continue
            if value % _GONE == 0:
                del rows[row_id]
            else:
                rows[row_id] = self._changed(rows[row_id][0], value)
        self._add(rows)

    def _values(self, row_id: int, value: int) -> tuple[str | int, ...]:
        row = (row_id, value, str(self.number))
        return (*row, row_id % PARTITIONS) if self.table is Table.PARTED else row

    def _source(self) -> SourceSpec:
        values = tuple(self._values(*row) for row in self.fresh)
        return SourceSpec(values=values, columns=self._columns)

    def _overwrite(self, target: str) -> InsertSpec:
        static = {} if self.partition is None else {"p": str(self.partition)}
        values = tuple(self._values(*row)[: len(_COLUMNS)] for row in self.fresh)
        return InsertSpec(
            target=target,
            source=SourceSpec(values=values, columns=_COLUMNS),
            mode=InsertMode.OVERWRITE,
            columns=_COLUMNS,
            partition=static,
        )

    def _merge_spec(self, target: str) -> MergeSpec:
        values = (
            *((*self._values(*row), 0) for row in self.known),
            *((*self._values(*row), 1) for row in self.fresh),
        )
        changed = {"v": f"(t.v * 3 + s.v) % {_MODULUS}", "job": "s.job"}
        gone = f"s.v % {_GONE} = 0"
        return MergeSpec(
            target=target,
            source=SourceSpec(values=values, columns=(*self._columns, "fresh")),
            keys=("id", "p") if self.table is Table.PARTED and self.number % 2 else ("id",),
            clauses=(
                MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition=gone),
                MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set=changed),
                MergeClause(
                    when=MergeWhen.NOT_MATCHED,
                    action=MergeAction.INSERT,
                    condition="s.fresh = 1",
                    set={name: f"s.{name}" for name in self._columns},
                ),
            ),
        )


_WEIGHTS: Final = {
    Action.INSERT: 40,
    Action.UPDATE: 20,
    Action.DELETE: 12,
    Action.MERGE: 20,
    Action.OVERWRITE: 8,
    Action.REBALANCE: 6,
}


def draw(random: Random, *, number: int, confirmed: Sequence[Plan]) -> Plan:
    """Draw a change; `confirmed` are the committed ones, in the order of their answers.

    The same seed draws the same change if the answers come in the same order.
    """
    table = Table.PARTED if random.random() < 0.6 else Table.BUCKETED
    action = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    earlier = [p for p in confirmed if p.table is table and p.fresh][-_RECENT:]
    is_impossible = action is Action.REBALANCE and table is Table.BUCKETED
    if is_impossible or (action is not Action.OVERWRITE and not earlier):
        action = Action.INSERT
    if action is Action.OVERWRITE:
        return _draw_overwrite(random, number, table)
    if action is Action.REBALANCE:
        partition, files = random.randrange(PARTITIONS), random.randint(1, 3)
        return Plan(number=number, table=table, action=action, partition=partition, files=files)
    if action in {Action.UPDATE, Action.DELETE}:
        divisor = random.choice((2, 3, 5) if action is Action.UPDATE else (3, 4, 5))
        choice = Choice(
            number=random.choice(earlier).number,
            divisor=divisor,
            remainder=random.randrange(divisor),
        )
        return Plan(number=number, table=table, action=action, choice=choice)
    fresh = _fresh(random, number, range(random.randint(8, 40)))
    known: tuple[tuple[int, int], ...] = ()
    if action is Action.MERGE:
        ids = [row_id for plan in random.choices(earlier, k=2) for row_id, _ in plan.fresh]
        picked = sorted(random.sample(sorted(set(ids)), k=min(len(set(ids)), 15)))
        known = tuple((row_id, random.randrange(1, _MODULUS)) for row_id in picked)
    return Plan(number=number, table=table, action=action, fresh=fresh, known=known)


def _remove(rows: Rows, ids: Sequence[int]) -> None:
    for row_id in ids:
        del rows[row_id]


def _draw_overwrite(random: Random, number: int, table: Table) -> Plan:
    partition = random.randrange(PARTITIONS) if table is Table.PARTED else None
    step, first = (PARTITIONS, partition or 0) if table is Table.PARTED else (1, 0)
    places = range(first, first + step * random.randint(5, 20), step)
    fresh = _fresh(random, number, places)
    return Plan(
        number=number, table=table, action=Action.OVERWRITE, fresh=fresh, partition=partition
    )


def _fresh(random: Random, number: int, places: range) -> tuple[tuple[int, int], ...]:
    return tuple((number * SPAN + place, random.randrange(_MODULUS)) for place in places)

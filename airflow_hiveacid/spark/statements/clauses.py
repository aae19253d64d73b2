"""The choice of a statement's clause for each row, and the new row that the clause computes.

The clauses see a frame with exactly the columns that they may use (`t`, `s` or both). The clause
for a row is chosen once, and a column keeps its number for all later steps, so one clause never
selects a row that another computes, even if a condition is non-deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.format.table import Column as TableColumn
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.statements import MergeAction
from airflow_hiveacid.plan.statements.dml import Clause
from airflow_hiveacid.reading.request import free_name
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment, Resolved, condition, resolved
from airflow_hiveacid.spark.engine.types import struct_of
from airflow_hiveacid.spark.reading.events import partition_key
from airflow_hiveacid.spark.reading.target import Target, whole_rows
from airflow_hiveacid.spark.statements.expressions import (
    allowed,
    is_unchanged,
    row_struct,
    stored,
    unchanged,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperNames:
    """The names of helper columns; they differ from all columns of the table and the source."""

    position: str
    source_row: str
    clause: str

    @classmethod
    def beside(cls, *columns: Sequence[str]) -> HelperNames:
        """Return helper names that differ from all these columns."""
        return cls(
            position=free_name("position", *columns),
            source_row=free_name("source_row", *columns),
            clause=free_name("clause", *columns),
        )

    @property
    def all(self) -> tuple[str, ...]:
        """All helper names."""
        return self.position, self.source_row, self.clause


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyClause:
    """A clause with expressions that were checked against a frame and cast.

    `holds` and `values` are columns made from `expressions`. `written` are the values of a written
    row. These values raise an error if the table does not allow the row.
    """

    number: int
    action: MergeAction
    holds: Column
    values: Mapping[str, Column]
    written: Mapping[str, Column]
    expressions: Sequence[Resolved]

    @property
    def uses(self) -> frozenset[int]:
        """The positions of the frame's columns that the clause uses."""
        return frozenset[int]().union(*[expression.uses for expression in self.expressions])

    @property
    def is_deterministic(self) -> bool:
        """True if the clause gives the same result for a row every time."""
        return all(expression.is_deterministic for expression in self.expressions)

    @property
    def is_repeatable(self) -> bool:
        """True if the clause is deterministic, and its result does not depend on a subquery."""
        return self.is_deterministic and not any(
            expression.has_subquery for expression in self.expressions
        )


def ready(
    table: TableInfo,
    sees: DataFrame,
    clauses: Sequence[tuple[int, Clause]],
    moment: Moment,
    *,
    from_text: bool = False,
) -> tuple[ReadyClause, ...]:
    """Check numbered clauses; they may use only the columns of the frame `sees`."""
    texts = [
        text
        for _, clause in clauses
        for text in (
            clause.condition or "true",
            *clause.assignments.values(),
            *(is_unchanged(table, name) for name in clause.unchanged),
        )
    ]
    expressions = iter(resolved(table, sees, texts, moment))
    result = []
    for number, clause in clauses:
        holds = next(expressions)
        values = {name: next(expressions) for name in clause.assignments}
        equalities = {name: next(expressions) for name in clause.unchanged}
        assigned = {
            name: stored(sees.sparkSession, table, name, value, from_text=from_text)
            for name, value in values.items()
        }
        result.append(
            ReadyClause(
                number=number,
                action=clause.action,
                holds=condition(table, clause.condition or "true", holds),
                values=assigned,
                written=unchanged(
                    table, allowed(sees.sparkSession, table, assigned, values, moment), equalities
                ),
                expressions=(holds, *values.values(), *equalities.values()),
            )
        )
    return tuple(result)


def brought(table: TableInfo, clauses: Sequence[Clause]) -> tuple[TableColumn, ...]:
    """Return the data columns that a statement's clauses write: all for an inserted row."""
    if any(clause.action is MergeAction.INSERT for clause in clauses):
        return table.columns
    names = frozenset[str]().union(*[clause.assignments for clause in clauses])
    # Spark and Arrow need a struct with at least one field.
    return tuple(c for c in table.columns if c.name in names) or table.columns[:1]


def scanned(
    target: Target, needed: Sequence[str], names: HelperNames, clauses: Sequence[Clause]
) -> DataFrame:
    """Scan the target as `t`: all columns, in order (NULL if not needed), and the position."""
    changes = any(clause.action is not MergeAction.INSERT for clause in clauses)
    rows = target.scan(needed, position=names.position, for_changes=changes)
    return whole_rows(target.table, rows, names.position)


def acted_on(  # noqa: PLR0913 - the rows, the clauses, and the form of the result
    table: TableInfo,
    rows: DataFrame,
    clauses: Sequence[ReadyClause],
    names: HelperNames,
    *,
    columns: Sequence[TableColumn],
    positions: Sequence[Column] = (),
) -> DataFrame:
    """For each row, return the number of the clause that applies, and the clause's new row.

    The first clause with a true condition applies. `columns` are those of the new rows (`brought`).
    `positions` are those of `Target.position_columns`; empty for new rows. Source row numbers are
    kept.

    Returns:
        `_clause` is NULL if no clause applies. `row` is NULL if no row is written. Inserts also
        contain `_partition`.
    """
    chosen = rows.select("*", _first(clauses).alias(names.clause))
    number = F.col(names.clause)
    writing = [c for c in clauses if c.action is not MergeAction.DELETE]
    extra_columns = [number.alias("_clause")]
    if names.source_row in rows.columns:
        extra_columns.append(F.col(names.source_row))
    extra_columns.extend(positions)
    if not positions:
        keys = [
            (c, partition_key(table, [c.written[p.name] for p in table.partition_columns]))
            for c in writing
        ]
        extra_columns.append(
            _of_chosen(number, keys, F.lit(None).cast("string")).alias("_partition")
        )
    new_rows = [(c, row_struct(columns, c.written)) for c in writing]
    none = F.lit(None).cast(struct_of(columns))
    return chosen.select(*extra_columns, _of_chosen(number, new_rows, none).alias("row"))


def _first(clauses: Sequence[ReadyClause]) -> Column:
    choice = F.lit(None).cast("int")
    for clause in reversed(clauses):
        choice = F.when(clause.holds, F.lit(clause.number)).otherwise(choice)
    return choice


def _of_chosen(
    number: Column, values: Sequence[tuple[ReadyClause, Column]], otherwise: Column
) -> Column:
    result = otherwise
    for clause, value in values:
        result = F.when(number == F.lit(clause.number), value).otherwise(result)
    return result

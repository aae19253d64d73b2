"""The clauses of a statement over the rows that they see: which one acts, and the row it makes.

Takes a frame that holds exactly what a clause may name (`t`, `s` or both) and the clauses as text;
gives columns for any frame that has more beside it. A clause is chosen once for a row and its
number kept in a column; what happens then goes by that number, so that a condition that would not
say the same twice cannot choose one clause and fill in the row of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.jobs.specs import MergeAction
from airflow_hiveacid.spark.checked import condition, resolved
from airflow_hiveacid.spark.events import partition_key
from airflow_hiveacid.spark.names import free_name
from airflow_hiveacid.spark.reading.target import whole_rows
from airflow_hiveacid.spark.statements.constraints import allowed
from airflow_hiveacid.spark.statements.expressions import row_struct, stored
from airflow_hiveacid.spark.types import struct_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.format.table import Column as TableColumn
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.plan.statements import Clause
    from airflow_hiveacid.spark.catalyst import Moment, Resolved
    from airflow_hiveacid.spark.reading.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What helper columns are called: nothing that a column of the table or the source is called.

    Expressions cannot name them in any case (see `spark.catalyst`); with a name of their own they
    also stand beside any user's column.
    """

    place: str
    source_row: str
    clause: str

    @classmethod
    def beside(cls, *columns: Sequence[str]) -> Names:
        """Names that none of these columns has."""
        return cls(
            place=free_name("place", *columns),
            source_row=free_name("source_row", *columns),
            clause=free_name("clause", *columns),
        )

    @property
    def all(self) -> tuple[str, ...]:
        """Each of them."""
        return self.place, self.source_row, self.clause


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyClause:
    """A clause whose expressions have been checked and cast, over the rows of one frame.

    `holds` and `values` are columns, `expressions` what they were made of. `written` are the values
    of a row that is written: an error if the table does not allow it.
    """

    number: int
    action: MergeAction
    holds: Column
    values: Mapping[str, Column]
    written: Mapping[str, Column]
    expressions: Sequence[Resolved]

    @property
    def uses(self) -> frozenset[int]:
        """The positions of the frame's columns that it names."""
        return frozenset[int]().union(*[one.uses for one in self.expressions])

    @property
    def is_deterministic(self) -> bool:
        """Whether it says the same of a row every time."""
        return all(one.is_deterministic for one in self.expressions)

    @property
    def is_repeatable(self) -> bool:
        """The same, and asks no query, which may say one thing now and another thing then."""
        return self.is_deterministic and not any(one.has_subquery for one in self.expressions)


def ready(
    table: TableInfo,
    sees: DataFrame,
    clauses: Sequence[tuple[int, Clause]],
    moment: Moment,
    *,
    from_text: bool = False,
) -> tuple[ReadyClause, ...]:
    """Check numbered clauses over what they see.

    Raises:
        InputError: see `expressions.resolved`, `expressions.condition`, `expressions.stored`,
            `constraints.allowed`.
    """
    texts = [t for _, c in clauses for t in (c.condition or "true", *c.assignments.values())]
    found = iter(resolved(table, sees, texts, moment))
    result = []
    for number, clause in clauses:
        holds = next(found)
        values = {name: next(found) for name in clause.assignments}
        given = {
            name: stored(sees.sparkSession, table, name, value, from_text=from_text)
            for name, value in values.items()
        }
        result.append(
            ReadyClause(
                number=number,
                action=clause.action,
                holds=condition(table, clause.condition or "true", holds),
                values=given,
                written=allowed(sees.sparkSession, table, given, values, moment),
                expressions=(holds, *values.values()),
            )
        )
    return tuple(result)


def brought(table: TableInfo, clauses: Sequence[Clause]) -> tuple[TableColumn, ...]:
    """The data columns that rows have which some clauses write: all of a statement's.

    A new row has every column, a changed one those that are assigned: of thousands of columns, the
    others would travel as so many NULLs.
    """
    if any(clause.action is MergeAction.INSERT for clause in clauses):
        return table.columns
    names = frozenset[str]().union(*[clause.assignments for clause in clauses])
    # Spark and Arrow like no struct without fields.
    return tuple(c for c in table.columns if c.name in names) or table.columns[:1]


def scanned(target: Target, needed: Sequence[str], names: Names) -> DataFrame:
    """A scan as `t`: every column of the table, in its order, and the place; only some are read.

    The others are NULL here (`whole_rows`).
    """
    rows = target.scan(needed, place=names.place)
    return whole_rows(target.table, rows, names.place)


def acted_on(  # noqa: PLR0913 - which rows, what acts on them, and what becomes of them
    table: TableInfo,
    rows: DataFrame,
    clauses: Sequence[ReadyClause],
    names: Names,
    *,
    columns: Sequence[TableColumn],
    places: Sequence[Column] = (),
) -> DataFrame:
    """Rows with the number of the clause that acts on each, `_clause`, and the row that it makes.

    Args:
        table: the table.
        rows: what the clauses see, with helpers beside it.
        clauses: in order; the first that holds acts.
        names: of the helpers; the source row's comes along if the rows have it.
        columns: that the new rows have (`brought`).
        places: where the rows are (`Target.place_fields`); none of new ones.

    Returns:
        `_clause` is NULL where none holds; `row` is NULL unless a row is written. Inserts have
        `_partition` too.
    """
    chosen = rows.select("*", _first(clauses).alias(names.clause))
    number = F.col(names.clause)
    writing = [c for c in clauses if c.action is not MergeAction.DELETE]
    beside = [number.alias("_clause")]
    if names.source_row in rows.columns:
        beside.append(F.col(names.source_row))
    beside.extend(places)
    if not places:
        keys = [
            (c, partition_key(table, [c.written[p.name] for p in table.partition_columns]))
            for c in writing
        ]
        beside.append(_of_chosen(number, keys, F.lit(None).cast("string")).alias("_partition"))
    made = [(c, row_struct(columns, c.written)) for c in writing]
    none = F.lit(None).cast(struct_of(columns))
    return chosen.select(*beside, _of_chosen(number, made, none).alias("row"))


def _first(clauses: Sequence[ReadyClause]) -> Column:
    """The number of the first clause that holds, or NULL."""
    found = F.lit(None).cast("int")
    for clause in reversed(clauses):
        found = F.when(clause.holds, F.lit(clause.number)).otherwise(found)
    return found


def _of_chosen(
    number: Column, values: Sequence[tuple[ReadyClause, Column]], otherwise: Column
) -> Column:
    """The value of the clause with this number."""
    result = otherwise
    for clause, value in values:
        result = F.when(number == F.lit(clause.number), value).otherwise(result)
    return result

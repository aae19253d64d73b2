"""MERGE, UPDATE and DELETE as events.

Takes a target (its live files under one snapshot) and a statement; gives `Events`. `MergeProgram`
and `ChangeProgram` are made first, from schemas alone: everything that can be wrong with a
statement is found there, before a transaction is opened.

Only the columns that keys, conditions and expressions name are read from the target. The source is
read once and kept (`localCheckpoint`): if an executor dies with its part, the job fails instead of
reading a source that may have changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.jobs.specs import DeleteSpec, MergeAction, MergeSpec, MergeWhen, UpdateSpec
from airflow_hiveacid.plan.statements import Clause, resolve_merge, resolve_update
from airflow_hiveacid.spark.events import (
    IDENTITY,
    Events,
    delete_events,
    grouped,
    insert_events,
    partition_key,
    with_no_old_row,
)
from airflow_hiveacid.spark.rows import named_columns, row_struct, stored, type_of
from airflow_hiveacid.spark.target import Target, empty_target, place
from airflow_hiveacid.spark.writers import spread, writers_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hiveacid.format.table import TableInfo

_SOURCE_ROW = "__source_row"
_BROADCAST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyClause:
    """A clause whose expressions have been checked and cast."""

    clause: Clause
    values: Mapping[str, Column]

    @property
    def holds(self) -> Column:
        """Its condition; a clause without one always holds."""
        return F.expr(self.clause.condition) if self.clause.condition else F.lit(True)

    @property
    def texts(self) -> tuple[str, ...]:
        """Every expression as text, for finding the columns that it names."""
        condition = (self.clause.condition,) if self.clause.condition else ()
        return (*condition, *self.clause.assignments.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeProgram:
    """A checked MERGE: it can be turned into events for any snapshot of its target."""

    table: TableInfo
    keys: tuple[str, ...]
    condition: str | None
    clauses: tuple[ReadyClause, ...]

    def of(self, when: MergeWhen) -> tuple[tuple[int, ReadyClause], ...]:
        """The clauses for one kind of row, with their numbers, in order."""
        return tuple((i, c) for i, c in enumerate(self.clauses) if c.clause.when is when)

    @property
    def needed(self) -> tuple[str, ...]:
        """Target columns that must be read."""
        texts = [t for c in self.clauses for t in c.texts]
        return _needed(self.table, [*texts, *self.keys, self.condition or ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProgram:
    """A checked UPDATE or DELETE."""

    table: TableInfo
    clause: ReadyClause

    @property
    def needed(self) -> tuple[str, ...]:
        """Target columns that must be read."""
        return _needed(self.table, self.clause.texts)


def plan_merge(
    spark: SparkSession, table: TableInfo, spec: MergeSpec, source: DataFrame
) -> MergeProgram:
    """Check a MERGE against the schemas of target and source.

    Raises:
        InputError: see `plan.statements.resolve_merge` and `spark.rows.stored`.
    """
    clauses = resolve_merge(table, spec, source.columns)
    target = empty_target(spark, table)
    pairs = target.alias("t").crossJoin(source.alias("s"))
    sees = {
        MergeWhen.MATCHED: pairs,
        MergeWhen.NOT_MATCHED: source.alias("s"),
        MergeWhen.NOT_MATCHED_BY_SOURCE: target.alias("t"),
    }
    if spec.condition:
        type_of(pairs, table, spec.condition)
    from_text = spec.source.values is not None
    return MergeProgram(
        table=table,
        keys=tuple(k.lower() for k in spec.keys),
        condition=spec.condition,
        clauses=tuple(_ready(spark, sees[c.when], table, c, from_text=from_text) for c in clauses),
    )


def plan_change(
    spark: SparkSession, table: TableInfo, spec: UpdateSpec | DeleteSpec
) -> ChangeProgram:
    """Check an UPDATE or DELETE against the target's schema.

    Raises:
        InputError: see `plan.statements.resolve_update` and `spark.rows.stored`.
    """
    clause = (
        resolve_update(table, spec)
        if isinstance(spec, UpdateSpec)
        else Clause(
            when=MergeWhen.MATCHED,
            action=MergeAction.DELETE,
            condition=spec.where,
            assignments={},
        )
    )
    sees = empty_target(spark, table).alias("t")
    return ChangeProgram(table=table, clause=_ready(spark, sees, table, clause))


def change_events(program: ChangeProgram, target: Target) -> Events:
    """The events of an UPDATE or DELETE."""
    reach = target.where(program.clause.clause.condition)
    rows = reach.scan(program.needed).alias("t").where(program.clause.holds)
    changed = rows.select(
        *place("t"),
        F.lit(0).alias("_clause"),
        row_struct(program.table, program.clause.values).alias("row"),
    ).localCheckpoint()
    events = delete_events(changed)
    if program.clause.clause.action is MergeAction.UPDATE:
        events = events.unionByName(insert_events(_spread_updates(program.table, changed)))
    return _as_events(events, reach, [program.clause])


def _as_events(frame: DataFrame, target: Target, clauses: Sequence[ReadyClause]) -> Events:
    """Events with what the writers need: the old files only if a clause leaves columns alone."""
    given = tuple(frozenset(c.clause.assignments) for c in clauses)
    columns = {c.name for c in target.table.columns}
    leaves = any(
        c.clause.action is MergeAction.UPDATE and not columns <= names
        for c, names in zip(clauses, given, strict=True)
    )
    return Events(frame=grouped(frame), given=given, old_files=target.files if leaves else {})


def merge_events(program: MergeProgram, target: Target, source: DataFrame) -> Events:
    """The events of a MERGE.

    That two source rows act on one target row is found by the writer of the delete events, where
    both arrive side by side.
    """
    kept = source.withColumn(_SOURCE_ROW, F.monotonically_increasing_id()).localCheckpoint()
    count = kept.count()
    is_small = count <= _BROADCAST_ROWS
    s = (F.broadcast(kept) if is_small else kept).alias("s")
    reads_all = bool(program.of(MergeWhen.NOT_MATCHED_BY_SOURCE))
    reach = target if reads_all else target.where(program.condition).within(kept, program.keys)
    t = reach.scan(program.needed).alias("t")
    parts: list[DataFrame] = []

    matched = _matched(program, t, s)
    acting = matched.where(F.col("_clause").isNotNull())
    parts.extend(_row_changes(program, acting))
    if program.of(MergeWhen.NOT_MATCHED):
        parts.append(_inserts(program, kept, matched, count))
    if reads_all:
        missing = t.join(s, _on(program), "left_anti")
        parts.extend(_row_changes(program, _missing(program, missing)))
    frame = reduce(DataFrame.unionByName, parts)
    return _as_events(frame, reach, program.clauses)


def _matched(program: MergeProgram, t: DataFrame, s: DataFrame) -> DataFrame:
    """Every pair that the ON condition makes, with the clause that acts on it, or NULL."""
    clauses = program.of(MergeWhen.MATCHED)
    pairs = t.join(s, _on(program), "inner")
    return pairs.select(
        *place("t"), F.col(f"s.{_SOURCE_ROW}"), _chosen(clauses), _new_row(program, clauses)
    ).localCheckpoint()


def _missing(program: MergeProgram, rows: DataFrame) -> DataFrame:
    clauses = program.of(MergeWhen.NOT_MATCHED_BY_SOURCE)
    chosen = rows.select(*place("t"), _chosen(clauses), _new_row(program, clauses))
    return chosen.where(F.col("_clause").isNotNull()).localCheckpoint()


def _row_changes(program: MergeProgram, rows: DataFrame) -> Iterable[DataFrame]:
    """Delete events of all rows, and insert events of those that a clause updates."""
    yield delete_events(rows)
    updating = [i for i, c in enumerate(program.clauses) if c.clause.action is MergeAction.UPDATE]
    if updating:
        updated = rows.where(F.col("_clause").isin(updating))
        yield insert_events(_spread_updates(program.table, updated))


def _spread_updates(table: TableInfo, rows: DataFrame) -> DataFrame:
    return spread(table, rows, writers_for(rows.count()), F.xxhash64("_file", *IDENTITY))


def _inserts(program: MergeProgram, kept: DataFrame, matched: DataFrame, count: int) -> DataFrame:
    """Insert events of the source rows that matched nothing."""
    hit = matched.select(_SOURCE_ROW).distinct()
    alone = kept.join(
        F.broadcast(hit) if count <= _BROADCAST_ROWS else hit, _SOURCE_ROW, "left_anti"
    ).alias("s")
    clauses = program.of(MergeWhen.NOT_MATCHED)
    table = program.table
    chosen = alone.select(
        _SOURCE_ROW,
        _chosen(clauses),
        _partition_of(table, clauses).alias("_partition"),
        _new_row(program, clauses),
    )
    rows = chosen.where(F.col("_clause").isNotNull())
    return insert_events(
        spread(table, with_no_old_row(rows), writers_for(count), F.col(_SOURCE_ROW))
    )


def _ready(
    spark: SparkSession,
    sees: DataFrame,
    table: TableInfo,
    clause: Clause,
    *,
    from_text: bool = False,
) -> ReadyClause:
    if clause.condition:
        type_of(sees, table, clause.condition)
    return ReadyClause(
        clause=clause,
        values={
            column: stored(spark, sees, table, column, expression, from_text=from_text)
            for column, expression in clause.assignments.items()
        },
    )


def _on(program: MergeProgram) -> Column:
    """The ON condition. char compares without its padding, as in Hive."""
    types = {
        c.name: parse_type(c.type)
        for c in (*program.table.columns, *program.table.partition_columns)
    }

    def equal(key: str) -> Column:
        left, right = F.col(f"t.`{key}`"), F.col(f"s.`{key}`")
        if isinstance(types[key], CharType):
            left, right = F.rtrim(left), F.rtrim(right)
        return left == right

    on = reduce(and_, [equal(key) for key in program.keys])
    return on & F.expr(program.condition) if program.condition else on


def _chosen(clauses: Iterable[tuple[int, ReadyClause]]) -> Column:
    """The number of the first clause that holds, or NULL."""
    return _case([(c.holds, F.lit(i)) for i, c in clauses], "int").alias("_clause")


def _new_row(program: MergeProgram, clauses: Iterable[tuple[int, ReadyClause]]) -> Column:
    """The row that the chosen clause makes; NULL for a delete."""
    empty = row_struct(program.table, {})
    made = [
        (_chosen_is(clauses, i), row_struct(program.table, c.values))
        for i, c in clauses
        if c.clause.action is not MergeAction.DELETE
    ]
    return _case(made, otherwise=F.when(F.lit(False), empty)).alias("row")


def _chosen_is(clauses: Iterable[tuple[int, ReadyClause]], wanted: int) -> Column:
    return _chosen(clauses) == F.lit(wanted)


def _case(
    branches: list[tuple[Column, Column]],
    cast: str | None = None,
    otherwise: Column | None = None,
) -> Column:
    """CASE WHEN over some branches, which may be none."""
    result = otherwise if otherwise is not None else F.lit(None)
    for condition, value in reversed(branches):
        result = F.when(condition, value).otherwise(result)
    return result.cast(cast) if cast else result


def _partition_of(table: TableInfo, clauses: Iterable[tuple[int, ReadyClause]]) -> Column:
    """The partition of the row that the chosen clause makes."""
    return _case(
        [
            (
                _chosen_is(clauses, i),
                partition_key(table, [c.values[p.name] for p in table.partition_columns]),
            )
            for i, c in clauses
        ],
        "string",
    )


def _needed(table: TableInfo, texts: Iterable[str]) -> tuple[str, ...]:
    named: set[str] = set()
    for text in texts:
        if text:
            named |= named_columns(text, table.column_names)
    return tuple(c.name for c in table.columns if c.name in named)

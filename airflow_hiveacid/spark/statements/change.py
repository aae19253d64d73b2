"""UPDATE and DELETE as events.

Takes a target (its live files under one snapshot) and a statement; gives `Events`. A
`ChangeProgram` is made first, from the schema alone: everything that can be wrong with a statement
is found there, before a transaction is opened. Only the columns that condition and expressions use
are read from the target.

What the condition picks and what the assignments make is decided once and kept (`localCheckpoint`)
before events are made of it: the delete event and the insert event of an update come from the same
decision. If an executor dies with its part, the job fails instead of deciding again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hiveacid.jobs.specs import DeleteSpec, MergeAction, MergeWhen, UpdateSpec
from airflow_hiveacid.plan.statements import Clause, resolve_update
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.events import IDENTITY, Events, delete_events, grouped, insert_events
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.spark.statements.clauses import Names, acted_on, ready, scanned
from airflow_hiveacid.spark.writing.writers import spread, writers_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.spark.reading.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProgram:
    """A checked UPDATE or DELETE; `needed` are the columns that must be read for it."""

    table: TableInfo
    clause: Clause
    needed: tuple[str, ...]
    moment: Moment


def plan_change(
    spark: SparkSession, table: TableInfo, spec: UpdateSpec | DeleteSpec
) -> ChangeProgram:
    """Check an UPDATE or DELETE against the target's schema.

    Raises:
        InputError: see `plan.statements.resolve_update` and `clauses.ready`.
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
    moment = Moment.now(spark)
    (checked,) = ready(table, empty_target(spark, table).alias("t"), [(0, clause)], moment)
    needed = tuple(c.name for i, c in enumerate(table.columns) if i in checked.uses)
    return ChangeProgram(table=table, clause=clause, needed=needed, moment=moment)


def change_events(program: ChangeProgram, target: Target) -> Events:
    """The events of an UPDATE or DELETE."""
    table, clause = program.table, program.clause
    names = Names.beside(table.column_names)
    reach = target.where(clause.condition, program.moment)
    rows = scanned(reach, program.needed, names)
    (checked,) = ready(table, rows.drop(*names.all), [(0, clause)], program.moment)
    # As a whole, in a form that Spark does not take apart: a part may fail for a file or row where
    # another part never lets it be asked.
    picked = rows.where(F.coalesce(checked.holds, F.lit(False)))
    always = dataclasses.replace(checked, holds=F.lit(True))
    changed, updated = kept_changes(
        [clause], acted_on(table, picked, [always], names, reach.place_fields(names.place))
    )
    return as_events(row_changes(table, [clause], changed, updated), reach, [clause])


def kept_changes(clauses: Sequence[Clause], rows: DataFrame) -> tuple[DataFrame, int]:
    """Rows with their clause, decided and kept, and how many of them are updated.

    Counted apart: what Spark observes on the way comes by an event, which it may drop.
    """
    kept = rows.localCheckpoint()
    updating = _updating(clauses)
    return kept, kept.where(F.col("_clause").isin(updating)).count() if updating else 0


def _updating(clauses: Sequence[Clause]) -> list[int]:
    return [i for i, c in enumerate(clauses) if c.action is MergeAction.UPDATE]


def row_changes(
    table: TableInfo, clauses: Sequence[Clause], rows: DataFrame, updated_rows: int
) -> list[DataFrame]:
    """Delete events of all rows, and insert events of those that a clause updates."""
    updating = _updating(clauses)
    if not updating:
        return [delete_events(rows)]
    updated = rows.where(F.col("_clause").isin(updating))
    # The identity of the old row decides, which the checkpoint holds.
    seed = F.xxhash64("_file", *IDENTITY)
    routed = spread(table, updated, writers_for(updated_rows), seed)
    return [delete_events(rows), insert_events(routed)]


def as_events(parts: Sequence[DataFrame], target: Target, clauses: Sequence[Clause]) -> Events:
    """Events with what the writers need: the old files only if an update leaves columns alone."""
    columns = frozenset(c.name for c in target.table.columns)
    # A delete brings no row, so it leaves nothing to be fetched.
    given = tuple(
        frozenset(c.assignments) if c.action is MergeAction.UPDATE else columns for c in clauses
    )
    leaves = any(not columns <= names for names in given)
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part)
    return Events(
        frame=lambda: grouped(frame),
        given=given,
        old_files={f.number: f.data for f in target.files} if leaves else {},
    )

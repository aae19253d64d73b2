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
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql import functions as F

from airflow_hiveacid.jobs.specs import DeleteSpec, MergeAction, MergeWhen, UpdateSpec
from airflow_hiveacid.plan.statements import Clause, quoted, resolve_update
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.events import (
    EVENT_COLUMNS,
    IDENTITY,
    Events,
    delete_events,
    grouped,
    insert_events,
)
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.spark.row_sizes import bytes_of, least_bytes
from airflow_hiveacid.spark.statements.clauses import Names, acted_on, brought, ready, scanned
from airflow_hiveacid.spark.statements.constraints import columns_asked
from airflow_hiveacid.spark.writing.small_changes import are_few
from airflow_hiveacid.spark.writing.spreading import spread, writers_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.spark.reading.target import Target

_EVENT: Final = least_bytes(len(EVENT_COLUMNS))


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
    uses, asked = checked.uses, columns_asked(table, [clause])
    needed = tuple(c.name for i, c in enumerate(table.columns) if i in uses or c.name in asked)
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
    acted = acted_on(
        table,
        picked,
        [always],
        names,
        columns=brought(table, [clause]),
        places=reach.place_fields(names.place),
    )
    changed = kept_changes([clause], acted)
    parts = row_changes(table, [clause], changed)
    return as_events(parts, reach, [clause], changed.files, is_few=all_are_few([changed]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Rows with their clause, decided and kept.

    `updated` counts those that a clause updates, `files` are the numbers of the files that these
    are in. `events` counts what becomes of all rows; `size_bytes` is about what that takes.
    """

    rows: DataFrame
    events: int
    updated: int
    files: frozenset[int]
    size_bytes: int


def kept_changes(clauses: Sequence[Clause], rows: DataFrame) -> Kept:
    """Keep rows of `acted_on`, and count them.

    Counted apart: what Spark observes on the way comes by an event, which it may drop.
    """
    kept = rows.localCheckpoint()
    updates = F.col("_clause").isin(_updating(clauses))
    file = F.col("_file") if "_file" in kept.columns else F.lit(None)
    counts = [F.count(F.lit(1)), F.count_if(updates), F.collect_set(F.when(updates, file))]
    if all(clause.action is MergeAction.DELETE for clause in clauses):
        values: Mapping[str, DataType] = {}
    else:
        row = cast("StructType", kept.schema["row"].dataType)
        values = {f"row.{quoted(field.name)}": field.dataType for field in row}
    count, updated, files, size = kept.select(*counts, F.sum(bytes_of(values))).collect()[0]
    events = count + updated
    return Kept(
        rows=kept,
        events=events,
        updated=updated,
        files=frozenset(files),
        size_bytes=(size or 0) + events * _EVENT,
    )


def all_are_few(parts: Sequence[Kept]) -> bool:
    """Whether the events of all these come to the driver."""
    return are_few(sum(part.events for part in parts), sum(part.size_bytes for part in parts))


def _updating(clauses: Sequence[Clause]) -> list[int]:
    return [i for i, c in enumerate(clauses) if c.action is MergeAction.UPDATE]


def row_changes(table: TableInfo, clauses: Sequence[Clause], kept: Kept) -> list[DataFrame]:
    """Delete events of all rows with a clause, and insert events of those that it updates."""
    updating = _updating(clauses)
    rows = kept.rows.where(F.col("_clause").isNotNull())
    if not updating:
        return [delete_events(rows)]
    updated = rows.where(F.col("_clause").isin(updating))
    if not table.num_buckets:
        # The identity of the old row decides, which the checkpoint holds.
        seed = F.xxhash64("_file", *IDENTITY)
        updated = spread(table, updated, writers_for(kept.updated), seed)
    # In a bucketed table a row stays where it is: what decides its bucket does not change.
    return [delete_events(rows), insert_events(updated)]


def as_events(
    parts: Sequence[DataFrame],
    target: Target,
    clauses: Sequence[Clause],
    updated: frozenset[int],
    *,
    is_few: bool = False,
) -> Events:
    """Events with what the writers need, which goes to each of their tasks.

    The old files only if an update leaves columns alone, and only those that it updates.
    """
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
        old_files={f.number: f.data for f in target.files if leaves and f.number in updated},
        few=frame if is_few else None,
    )

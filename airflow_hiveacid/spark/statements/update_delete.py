"""UPDATE and DELETE as events.

A `RowChangeProgram` is built from the schema alone, to find all errors before a transaction opens.
Only columns that the condition and expressions use are read. The selected rows and their new values
are computed once and kept (`localCheckpoint`). So the two events of an update always agree. If an
executor with kept rows is lost, the job fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import AtomicType, BinaryType, DataType, StringType, StructType

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.statements import DeleteSpec, MergeAction, MergeWhen, UpdateSpec
from airflow_hiveacid.plan.statements.dml import Clause, quoted, resolve_update
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.engine.parsed_sql import DEFAULT_TERMS, TextTerms
from airflow_hiveacid.spark.reading.events import Events, delete_events, grouped, insert_events
from airflow_hiveacid.spark.reading.target import Target, empty_target
from airflow_hiveacid.spark.statements.expressions import (
    HelperNames,
    acted_on,
    brought,
    columns_asked,
    ready,
    scanned,
)
from airflow_hiveacid.spark.writing.spreading import spread, writers_for
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.writing.event_files import EVENT_COLUMNS, are_few

_ROW_BYTES: Final = 16
_VALUE_BYTES: Final = 8


def least_bytes(columns: int) -> int:
    """Return the minimum size in bytes of a row with this number of columns."""
    return _ROW_BYTES + _VALUE_BYTES * columns


_EVENT_BYTES: Final = least_bytes(len(EVENT_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeProgram:
    """A checked UPDATE or DELETE; `needed` are the target's columns that must be read."""

    table: TableInfo
    clause: Clause
    needed: tuple[str, ...]
    moment: Moment


def plan_change(
    spark: SparkSession,
    table: TableInfo,
    spec: UpdateSpec | DeleteSpec,
    terms: TextTerms = DEFAULT_TERMS,
) -> RowChangeProgram:
    """Check an UPDATE or DELETE against the target's schema."""
    if isinstance(spec, UpdateSpec):
        clause = resolve_update(table, spec)
    else:
        matched = MergeWhen.MATCHED
        delete = MergeAction.DELETE
        clause = Clause(when=matched, action=delete, condition=spec.where, assignments={})
    moment = Moment.now(spark, terms)
    (checked,) = ready(table, empty_target(spark, table).alias("t"), [(0, clause)], moment)
    uses, constrained = checked.uses, columns_asked(table, [clause])
    needed = tuple(
        c.name for i, c in enumerate(table.columns) if i in uses or c.name in constrained
    )
    return RowChangeProgram(table=table, clause=clause, needed=needed, moment=moment)


def change_events(program: RowChangeProgram, target: Target) -> Events:
    """Return the events of an UPDATE or DELETE."""
    table, clause = program.table, program.clause
    names = HelperNames.beside(table.column_names)
    reach = target.where(clause.condition, program.moment)
    rows = scanned(reach, program.needed, names, [clause])
    (checked,) = ready(table, rows.drop(*names.all), [(0, clause)], program.moment)
    # `coalesce` keeps Spark from splitting the condition: a part may fail alone.
    picked = rows.where(F.coalesce(checked.holds, F.lit(False)))
    always = dataclasses.replace(checked, holds=F.lit(True))
    acted = acted_on(
        table,
        picked,
        [always],
        names,
        columns=brought(table, [clause]),
        positions=reach.position_columns(names.position),
    )
    changed = kept_changes([clause], acted)
    parts = row_changes(table, [clause], changed)
    return as_events(parts, reach, [clause], changed.files, is_few=all_are_few([changed]))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """Rows with their chosen clauses; the rows are computed once and kept.

    `updated` is the number of rows that a clause updates; `files` are the numbers of these rows'
    files. `events` is the number of events, where a row without a clause counts as one;
    `size_bytes` is the approximate size of the events.
    """

    rows: DataFrame
    events: int
    updated: int
    files: frozenset[int]
    size_bytes: int


def kept_changes(clauses: Sequence[Clause], rows: DataFrame) -> KeptRows:
    """Keep the rows that `acted_on` returned, and count them: Spark may drop metrics."""
    checkpoint = rows.localCheckpoint()
    updates = F.col("_clause").isin(_updating(clauses))
    file = F.col("_file") if "_file" in checkpoint.columns else F.lit(None)
    counts = [F.count(F.lit(1)), F.count_if(updates), F.collect_set(F.when(updates, file))]
    if all(clause.action is MergeAction.DELETE for clause in clauses):
        values: Mapping[str, DataType] = {}
    else:
        row = cast("StructType", checkpoint.schema["row"].dataType)
        values = {f"row.{quoted(field.name)}": field.dataType for field in row}
    count, updated, files, size = checkpoint.select(*counts, F.sum(bytes_of(values))).collect()[0]
    events = count + updated
    return KeptRows(
        rows=checkpoint,
        events=events,
        updated=updated,
        files=frozenset(files),
        size_bytes=(size or 0) + events * _EVENT_BYTES,
    )


def all_are_few(parts: Sequence[KeptRows]) -> bool:
    """Return True if the kept rows have few enough events for the driver to write."""
    return are_few(sum(part.events for part in parts), sum(part.size_bytes for part in parts))


def _updating(clauses: Sequence[Clause]) -> list[int]:
    return [i for i, c in enumerate(clauses) if c.action is MergeAction.UPDATE]


def row_changes(table: TableInfo, clauses: Sequence[Clause], kept: KeptRows) -> list[DataFrame]:
    """Return delete events for all rows with a clause, and insert events for updated rows."""
    updating = _updating(clauses)
    rows = kept.rows.where(F.col("_clause").isNotNull())
    if not updating:
        return [delete_events(rows)]
    updated = rows.where(F.col("_clause").isin(updating))
    if not table.num_buckets:
        # The seed is the old row's ID, because the checkpoint contains this ID.
        seed = F.xxhash64("_file", *IDENTITY_COLUMNS)
        updated = spread(table, updated, writers_for(kept.updated), seed)
    # In a bucketed table, a row keeps its bucket, because bucket columns cannot change.
    return [delete_events(rows), insert_events(updated)]


def as_events(
    parts: Sequence[DataFrame],
    target: Target,
    clauses: Sequence[Clause],
    updated: frozenset[int],
    *,
    is_few: bool = False,
) -> Events:
    """Return events with the data that each writer task needs."""
    columns = frozenset(c.name for c in target.table.columns)
    # Old values are needed only if an update leaves out a column; a delete writes no row.
    assigned = tuple(
        frozenset(c.assignments) if c.action is MergeAction.UPDATE else columns for c in clauses
    )
    leaves = any(not columns <= names for names in assigned)
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part)
    return Events(
        frame=lambda: grouped(frame),
        given=assigned,
        old_files={f.number: f.data for f in target.files if leaves and f.number in updated},
        few=frame if is_few else None,
    )


def bytes_of(columns: Mapping[str, DataType]) -> Column:
    """Return a row's approximate bytes, by a flat expression, as Spark limits the depth."""
    fixed_bytes = F.lit(least_bytes(len(columns))).cast("long")
    texts = [
        F.col(name).cast("string")
        for name, data_type in columns.items()
        if isinstance(data_type, StringType | BinaryType) or not isinstance(data_type, AtomicType)
    ]
    return fixed_bytes + F.octet_length(F.concat_ws("", *texts)) if texts else fixed_bytes

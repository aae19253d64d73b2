"""Preparation of statements, with all checks of their tables, before a transaction begins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import assert_never

from pyspark.sql import DataFrame

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs import statements as specs
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.plan.statements.columns import check_truncate, partition_missing
from airflow_hiveacid.plan.statements.dml import tables_of
from airflow_hiveacid.plan.transactions import check_order
from airflow_hiveacid.reading.table_view import Touched, nameable, touching
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.reading.pruning import partitions_with
from airflow_hiveacid.spark.statements import insert, merge
from airflow_hiveacid.spark.statements.update_delete import change_events, plan_change
from airflow_hiveacid.spark.writing import work
from airflow_hiveacid.spark.writing.context import JobContext


def statement_job(
    kind: type[specs.StatementSpec | specs.TransactionSpec],
) -> Callable[[JobContext], JobResult]:
    """Return the function that runs jobs of one kind: their statements, in one transaction."""

    def run(job: JobContext) -> JobResult:
        spec = job.job_of(kind)
        statements: Sequence[specs.StatementSpec | specs.MultiInsertSpec] = (
            spec.statements if isinstance(spec, specs.TransactionSpec) else [spec]
        )
        return work.run_changes(job, planned(job, statements))

    return run


def planned(
    job: JobContext, statements: Sequence[specs.StatementSpec | specs.MultiInsertSpec]
) -> list[work.CheckedStatement]:
    """Return the statements of one transaction, ready to run.

    Anything invalid, or an order that one transaction cannot run, is an InputError, which names the
    number of the statement if there are several.
    """
    changes: list[work.CheckedStatement] = []
    count = sum(len(specs.each(spec)) for spec in statements)
    for number, spec in enumerate(statements):
        common = None
        if isinstance(spec, specs.MultiInsertSpec):
            with work.naming(len(changes) + 1, count):
                common = work.common_of(job, spec, number)
        for statement in specs.each(spec):
            with work.naming(len(changes) + 1, count):
                changes.append(planned_one(job, statement, common=common))
    check_order([change.step for change in changes])
    return changes


def planned_one(
    job: JobContext,
    spec: specs.StatementSpec,
    frame: DataFrame | None = None,
    common: work.Common | None = None,
) -> work.CheckedStatement:
    """Prepare one statement; rows come from `frame` or its source, inputs also from `common`."""
    match spec:
        case specs.InsertSpec():
            return _insert(job, spec, frame, common)
        case specs.UpdateSpec() | specs.DeleteSpec():
            return _change(job, spec)
        case specs.MergeSpec():
            return _merge(job, spec, frame)
        case specs.TruncateSpec():
            return _truncate(job, spec)
        case specs.LoadSpec():
            return _load(job, spec)
        case _:
            assert_never(spec)


def _insert(
    job: JobContext, spec: specs.InsertSpec, frame: DataFrame | None, common: work.Common | None
) -> work.CheckedStatement:
    table = job.with_constraints(job.insertable_table(spec.target))
    source = insert.in_order(spec, job.source_shape(spec.source) if frame is None else frame)
    moment = Moment.now(job.spark, job.text_terms({})) if common is None else common.moment
    program = insert.plan_insert(table, spec, source, moment)
    fixed = insert.fixed_partition(job.spark, program, spec)
    overwrite = spec.mode is specs.InsertMode.OVERWRITE
    return work.CheckedStatement(
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE if overwrite else DataOperation.INSERT}),
        make_events=lambda _target, rows: insert.new_row_events(
            program, insert.in_order(spec, rows()), is_ours=frame is None
        ),
        source=spec.source if frame is None else None,
        shape=source,
        common=common,
        fixed=fixed,
        partitions=lambda: Touched(names=fixed),
    )


def _change(job: JobContext, spec: specs.UpdateSpec | specs.DeleteSpec) -> work.CheckedStatement:
    operation = DataOperation.UPDATE if isinstance(spec, specs.UpdateSpec) else DataOperation.DELETE
    table = job.changeable_table(spec.target, operation.name)
    if isinstance(spec, specs.UpdateSpec):
        table = job.with_constraints(table)
    job.show_shapes(spec.tables)
    program = plan_change(job.spark, table, spec, job.text_terms(spec.parameters))
    return work.CheckedStatement(
        spec=spec,
        table=table,
        operations=frozenset({operation}),
        make_events=lambda target, _rows: change_events(program, target),
        tables=spec.tables,
        partitions=job.partitions_touched(table, spec.where, program.moment),
    )


def _merge(
    job: JobContext, spec: specs.MergeSpec, frame: DataFrame | None
) -> work.CheckedStatement:
    """Prepare MERGE INTO for a full-ACID table.

    If the source decides which partitions can be touched, the source is read and kept now. Then
    only these partitions are locked. A caller's frame is read only after the locks are granted.
    """
    table = job.with_constraints(job.changeable_table(spec.target, "MERGE"))
    source = job.source_shape(spec.source) if frame is None else frame
    job.show_shapes(spec.tables)
    program = merge.plan_merge(job.spark, table, spec, source, job.text_terms(spec.parameters))
    # ACID tables are read under the job's snapshot, after the locks are granted.
    asks_tables = bool(tables_of(spec.source) or spec.tables)
    looks_ahead = frame is None and not asks_tables and merge.is_bounded(program)
    source_rows = program.moment.fixed_in(source).localCheckpoint() if looks_ahead else None

    def reach(known: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        names = (
            None if source_rows is None else merge.partitions_reached(program, known, source_rows)
        )
        return None if names is None else nameable(names)

    return work.CheckedStatement(
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.UPDATE}),
        make_events=lambda target, rows: merge.merge_events(
            program, target, rows() if source_rows is None else source_rows
        ),
        source=spec.source if frame is None else None,
        shape=source,
        tables=spec.tables,
        partitions=Touched if source_rows is None else touching(job.client, table, reach),
    )


def _truncate(job: JobContext, spec: specs.TruncateSpec) -> work.CheckedStatement:
    table = job.insertable_table(spec.target)
    check_truncate(table, spec)

    @functools.lru_cache(maxsize=1)  # Spark runs again only if the partitions have changed
    def meant(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...]:
        return partitions_with(job.spark, table, names, spec.partition)

    def reach(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        return nameable(meant(names))

    partitions = meant(job.client.partition_names(table)) if spec.partition else ()
    if spec.partition and not partitions:
        raise partition_missing(table, spec)
    # Several partitions may have the same value, because other clients spell it differently.
    is_one = len(partitions) == 1 and len(spec.partition) == len(table.partition_columns)
    return work.CheckedStatement(
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        fixed=partitions if is_one else None,
        partitions=touching(job.client, table, reach) if spec.partition else Touched,
        empties=meant,
    )


def _load(job: JobContext, spec: specs.LoadSpec) -> work.CheckedStatement:
    table = job.insertable_table(spec.target)
    program = insert.plan_load(job.spark, table, spec, job.client)
    return work.CheckedStatement(
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE if spec.overwrite else DataOperation.INSERT}),
        make_events=None,
        make_files=lambda plan, _target, _as_of: insert.copied_files(
            job.spark, program.copies(plan)
        ),
        fixed=program.fixed,
        partitions=lambda: Touched(names=program.fixed),
    )

"""Statements made ready to run: checked against their tables, before anything is begun.

Takes a statement's spec, or one over a frame of the caller's; gives a `Change`, with what it locks
and how its events are made. Every statement of every application comes through here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, assert_never

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import PartitionNotFoundError
from airflow_hiveacid.jobs.loading import LoadSpec
from airflow_hiveacid.jobs.specs import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    MergeSpec,
    MultiInsertSpec,
    TruncateSpec,
    UpdateSpec,
    each,
    kind_of,
)
from airflow_hiveacid.plan.transactions import Step, check_order
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.reading.access import Touched, nameable, touching
from airflow_hiveacid.spark.reading.pruning import partitions_with
from airflow_hiveacid.spark.reading.source import tables_of
from airflow_hiveacid.spark.statements.change import change_events, plan_change
from airflow_hiveacid.spark.statements.insert import (
    fixed_partition,
    in_order,
    new_row_events,
    plan_insert,
)
from airflow_hiveacid.spark.statements.load import load_files, plan_load
from airflow_hiveacid.spark.statements.merge import merge_events, plan_merge
from airflow_hiveacid.spark.statements.reach import is_bounded, partitions_reached
from airflow_hiveacid.spark.writing.common import Common, common_of
from airflow_hiveacid.spark.writing.work import Change, naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hiveacid.format.table import PartitionName
    from airflow_hiveacid.jobs.specs import StatementSpec
    from airflow_hiveacid.spark.writing.context import JobContext


def planned(job: JobContext, specs: Sequence[StatementSpec | MultiInsertSpec]) -> list[Change]:
    """The statements of one transaction, ready to run.

    Raises:
        InputError: a table, column, expression or source is wrong; or no one transaction can hold
            these statements in this order. An error says of which one it is, if there are several.
    """
    changes: list[Change] = []
    count = sum(len(each(spec)) for spec in specs)
    for place, spec in enumerate(specs):
        common = None
        if isinstance(spec, MultiInsertSpec):
            with naming(len(changes) + 1, count):
                common = common_of(job, spec, place)
        for one in each(spec):
            with naming(len(changes) + 1, count):
                changes.append(planned_one(job, one, common=common))
    check_order([step_of(change) for change in changes])
    return changes


def step_of(change: Change) -> Step:
    """What a statement is to the others of its transaction."""
    fixed = change.fixed
    return Step(
        table=str(change.table.ref),
        replaces=DataOperation.OVERWRITE in change.operations,
        partition=None if fixed is None else fixed[0],
        together=None if change.common is None else change.common.place,
    )


def planned_one(
    job: JobContext,
    spec: StatementSpec,
    frame: DataFrame | None = None,
    common: Common | None = None,
) -> Change:
    """One statement; its rows come from the frame, if there is one, and else from its source.

    `common` is what an INSERT has in common with others.

    Raises:
        InputError: a table, column, expression or source is wrong.
    """
    match spec:
        case InsertSpec():
            return _insert(job, spec, frame, common)
        case UpdateSpec() | DeleteSpec():
            return _change(job, spec)
        case MergeSpec():
            return _merge(job, spec, frame)
        case TruncateSpec():
            return _truncate(job, spec)
        case LoadSpec():
            return _load(job, spec)
        case _:
            assert_never(spec)


def _insert(
    job: JobContext, spec: InsertSpec, frame: DataFrame | None, common: Common | None
) -> Change:
    """INSERT INTO or INSERT OVERWRITE a transactional table."""
    table = job.with_constraints(job.insertable_table(spec.target))
    source = in_order(spec, job.source_shape(spec.source) if frame is None else frame)
    moment = Moment.now(job.spark) if common is None else common.moment
    program = plan_insert(table, spec, source, moment)
    fixed = fixed_partition(job.spark, program, spec)
    overwrite = spec.mode is InsertMode.OVERWRITE
    return Change(
        kind=kind_of(spec),
        table=table,
        operations=frozenset({DataOperation.OVERWRITE if overwrite else DataOperation.INSERT}),
        make_events=lambda _target, rows: new_row_events(
            program, in_order(spec, rows()), is_ours=frame is None
        ),
        source=spec.source if frame is None else None,
        shape=source,
        common=common,
        fixed=fixed,
        partitions=lambda: Touched(names=fixed),
    )


def _change(job: JobContext, spec: UpdateSpec | DeleteSpec) -> Change:
    """UPDATE or DELETE FROM a full-ACID table."""
    operation = DataOperation.UPDATE if isinstance(spec, UpdateSpec) else DataOperation.DELETE
    table = job.changeable_table(spec.target, operation.name)
    if isinstance(spec, UpdateSpec):
        table = job.with_constraints(table)
    job.show_shapes(spec.tables)
    program = plan_change(job.spark, table, spec)
    return Change(
        kind=kind_of(spec),
        table=table,
        operations=frozenset({operation}),
        make_events=lambda target, _rows: change_events(program, target),
        tables=spec.tables,
        partitions=job.partitions_touched(table, spec.where, program.moment),
    )


def _merge(job: JobContext, spec: MergeSpec, frame: DataFrame | None) -> Change:
    """MERGE INTO a full-ACID table.

    Where the source tells which partitions can be touched, it is read and kept now, so that only
    these are locked. A caller's frame comes when the locks are in hand.
    """
    table = job.with_constraints(job.changeable_table(spec.target, "MERGE"))
    source = job.source_shape(spec.source) if frame is None else frame
    job.show_shapes(spec.tables)
    program = plan_merge(job.spark, table, spec, source)
    # ACID tables are read under the job's snapshot, which comes with the locks.
    asks_tables = bool(tables_of(spec.source) or spec.tables)
    looks_ahead = frame is None and not asks_tables and is_bounded(program)
    kept = program.moment.fixed_in(source).localCheckpoint() if looks_ahead else None

    def reach(known: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        names = None if kept is None else partitions_reached(program, known, kept)
        return None if names is None else nameable(names)

    return Change(
        kind=kind_of(spec),
        table=table,
        operations=frozenset({DataOperation.UPDATE}),
        make_events=lambda target, rows: merge_events(
            program, target, rows() if kept is None else kept
        ),
        source=spec.source if frame is None else None,
        shape=source,
        tables=spec.tables,
        partitions=Touched if kept is None else touching(job.client, table, reach),
    )


def _truncate(job: JobContext, spec: TruncateSpec) -> Change:
    """TRUNCATE a transactional table: an overwrite without rows, of the partitions that there are.

    Raises:
        PartitionNotFoundError: there is none with these values.
    """
    table = job.insertable_table(spec.target)

    @functools.lru_cache(maxsize=1)  # Spark is asked again only where partitions have come or gone
    def meant(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...]:
        return partitions_with(job.spark, table, names, spec.partition)

    def reach(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        return nameable(meant(names))

    found = meant(job.client.partition_names(table)) if spec.partition else ()
    if spec.partition and not found:
        values = "/".join(f"{name}={value}" for name, value in spec.partition.items())
        raise PartitionNotFoundError(table=table.ref, partition=values)
    # Of one value there may be several, which somebody has spelled otherwise than we.
    is_one = len(found) == 1 and len(spec.partition) == len(table.partition_columns)
    return Change(
        kind=kind_of(spec),
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        fixed=found if is_one else None,
        partitions=touching(job.client, table, reach) if spec.partition else Touched,
        empties=meant,
    )


def _load(job: JobContext, spec: LoadSpec) -> Change:
    """LOAD DATA into a transactional table: files that are there, as one statement's files."""
    table = job.insertable_table(spec.target)
    program = plan_load(job.spark, table, spec, job.client.generation)
    fixed = (program.partition,) if table.is_partitioned else None
    return Change(
        kind=kind_of(spec),
        table=table,
        operations=frozenset({DataOperation.OVERWRITE if spec.overwrite else DataOperation.INSERT}),
        make_events=None,
        make_files=lambda plan: load_files(job.spark, program, plan),
        fixed=fixed,
        partitions=lambda: Touched(names=fixed),
    )

"""Rebalance of a table: one overwrite that spreads the rows of each partition evenly over files.

Each row gets a position, in the requested order or that of the old files, and each new file a range
of positions: lengths differ by at most one row, unlike in Hive's REBALANCE
(CompactionQueryBuilder). A position depends only on the row and on files that do not change, so
repeated tasks agree. Spark reads only rows' IDs and keys; values are fetched from the old files,
exact to the nanosecond.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window, WindowSpec, functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StructField, StructType

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.errors import StorageError
from airflow_hiveacid.format.table import Column as TableColumn, TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import RebalanceSpec
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.plan.rebalancing import DataFile, RebalancedPartition, check_rebalanceable
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import free_name
from airflow_hiveacid.reading.arrow_scan import TargetFile
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.engine.tasks import task_of
from airflow_hiveacid.spark.reading.events import Events, insert_events, with_no_old_row
from airflow_hiveacid.spark.reading.file_relation import file_of, looked_up, partition_of
from airflow_hiveacid.spark.reading.target import Target, resolve_target
from airflow_hiveacid.spark.statements import old_rows
from airflow_hiveacid.spark.writing import work
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.old_rows import OldRows
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from airflow_hiveacid.writing.event_files import WritePlan
from airflow_hiveacid.writing.publish import StagedFile

if TYPE_CHECKING:  # executors, which import this module, have no library of the metastore
    from airflow_hiveacid.spark.writing.context import JobContext

_AT: Final = "_at"
"""The column with a row's position in its partition, from 0."""


def rebalance(job: JobContext) -> JobResult:
    """Spread the rows of due partitions evenly over files, or only plan it; see `run_changes`.

    If no partition is due, the job takes no exclusive lock.
    """
    spec = job.job_of(RebalanceSpec)
    table = job.insertable_table(spec.target)
    check_rebalanceable(table, spec.order_by)
    rebalancing = Rebalancing(job=job, table=table, spec=spec)
    planned = _planned(job, rebalancing)
    if spec.plan_only:
        return planned
    is_idle = planned.status is JobStatus.NOTHING_TO_DO
    if is_idle and not Ledger.of(table).entries(job.spec.job_key):  # no earlier try may have run
        return planned
    result = work.run_changes(job, [rebalancing.change()])
    if result.status is JobStatus.COMMITTED and not _is_due(rebalancing.outcomes):
        return dataclasses.replace(result, status=JobStatus.NOTHING_TO_DO)
    return result


@dataclass(slots=True, kw_only=True)
class Rebalancing:
    """One rebalance in progress. Mutable: it stores the outcome of each partition."""

    job: JobContext
    table: TableInfo
    spec: RebalanceSpec
    outcomes: tuple[RebalancedPartition, ...] = field(default=())

    def change(self) -> work.CheckedStatement:
        """Return the rebalance as a statement of a transaction."""
        return old_rows.overwriting(
            self.spec, self.table, self.stage, self.touched, lambda: _details(self.outcomes)
        )

    def touched(self) -> Touched:
        """Return the requested partition, so that only this partition is locked."""
        if self.spec.partition is None:
            return Touched()
        partitions = partitions_of(self.job.client, self.table, self.spec.partition)
        return Touched(names=tuple(info.name for info in partitions))

    def look(self, target: Target) -> tuple[RebalancedPartition, ...]:
        """Return the decision for each partition of a target, in order; read no rows."""
        files: list[list[DataFile]] = [[] for _ in target.partitions]
        for file, facts in zip(target.files, each_in_threads(_facts, target.files), strict=True):
            files[file.partition].append(facts)
        return tuple(
            RebalancedPartition.of(
                state,
                data_files,
                buckets=self.spec.buckets,
                order_by=self.spec.order_by,
                partition=str(info.name),
            )
            for info, state, data_files in zip(target.partitions, target.states, files, strict=True)
        )

    def stage(
        self, plan: WritePlan, now: Target, _as_of: work.TargetAsOf
    ) -> tuple[StagedFile, ...]:
        """Stage the new files of the partitions that are due."""
        self.outcomes = self.look(now)
        both = zip(now.partitions, self.outcomes, strict=True)
        due = [(info, outcome) for info, outcome in both if outcome.is_due]
        if not due:
            return ()
        target = now.of_partitions(info for info, _ in due)
        spread = _Spread.of(target, [outcome.new_files for _, outcome in due], self.spec.order_by)
        files = spread.written(plan)
        rows = dict(zip((outcome.partition for _, outcome in due), spread.rows, strict=True))
        self.outcomes = tuple(
            _with_files(self.table, outcome, files, rows) for outcome in self.outcomes
        )
        return files


def _facts(file: TargetFile) -> DataFile:
    return DataFile(size_bytes=file.data.length, rows=file.data.tail().rows)


def _with_files(
    table: TableInfo,
    outcome: RebalancedPartition,
    files: Sequence[StagedFile],
    counts: Mapping[str, int],
) -> RebalancedPartition:
    if not outcome.is_due:
        return outcome
    rows = counts[outcome.partition]
    written = [file.rows for file in files if str(file.partition) == outcome.partition]
    if sum(written) != rows:
        raise StorageError(
            f"cannot rebalance {table.ref}: {outcome.partition or 'the table'} has {rows} rows, but"
            f" {sum(written)} rows were written. Nothing was changed; please report this error"
        )
    if not rows:  # delete events have deleted all rows of the files
        return dataclasses.replace(outcome, is_due=False, why="it has no rows", new_files=0, rows=0)
    return dataclasses.replace(outcome, new_files=len(written), rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """Rows to spread: `rows` and new `buckets` by partition; by file, the live rows `before` it."""

    target: Target
    order_by: tuple[str, ...]
    rows: tuple[int, ...]
    buckets: tuple[int, ...]
    before: tuple[int, ...]

    @classmethod
    def of(cls, target: Target, wanted: Sequence[int], order_by: Sequence[str]) -> _Spread:
        counted = old_rows.identities(target).groupBy("_file").count().collect()
        counts = {row["_file"]: row["count"] for row in counted}
        rows: Counter[int] = Counter()
        offsets = []
        for file in target.files:
            offsets.append(rows[file.partition])
            rows[file.partition] += counts.get(file.number, 0)
        totals = tuple(rows[index] for index in range(len(target.partitions)))
        return cls(
            target=target,
            order_by=tuple(order_by),
            rows=totals,
            buckets=tuple(max(1, min(pair)) for pair in zip(wanted, totals, strict=True)),
            before=tuple(offsets),
        )

    def written(self, plan: WritePlan) -> tuple[StagedFile, ...]:
        rows = self._placed()
        if self.order_by:
            return work.written_files(plan, self._in_order(rows))
        events = insert_events(rows.withColumn("row", old_rows.without_values(self.target.table)))
        return old_rows.written_from(plan, events, self.target, sum(self.rows))

    def _placed(self) -> DataFrame:
        table, file = self.target.table, F.col("_file")
        if self.order_by:
            position = free_name("position", table.column_names)
            keys = [
                F.col(quoted(name)).alias(f"_key{index}")
                for index, name in enumerate(self.order_by)
            ]
            rows = self.target.scan(self.order_by, position=position).select(
                *self.target.position_columns(position), *keys
            )
            order = [f"_key{index}" for index in range(len(keys))]
            # As in Hive, one task sorts a partition's row IDs and keys.
            within = Window.partitionBy("_partition").orderBy(*order, "_file", *IDENTITY_COLUMNS)
            row_position = _number(within)
        else:
            rows, order = old_rows.identities(self.target), []
            within = Window.partitionBy("_file").orderBy(*IDENTITY_COLUMNS)
            row_position = _number(within) + _looked_up(self.before, file_of(file))
        count, buckets = (
            _looked_up(numbers, partition_of(file)) for numbers in (self.rows, self.buckets)
        )
        return (
            rows.withColumn(_AT, row_position)
            .drop(*order)
            .withColumn("_bucket", F.floor(F.col(_AT) * buckets / count).cast("int"))
            .withColumn("_clause", F.lit(0))
        )

    def _in_order(self, rows: DataFrame) -> Events:
        """Return events with all values, in the requested order; each old stripe is read once."""
        columns = self.target.table.columns
        names = [c.name for c in columns]
        types = [(c.name, read_type(parse_type(c.type), TimestampForm.PAIR)) for c in columns]
        row_ids = rows.select("_partition", "_bucket", "_file", *IDENTITY_COLUMNS, _AT)
        fetch = partial(
            _fetched,
            files={file.number: file.data for file in self.target.files},
            columns=columns,
        )
        schema = StructType(
            [*row_ids.schema, StructField("row", from_arrow_type(pa.struct(types)))]
        )
        by_stripe = row_ids.repartition("_file", IDENTITY_COLUMNS[0], old_rows.neighbours())
        whole = by_stripe.sortWithinPartitions("_file", *IDENTITY_COLUMNS).mapInArrow(
            task_of(fetch), schema
        )
        group = ("_partition", "_bucket")
        rows = whole.repartition(*group).sortWithinPartitions(*group, _AT)
        rows = rows.drop("_file", *IDENTITY_COLUMNS).withColumn("_clause", F.lit(0))
        events = insert_events(with_no_old_row(rows))
        return Events(frame=lambda: events, given=(frozenset(names),))


def _fetched(
    batches: Iterator[pa.RecordBatch],
    *,
    files: Mapping[int, AcidFile],
    columns: Sequence[TableColumn],
) -> Iterator[pa.RecordBatch]:
    names = [c.name for c in columns]
    old = OldRows(files, columns, names)
    for batch in batches:
        if batch.num_rows:
            values = old.fetch(batch)
            row = pa.StructArray.from_arrays([values[name] for name in names], names=names)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, row], names=[*batch.schema.names, "row"]
            )


def _number(within: WindowSpec) -> Column:
    """Return a row's number, from 0. `row_number` would have only 31 bits."""
    preceding = within.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.count(F.lit(1)).over(preceding) - 1


def _looked_up(numbers: Sequence[int], position: Column) -> Column:
    return looked_up([str(number) for number in numbers], LongType(), position)


def _planned(job: JobContext, rebalancing: Rebalancing) -> JobResult:
    table, touched = rebalancing.table, rebalancing.touched()
    with job.snapshot(str(table.ref)) as snapshot:
        target = resolve_target(job.spark, job.client, table, snapshot.snapshot, touched)
        outcomes = rebalancing.look(target)
    status = JobStatus.PLANNED if _is_due(outcomes) else JobStatus.NOTHING_TO_DO
    return job.result(status, table.ref, _details(outcomes))


def _is_due(outcomes: Sequence[RebalancedPartition]) -> bool:
    return any(outcome.is_due for outcome in outcomes)


def _details(outcomes: Sequence[RebalancedPartition]) -> Mapping[str, JsonValue]:
    return {"rebalance": [to_json(outcome) for outcome in outcomes]}

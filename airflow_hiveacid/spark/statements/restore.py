"""Restore of a table to a version with Spark: rows are compared in frames (`writing.restoring`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.plan.statements.constraints import checks_of
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading import NUMBER, free_name
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.reading.events import delete_events, insert_events
from airflow_hiveacid.spark.reading.target import Target, resolve_target, whole_rows
from airflow_hiveacid.spark.statements import old_rows
from airflow_hiveacid.spark.statements.insert import InsertProgram, copied_files
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.spreading import spread, writers_for
from airflow_hiveacid.spark.writing.work import run_changes
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.writing.event_files import WritePlan, partition_text
from airflow_hiveacid.writing.loading import FileToCopy
from airflow_hiveacid.writing.publish import StagedFile
from airflow_hiveacid.writing.restoring import Comparison, PlainComparison, Restoring

_NOW, _THEN = "_now", "_then"


def restore(job: JobContext) -> JobResult:
    """Restore a version's rows, or only plan it; raise VersionGoneError if they are unreadable."""
    restoring = Restoring[Target].of(job, _comparison)
    table = restoring.table
    change = old_rows.overwriting(
        job.spec.job, table, restoring.stage, restoring.touched, restoring.details
    )
    return restoring.result(
        lambda: run_changes(job, [change]),
        lambda snapshot, past: resolve_target(job.spark, job.client, table, snapshot, past=past),
    )


def _comparison(now: Target, then: Target) -> Comparison[Target]:
    if now.table.kind is TransactionalKind.INSERT_ONLY:
        return _PlainComparison(now=now, then=then)
    return _AcidComparison(now=now, then=then)


@dataclass(frozen=True, kw_only=True)
class _AcidComparison(Comparison[Target]):
    """A comparison of rows by row ID; writes and compactions do not change a row's ID."""

    def outcomes(self) -> tuple[RestoredPartition, ...]:
        if not self.partitions:
            return ()
        now_count, then_count = F.col(_NOW), F.col(_THEN)
        counted = (
            self._rows()
            .groupBy("_partition")
            .agg(
                F.sum(F.greatest(then_count - now_count, F.lit(0))).alias("come"),
                F.sum(F.greatest(now_count - then_count, F.lit(0))).alias("go"),
                F.sum(F.least(now_count, then_count)).alias("stay"),
                F.max((now_count != then_count) & (F.greatest(now_count, then_count) > 1)).alias(
                    "has_twins"
                ),
            )
        )
        counts = {row["_partition"]: row for row in counted.collect()}
        outcomes = []
        for info in self.partitions:
            row = counts.get(partition_text(info.name))
            outcomes.append(
                RestoredPartition.of(
                    come=0 if row is None else row["come"],
                    go=0 if row is None else row["go"],
                    stay=0 if row is None else row["stay"],
                    has_twins=row is not None and row["has_twins"],
                    is_plain=False,
                    partition=str(info.name),
                )
            )
        return tuple(outcomes)

    def files(
        self, plan: WritePlan, delta: WritePlan, outcomes: Sequence[RestoredPartition]
    ) -> tuple[StagedFile, ...]:
        largest = max((outcome.come + outcome.stay for outcome in outcomes), default=0)
        changed = sum(o.come + o.go for o in outcomes if o.how is Way.DELTA)
        deltas, bases = (self.within(self.chosen(outcomes, w)) for w in (Way.DELTA, Way.BASE))
        return (*deltas.deltas(delta, changed), *bases.bases(plan, largest))

    def within(self, partitions: Sequence[PartitionInfo]) -> _AcidComparison:
        current, past = (target.of_partitions(partitions) for target in (self.now, self.then))
        return _AcidComparison(now=current, then=past)

    def deltas(self, plan: WritePlan, changed: int) -> tuple[StagedFile, ...]:
        """Write delete events for rows added since the version, insert events for removed ones."""
        if not self.partitions:
            return ()
        rows = self._rows().where(F.col(_NOW) != F.col(_THEN))
        rows = rows.withColumn("row", old_rows.without_values(self.table))
        come = rows.where(F.col(_NOW) == 0)
        self._check_allowed(come)
        deletes = delete_events(rows.where(F.col(_THEN) == 0))
        events = deletes.unionByName(_fetched(self.table, come, changed))
        return old_rows.written_from(plan, events, self.then, changed)

    def bases(self, plan: WritePlan, most: int) -> tuple[StagedFile, ...]:
        """Write bases with the version's rows, at most `most` in a partition."""
        if not self.partitions:
            return ()
        rows = old_rows.identities(self.then).withColumn("row", old_rows.without_values(self.table))
        self._check_allowed(rows)
        return old_rows.written_from(plan, _fetched(self.table, rows, most), self.then, None)

    def _rows(self) -> DataFrame:
        """Return the row IDs that are live now or in the version, with their rows in each."""
        # Values are fetched from the version's files, so current rows state no file.
        current = old_rows.identities(self.now, for_changes=True).withColumns(
            {_NOW: F.lit(1), _THEN: F.lit(0), "_file": F.lit(None).cast("bigint")}
        )
        past = old_rows.identities(self.then).withColumns({_NOW: F.lit(0), _THEN: F.lit(1)})
        return (
            current.unionByName(past)
            .groupBy("_partition", "_bucket", *IDENTITY_COLUMNS)
            .agg(
                F.sum(_NOW).alias(_NOW),
                F.sum(_THEN).alias(_THEN),
                F.max("_file").alias("_file"),
            )
        )

    def _check_allowed(self, come: DataFrame) -> None:
        names = _demanded(self.table)
        if not names:
            return
        position = free_name("position", self.table.column_names)
        key = ["_partition", *IDENTITY_COLUMNS]
        values = F.struct(*[F.col(quoted(name)) for name in names]).alias("row")
        rows = self.then.scan(names, position=position).select(
            values, *self.then.position_columns(position)
        )
        matches = rows.join(come.select(*key), on=key, how="left_semi")
        _check_values(self.table, matches.select("row.*"), names)


@dataclass(frozen=True, kw_only=True)
class _PlainComparison(PlainComparison[Target]):
    """A comparison for rows without row IDs."""

    def rows_by_file(self, view: Target) -> Mapping[int, int]:
        if not view.partitions:
            return {}
        position = free_name("position", view.table.column_names)
        number = F.col(f"{quoted(position)}.{NUMBER}").alias("number")
        counted = view.live_rows((), position).select(number).groupBy("number").count()
        return {row["number"]: row["count"] for row in counted.collect()}

    def check(self, past: Target) -> None:
        if names := _demanded(self.table):
            _check_values(self.table, past.rows(names), names)

    def copied(self, copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
        return copied_files(self.now.spark, copies)


def _fetched(table: TableInfo, rows: DataFrame, most: int) -> DataFrame:
    rows = rows.withColumn("_clause", F.lit(0))
    if not table.num_buckets:
        seed = F.xxhash64("_file", IDENTITY_COLUMNS[0], old_rows.neighbours())
        rows = spread(table, rows, writers_for(most), seed)
    # In a bucketed table a row stays in its bucket.
    return insert_events(rows)


def _demanded(table: TableInfo) -> tuple[str, ...]:
    constrained = frozenset(table.constraints.not_null).union(
        *[c.columns for c in checks_of(table)]
    )
    return tuple(name for name in table.column_names if name in constrained)


def _check_values(table: TableInfo, rows: DataFrame, names: Sequence[str]) -> None:
    """Compute all of these values, because one that a constraint forbids raises an error."""
    every = whole_rows(table, rows.select(*[quoted(name) for name in names]))
    program = InsertProgram(
        table=table,
        expressions={name: quoted(name) for name in names},
        from_text=frozenset(),
        moment=Moment.now(rows.sparkSession),
    )
    values = program.values(every)
    every.select(F.xxhash64(*values.values()).alias("seen")).agg(F.max("seen")).collect()

"""Restore of a table to a version, as one overwrite of the partitions that differ.

Rows of a full-ACID table are compared by row ID. A row that is live only now gets a delete event;
one that is live only in the version is fetched from its old file, exact to the nanosecond. A
partition that would need too many events gets a base. Files of an insert-only table are copied.

The partitions that differ are determined before the locks are requested, after they are granted,
and under the snapshot itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID
from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.errors import HiveAcidError, UnsupportedTableError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import (
    FileFormat,
    PartitionInfo,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.maintenance import RestoreSpec
from airflow_hiveacid.plan.restoring import RestoredPartition, Way, may_differ
from airflow_hiveacid.plan.statements.constraints import checks_of
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading.access import Touched, nameable
from airflow_hiveacid.reading.request import NUMBER, free_name, partition_at
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
from airflow_hiveacid.spark.reading.events import delete_events, insert_events
from airflow_hiveacid.spark.reading.target import Target, resolve_target, whole_rows
from airflow_hiveacid.spark.statements import old_rows
from airflow_hiveacid.spark.statements.insert import InsertProgram
from airflow_hiveacid.spark.statements.load import FileToCopy, copied_files
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.spreading import spread, writers_for
from airflow_hiveacid.spark.writing.work import CheckedStatement, TargetAsOf, run_changes
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMNS
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.loadable import LoadableFile
from airflow_hiveacid.storage.plain.text_rows import is_compressed
from airflow_hiveacid.storage.stores.notes.job_ledger import Ledger
from airflow_hiveacid.versions.past import past_of
from airflow_hiveacid.versions.restoring import Differing, differing_now, range_since, warn_of_new
from airflow_hiveacid.writing.event_files import WritePlan, partition_text, writer_options
from airflow_hiveacid.writing.publish import StagedFile, empty_file

_NOW, _THEN = "_now", "_then"


def restore(job: JobContext) -> JobResult:
    """Restore a version's rows, or only plan it; raise VersionGoneError if they are unreadable."""
    spec = job.job_of(RestoreSpec)
    table = job.with_constraints(job.insertable_table(spec.target))
    version = VersionSpec.parse(spec.version)
    if spec.plan_only:
        return _planned(job, table, version)
    restoring = Restoring(job=job, table=table, version=version)
    restoring.look()  # raises an error before a transaction begins
    # Run even if nothing differs, because the ledger must record that this job is done. Otherwise a
    # retry or a stalled copy of the job would undo later writes.
    result = run_changes(job, [restoring.change()])
    if result.status is JobStatus.COMMITTED and not _changes(restoring.outcomes):
        return dataclasses.replace(result, status=JobStatus.NOTHING_TO_DO)
    return result


@dataclass(slots=True, kw_only=True)
class Restoring:
    """One restore in progress. Mutable: it stores the outcome of each partition."""

    job: JobContext
    table: TableInfo
    version: VersionSpec
    outcomes: tuple[RestoredPartition, ...] = field(default=())

    def change(self) -> CheckedStatement:
        """Return the restore as a statement of a transaction."""
        return old_rows.overwriting(
            "restore", self.table, self.stage, self.touched, lambda: _details(self.outcomes)
        )

    def look(self) -> tuple[Differing, ...] | None:
        """Return the roots that may differ; None if an earlier try may have restored them."""
        try:
            return differing_now(self.job.client, self.table, self.version)
        except HiveAcidError:
            if not Ledger.of(self.table).entries(self.job.spec.job_key):
                raise
            return None

    def touched(self) -> Touched:
        """Return the partitions that may differ, so that they can be locked."""
        roots = self.look()
        if roots is None or not self.table.is_partitioned:
            return Touched()
        warn_of_new(self.table, self.version, roots)
        return Touched(names=nameable(tuple(root.info.name for root in roots)))

    def stage(self, plan: WritePlan, now: Target, as_of: TargetAsOf) -> tuple[StagedFile, ...]:
        """Stage the files that restore the version."""
        comparison = _Comparison.of(now, as_of(self.version))
        self.outcomes = comparison.outcomes()
        ways: dict[Way, list[PartitionInfo]] = {way: [] for way in Way}
        for info, outcome in zip(comparison.partitions, self.outcomes, strict=True):
            ways[outcome.how].append(info)
        files: tuple[StagedFile, ...] = ()
        if isinstance(comparison, _PlainComparison):
            files = comparison.copies(plan, ways[Way.BASE])
        elif isinstance(comparison, _AcidComparison):
            largest = max((outcome.come + outcome.stay for outcome in self.outcomes), default=0)
            delta = dataclasses.replace(
                plan,
                insert_directory=dataclasses.replace(plan.delete_directory, is_delete=False),
                options=writer_options(plan.table, self.job.client.generation, is_base=False),
            )
            changed = sum(o.come + o.go for o in self.outcomes if o.how is Way.DELTA)
            files = (
                *comparison.within(ways[Way.DELTA]).deltas(delta, changed),
                *comparison.within(ways[Way.BASE]).bases(plan, largest),
            )
        directory = str(plan.insert_directory)
        written = {file.partition for file in files}
        empty = [
            empty_file(plan.table, i.name, directory, plan.staging(i.name), plan.options)
            for i in ways[Way.BASE]
            if i.name not in written
        ]
        return (*files, *empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """The partitions that may differ, as two targets: `now`, and `then` (as of the version)."""

    now: Target
    then: Target

    @staticmethod
    def of(now: Target, then: Target) -> _AcidComparison | _PlainComparison:
        """Compare a table's present state with a version."""
        if then.past is None:
            raise TypeError("`then` must be a target as of a version")
        part, then = range_since(then.past), then.of_partitions(now.partitions)
        # Use the files of all partitions, so that an incomplete version is refused whole.
        both = zip(now.partitions, now.states, then.states, strict=True)
        partitions = [info for info, state, _ in both if may_differ(state, part)]
        plain = now.table.kind is TransactionalKind.INSERT_ONLY
        kind = _PlainComparison if plain else _AcidComparison
        return kind(now=now.of_partitions(partitions), then=then.of_partitions(partitions))

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        return self.now.partitions

    @property
    def table(self) -> TableInfo:
        return self.now.table


@dataclass(frozen=True, slots=True, kw_only=True)
class _AcidComparison(_Comparison):
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
        """Return every row that is live now or in the version, with a mark for each."""
        current = old_rows.identities(self.now).withColumns(
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlainComparison(_Comparison):
    """A comparison for rows without row IDs: all files of partitions that may differ are copied."""

    def outcomes(self) -> tuple[RestoredPartition, ...]:
        go, come = ([0] * len(self.partitions) for _ in range(2))
        for target, counts in ((self.now, go), (self.then, come)):
            for number, rows in _rows_by_file(target).items():
                counts[partition_at(number)] += rows
        return tuple(
            RestoredPartition.of(
                come=come[index], go=go[index], stay=0, is_plain=True, partition=str(info.name)
            )
            for index, info in enumerate(self.partitions)
        )

    def _check_copyable(self, file: PlainFile) -> None:
        """Refuse a compressed text file: its name shows the codec, but a copy gets a new name."""
        if file.format is FileFormat.TEXT and is_compressed(file.key):
            raise UnsupportedTableError(
                table=self.table.ref,
                detail=f"has the compressed text file {file.key} in that version, which cannot be"
                " copied. Write the version's rows instead: TRUNCATE the partitions without rows in"
                " that version, and run INSERT OVERWRITE ... SELECT ... FOR VERSION AS OF",
            )

    def copies(
        self, plan: WritePlan, partitions: Sequence[PartitionInfo]
    ) -> tuple[StagedFile, ...]:
        if not partitions:
            return ()
        past = self.then.of_partitions(partitions)
        if names := _demanded(self.table):
            _check_values(self.table, past.rows(names), names)
        rows = _rows_by_file(past)
        copies: list[FileToCopy] = []
        numbers = dict.fromkeys((info.name for info in partitions), 0)
        for number, file in past.plain_files:
            info = partitions[partition_at(number)]
            if not file.length:
                continue
            self._check_copyable(file)
            root = (file.root or info.location).rstrip("/")
            copies.append(
                FileToCopy(
                    number=BucketId(numbers[info.name]),
                    source=LoadableFile(
                        uri=f"{root}/{file.key}", length=file.length, rows=rows.get(number, 0)
                    ),
                    partition=info.name,
                    staging=plan.staging(info.name),
                    directory=str(plan.insert_directory),
                    format=file.format,
                )
            )
            numbers[info.name] += 1
        for name, count in numbers.items():
            if count > MAX_BUCKET_ID + 1:
                raise UnsupportedTableError(
                    table=self.table.ref,
                    detail=f"has {count} files of that version in {str(name) or 'it'}, but a"
                    f" directory may contain only {MAX_BUCKET_ID + 1}. Insert the version's rows"
                    " instead: INSERT OVERWRITE ... SELECT from the version",
                )
        return copied_files(self.now.spark, copies)


def _planned(job: JobContext, table: TableInfo, version: VersionSpec) -> JobResult:
    with job.snapshot(str(table.ref)) as snapshot:
        if table.is_partitioned:
            warn_of_new(table, version, differing_now(job.client, table, version))
        past = past_of(job.client, table, version, snapshot.snapshot, taken_s=snapshot.taken_s)
        target = resolve_target(job.spark, job.client, table, snapshot.snapshot)
        version_target = resolve_target(job.spark, job.client, table, snapshot.snapshot, past=past)
        outcomes = _Comparison.of(target, version_target).outcomes()
    status = JobStatus.PLANNED if _changes(outcomes) else JobStatus.NOTHING_TO_DO
    return job.result(status, TableRef.parse(job.job_of(RestoreSpec).target), _details(outcomes))


def _changes(outcomes: Collection[RestoredPartition]) -> bool:
    return any(outcome.how is not Way.NOTHING for outcome in outcomes)


def _details(outcomes: Collection[RestoredPartition]) -> Mapping[str, JsonValue]:
    return {"restore": [to_json(outcome) for outcome in outcomes]}


def _fetched(table: TableInfo, rows: DataFrame, most: int) -> DataFrame:
    rows = rows.withColumn("_clause", F.lit(0))
    if not table.num_buckets:
        seed = F.xxhash64("_file", IDENTITY_COLUMNS[0], old_rows.neighbours())
        rows = spread(table, rows, writers_for(most), seed)
    # In a bucketed table a row stays in its bucket.
    return insert_events(rows)


def _rows_by_file(target: Target) -> dict[int, int]:
    """Return the number of rows in each non-empty file of an insert-only table, by file number."""
    if not target.partitions:
        return {}
    position = free_name("position", target.table.column_names)
    number = F.col(f"{quoted(position)}.{NUMBER}").alias("number")
    counted = target.live_rows((), position).select(number).groupBy("number").count()
    return {row["number"]: row["count"] for row in counted.collect()}


def _demanded(table: TableInfo) -> tuple[str, ...]:
    constrained = frozenset(table.constraints.not_null).union(
        *[c.columns for c in checks_of(table)]
    )
    return tuple(name for name in table.column_names if name in constrained)


def _check_values(table: TableInfo, rows: DataFrame, names: Sequence[str]) -> None:
    every = whole_rows(table, rows.select(*[quoted(name) for name in names]))
    program = InsertProgram(
        table=table,
        expressions={name: quoted(name) for name in names},
        from_text=frozenset(),
        moment=Moment.now(rows.sparkSession),
    )
    values = program.values(every)
    every.select(F.xxhash64(*values.values()).alias("seen")).agg(F.max("seen")).collect()

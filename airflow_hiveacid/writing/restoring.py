"""Restore of a table to a version by any engine, as one overwrite of the partitions that differ.

Rows of a full-ACID table are compared by row ID. A row that is live only now gets a delete event;
one that is live only in the version is fetched from its old file, exact to the nanosecond. A
partition that would need too many events gets a base. Files of an insert-only table are copied. A
file that would be read in another calendar in the base is rewritten: an ORC file outside of bases
and deltas whose old dates have no stated calendar.

The partitions that differ are determined before the locks are requested, after they are granted,
and under the snapshot itself.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.errors import HiveAcidError, UnsupportedTableError
from airflow_hiveacid.format.ids import MAX_BUCKET_ID, BucketId
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import FileFormat, PartitionInfo, TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import RestoreSpec
from airflow_hiveacid.plan.restoring import RestoredPartition, Way, may_differ
from airflow_hiveacid.reading import partition_at
from airflow_hiveacid.reading.snapshots import held_snapshot
from airflow_hiveacid.reading.table_view import TableView, Touched, nameable
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.loadable import LoadableFile
from airflow_hiveacid.storage.plain.stored import are_old_values_known
from airflow_hiveacid.storage.plain.text_rows import is_compressed
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.versions.past import Past, past_of
from airflow_hiveacid.versions.restoring import Differing, differing_now, range_since, warn_of_new
from airflow_hiveacid.writing.event_files import WritePlan, writer_options
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.loading import FileToCopy, Rewriting
from airflow_hiveacid.writing.publish import StagedFile, empty_file

_V = TypeVar("_V", bound=TableView)


@dataclass(frozen=True, kw_only=True)  # no slots, for cached properties
class Comparison(ABC, Generic[_V]):
    """The partitions that may differ, as two views: `now`, and `then` (as of the version)."""

    now: _V
    then: _V

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        """The partitions that may differ."""
        return self.now.partitions

    @property
    def table(self) -> TableInfo:
        """The table as it is now."""
        return self.now.table

    @abstractmethod
    def outcomes(self) -> tuple[RestoredPartition, ...]:
        """Compare the views; return the outcome of each partition."""

    @abstractmethod
    def files(
        self, plan: WritePlan, delta: WritePlan, outcomes: Sequence[RestoredPartition]
    ) -> tuple[StagedFile, ...]:
        """Stage the bases of `plan` and the deltas of `delta` that these outcomes need."""

    def chosen(self, outcomes: Sequence[RestoredPartition], way: Way) -> list[PartitionInfo]:
        """Return the partitions that are restored in one way."""
        pairs = zip(self.partitions, outcomes, strict=True)
        return [info for info, outcome in pairs if outcome.how is way]


@dataclass(frozen=True, kw_only=True)
class PlainComparison(Comparison[_V]):
    """A comparison for rows without row IDs: all files of partitions that may differ are copied."""

    @abstractmethod
    def rows_by_file(self, view: _V) -> Mapping[int, int]:
        """Return the number of rows in each non-empty file, by file number."""

    @abstractmethod
    def check(self, past: _V) -> None:
        """Raise an error if a row of the version violates the present constraints."""

    @abstractmethod
    def copied(self, copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
        """Copy files to staging."""

    def outcomes(self) -> tuple[RestoredPartition, ...]:
        """Count the rows of each partition, now and in the version."""
        go, come = ([0] * len(self.partitions) for _ in range(2))
        for view, counts in ((self.now, go), (self.then, come)):
            for number, rows in self.rows_by_file(view).items():
                counts[partition_at(number)] += rows
        return tuple(
            RestoredPartition.of(
                come=come[index], go=go[index], stay=0, is_plain=True, partition=str(info.name)
            )
            for index, info in enumerate(self.partitions)
        )

    def files(
        self,
        plan: WritePlan,
        delta: WritePlan,  # noqa: ARG002 - for comparisons by row ID
        outcomes: Sequence[RestoredPartition],
    ) -> tuple[StagedFile, ...]:
        """Copy the version's files of the partitions that get a base."""
        return self.copies(plan, self.chosen(outcomes, Way.BASE))

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
        """Copy the version's files of some partitions."""
        if not partitions:
            return ()
        past = self.then.of_partitions(partitions)
        self.check(past)
        rows = self.rows_by_file(past)
        files = past.plain_files
        is_rewritten = each_in_threads(_is_ambiguous, [file for _, file in files])
        copies: list[FileToCopy] = []
        numbers = dict.fromkeys((info.name for info in partitions), 0)
        for (number, file), rewrites in zip(files, is_rewritten, strict=True):
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
                    rewriting=Rewriting(file, self.table, plan.options) if rewrites else None,
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
        return self.copied(copies)


def _is_ambiguous(file: PlainFile) -> bool:
    """Return whether a copy in a base may be read in another calendar than the file itself."""
    is_moved = file.format is FileFormat.ORC and file.length and not file.is_in_directory
    return bool(is_moved) and not are_old_values_known(file.tail())


@dataclass(slots=True, kw_only=True)
class Restoring(Generic[_V]):
    """One restore in progress. Mutable: it stores the outcome of each partition.

    `compare` compares the table's present state with the version, in the partitions that may
    differ.
    """

    job: WritingJob
    table: TableInfo
    version: VersionSpec
    compare: Callable[[_V, _V], Comparison[_V]]
    outcomes: tuple[RestoredPartition, ...] = field(default=())

    @classmethod
    def of(cls, job: WritingJob, compare: Callable[[_V, _V], Comparison[_V]]) -> Self:
        """Check the table of a job, and return its restore."""
        spec = job.job_of(RestoreSpec)
        table = job.with_constraints(job.insertable_table(spec.target))
        return cls(job=job, table=table, version=VersionSpec.parse(spec.version), compare=compare)

    def result(
        self, run: Callable[[], JobResult], view: Callable[[Snapshot, Past | None], _V]
    ) -> JobResult:
        """Restore the version's rows with `run`, or only plan it with views of two states.

        Raises VersionGoneError if the version's rows are unreadable.
        """
        if self.job.job_of(RestoreSpec).plan_only:
            return self._planned(view)
        self.look()  # raises an error before a transaction begins
        # Run even if nothing differs, because the ledger must record that this job is done.
        # Otherwise a retry or a stalled copy of the job would undo later writes.
        result = run()
        if result.status is JobStatus.COMMITTED and not self._changes:
            return dataclasses.replace(result, status=JobStatus.NOTHING_TO_DO)
        return result

    def look(self) -> tuple[Differing, ...] | None:
        """Return the roots that may differ; None if that fails, and the ledger has an earlier try.

        That try may have restored the version, and its files may have been cleaned since.
        """
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

    def stage(
        self, plan: WritePlan, now: _V, as_of: Callable[[VersionSpec], _V]
    ) -> tuple[StagedFile, ...]:
        """Stage the files that restore the version."""
        comparison = self.compare(*differing(now, as_of(self.version)))
        self.outcomes = comparison.outcomes()
        delta = dataclasses.replace(
            plan,
            insert_directory=dataclasses.replace(plan.delete_directory, is_delete=False),
            options=writer_options(plan.table, self.job.client.generation, is_base=False),
        )
        files = comparison.files(plan, delta, self.outcomes)
        directory = str(plan.insert_directory)
        written = {file.partition for file in files}
        empty = [
            empty_file(plan.table, i.name, directory, plan.staging(i.name), plan.options)
            for i in comparison.chosen(self.outcomes, Way.BASE)
            if i.name not in written
        ]
        return (*files, *empty)

    def details(self) -> Mapping[str, JsonValue]:
        """Return the outcomes for the result."""
        return {"restore": [to_json(outcome) for outcome in self.outcomes]}

    @property
    def _changes(self) -> bool:
        return any(outcome.how is not Way.NOTHING for outcome in self.outcomes)

    def _planned(self, view: Callable[[Snapshot, Past | None], _V]) -> JobResult:
        job, table, version = self.job, self.table, self.version
        held = held_snapshot(job.client, [str(table.ref)], job.terms)
        with job.cancellable(), held as snapshot:
            if table.is_partitioned:
                warn_of_new(table, version, differing_now(job.client, table, version))
            past = past_of(job.client, table, version, snapshot.snapshot, taken_s=snapshot.taken_s)
            now, then = view(snapshot.snapshot, None), view(snapshot.snapshot, past)
            self.outcomes = self.compare(*differing(now, then)).outcomes()
        status = JobStatus.PLANNED if self._changes else JobStatus.NOTHING_TO_DO
        return job.result(status, table.ref, self.details())


def differing(now: _V, then: _V) -> tuple[_V, _V]:
    """Return a table's present state and a version, in the partitions that may differ."""
    if then.past is None:
        raise TypeError("`then` must be a view as of a version")
    part, then = range_since(then.past), then.of_partitions(now.partitions)
    # Use the files of all partitions, so that an incomplete version is refused whole.
    both = zip(now.partitions, now.states, then.states, strict=True)
    partitions = [info for info, state, _ in both if may_differ(state, part)]
    return now.of_partitions(partitions), then.of_partitions(partitions)

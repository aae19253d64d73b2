"""One transaction, from its checked statements to its result, whatever engine makes their events.

`writing.write` handles failures, `writing.restarts` restarts. A killed process leaves an open
transaction. The metastore aborts such a transaction when the heartbeats stop.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import UNPARTITIONED, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus, RowCounts, StatementResult, kind_of
from airflow_hiveacid.jobs.statements import StreamBatchSpec
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan.transactions import Step, numbered
from airflow_hiveacid.reading.table_view import TableView, Touched, nameable
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.storage.plain.files import check_files_writable
from airflow_hiveacid.writing import publish, restarts
from airflow_hiveacid.writing.event_files import WritePlan, named_twins, writer_options
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.write import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStatement:
    """A statement that was checked against its tables: what it locks.

    `spec` is the request. `operations` on the table determine the lock. `partitions` returns the
    partitions that the statement can touch now, if they are known; `fixed` contains those that the
    statement itself specifies, which need not exist. `empties` selects the existing partitions that
    an overwrite replaces even without new rows; by default, those that it can touch. `details` are
    for the result, once the statement's files are staged.
    """

    spec: Job
    table: TableInfo
    operations: frozenset[DataOperation]
    partitions: Callable[[], Touched] = Touched
    fixed: tuple[PartitionName, ...] | None = None
    empties: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...]] | None = None
    details: Callable[[], Mapping[str, JsonValue]] | None = None

    @property
    def together(self) -> int | None:
        """The position of the multi-insert that contains the statement, or None."""
        return None

    @property
    def step(self) -> Step:
        """The properties of the statement that affect other statements in its transaction."""
        return Step(
            table=str(self.table.ref),
            replaces=DataOperation.OVERWRITE in self.operations,
            partition=self.fixed[0] if self.fixed and len(self.fixed) == 1 else None,
            together=self.together,
        )


class WrittenStatements:
    """The statements that one write has staged. Mutable: it collects the statements' results.

    Statement IDs increase: if a row and its delete event have the same write ID, Hive finds the
    event only if a later statement wrote it (VectorizedOrcAcidRowBatchReader).
    """

    def __init__(self, job: WritingJob, write: Write) -> None:
        self._job, self._write = job, write
        self._results: list[StatementResult] = []
        self._details: dict[str, JsonValue] = {}

    def plan(
        self,
        table: TableInfo,
        operations: Collection[DataOperation],
        locations: Mapping[PartitionName, str],
    ) -> WritePlan:
        """Return the plan of the next statement; `locations` are those of `WritePlan`."""
        part, statement = self._write.tables[table.ref], StatementId(len(self._results))
        delta = DeltaName(low=part.write_id, high=part.write_id, statement_id=statement)
        overwrite = DataOperation.OVERWRITE in operations
        # A base has no statement ID, so its rows get 0; its staging directory has the statement's.
        return WritePlan(
            table=table,
            write_id=part.write_id,
            statement_id=StatementId(0) if overwrite else statement,
            token=part.token(statement),
            insert_directory=BaseName(write_id=part.write_id) if overwrite else delta,
            delete_directory=dataclasses.replace(delta, is_delete=True),
            options=writer_options(table, self._job.client.generation, is_base=overwrite),
            given=(),
            locations=locations,
        )

    def stage(
        self,
        kind: str,
        plan: WritePlan,
        operations: frozenset[DataOperation],
        files: tuple[publish.StagedFile, ...],
        replaced: Collection[PartitionName] = (),
    ) -> StatementResult:
        """Add a statement's files; `replaced` are partitions to replace even without new rows."""
        directories = _assembled(plan, files, replaced)
        self._write.stage(plan.table.ref, directories, operations, kinds=(kind,))
        staged = [file for directory in directories for file in directory.files]
        partitions = {str(d.partition) for d in directories if d.partition.columns}
        result = StatementResult(
            kind=kind,
            table=str(plan.table.ref),
            rows=publish.row_counts(directories),
            partitions=tuple(sorted(partitions)),
            files=len(staged),
            size_bytes=sum(file.size_bytes for file in staged),
        )
        self._results.append(result)
        return result

    @property
    def results(self) -> tuple[StatementResult, ...]:
        """The results of the statements so far."""
        return tuple(self._results)

    def take_over(
        self,
        ref: TableRef,
        directories: tuple[publish.StagedDirectory, ...],
        operations: frozenset[DataOperation],
        results: tuple[StatementResult, ...],
    ) -> None:
        """Use the result and the files that the job's only statement staged before a restart."""
        self._write.stage(ref, directories, operations, kinds=[result.kind for result in results])
        size = sum(file.size_bytes for directory in directories for file in directory.files)
        self._results += (dataclasses.replace(result, size_bytes=size) for result in results)

    def finish(self, retried: Mapping[str, JsonValue] | None = None) -> JobResult:
        """Publish the files of all statements; `retried` are details about the earlier run."""
        self._write.register()
        self._write.verify()
        result = self._result(retried or {})
        self._write.note(result.dump())
        self._write.publish()
        return result

    def _result(self, retried: Mapping[str, JsonValue]) -> JobResult:
        job, txn = self._job, self._write.txn
        results, directories = self._results, self._write.directories
        details: dict[str, JsonValue] = {
            "directories": [d.final_path for d in directories],
            "conflict_policy": {
                str(ref): job.policy_of(part.table).value
                for ref, part in self._write.tables.items()
            },
            **self._details,
        }
        if isinstance(batch := job.spec.job, StreamBatchSpec):
            # Later releases, for ten years, read it here (`Stream.last`), whatever else changes.
            details["batch"] = {"number": job.spec.generation, "offsets": batch.offsets}
        if retried:
            details["retried"] = dict(retried)
        only = results[0] if len(results) == 1 else None
        if job.spec.has_statements:
            details["statements"] = [to_json(result) for result in results]
        return JobResult(
            kind=job.spec.kind,
            job_key=job.spec.job_key,
            status=JobStatus.COMMITTED,
            table=", ".join(map(str, self._write.tables)),
            txn_id=txn.txn_id,
            write_ids={str(ref): write_id for ref, write_id in txn.write_ids.items()},
            rows=RowCounts(
                inserted=sum(r.rows.inserted for r in results),
                updated=sum(r.rows.updated for r in results),
                deleted=sum(r.rows.deleted for r in results),
            ),
            partitions=() if only is None else only.partitions,
            files=sum(r.files for r in results),
            size_bytes=sum(r.size_bytes for r in results),
            details=details,
        )


def _assembled(
    plan: WritePlan,
    files: tuple[publish.StagedFile, ...],
    replaced: Collection[PartitionName],
) -> tuple[publish.StagedDirectory, ...]:
    """Assemble the files into directories; an overwrite also replaces partitions without rows."""
    if isinstance(plan.insert_directory, BaseName):
        for name in set(replaced) - {f.partition for f in files}:
            empty = publish.empty_file(
                plan.table, name, str(plan.insert_directory), plan.staging(name), plan.options
            )
            files = (*files, empty)
    return publish.assemble(files, {f.partition: plan.staging(f.partition) for f in files})


_S = TypeVar("_S", bound=PlannedStatement)
_V = TypeVar("_V", bound=TableView)


class StatementWork(WrittenStatements, ABC, Generic[_S, _V]):
    """An engine's work in one write. Mutable, as `WrittenStatements`."""

    @abstractmethod
    def view(self, table: TableInfo, touched: Touched) -> _V:
        """Return a table as the next statement sees it."""

    @abstractmethod
    def files(
        self, change: _S, plan: WritePlan, view: _V, touched: Touched
    ) -> tuple[publish.StagedFile, ...]:
        """Stage the files of a statement that sees `view`."""

    def run(self, change: _S, touched: Touched) -> StatementResult:
        """Write one statement's files to staging; only the partitions in `touched` are locked."""
        part = self._write.tables[change.table.ref]
        view = self.view(change.table, touched)
        part.check_locations(view.elsewhere.values())
        if view.staged is None:  # a view with staged files may have partitions that do not exist
            part.note_existing(view.partitions)
        check_files_writable(change.table, view.partitions)
        plan = self.plan(view.table, change.operations, view.elsewhere)
        with named_twins(view):
            files = self.files(change, plan, view, touched)
        if change.details is not None:
            self._details |= change.details()
        replaced = touched.names if change.table.is_partitioned else (UNPARTITIONED,)
        if change.empties is not None:
            replaced = change.empties(tuple(p.name for p in view.partitions))
        return self.stage(kind_of(change.spec), plan, change.operations, files, replaced or ())

    def copied(self, sizes: Mapping[Reissue, int]) -> Mapping[str, int]:
        """Copy many files (`CopyMany`), in this process."""
        return {work.target: reissue(work) for work in sizes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[_S, _V]):
    """A job's statements, in order, and the engine that runs them.

    `work_of` begins the engine's work in a write. `not_kept` is the reason why a restart cannot use
    the files that it has staged, or None. `sources` returns the tables that are only read.
    `naming` adds the number of a statement to its errors.
    """

    job: WritingJob
    changes: Sequence[_S]
    work_of: Callable[[Write], StatementWork[_S, _V]]
    not_kept: str | None
    sources: Callable[[], Iterable[TableInfo]] = tuple
    naming: Callable[[int, int], AbstractContextManager[None]] = numbered

    def result(self) -> JobResult:
        """Run the statements as one transaction, and return the job's result.

        If another transaction overtakes the job before the job publishes, the job restarts, at most
        four times. The restarted job keeps its rank among the copies of the job. Raises
        HiveAcidError if the job failed. Nothing was changed, with one exception: after
        `CommitStateUnknownError`, it is unknown whether the transaction was committed.
        """
        restart_state = restarts.RestartState(not_kept=self.not_kept)

        def attempt() -> JobResult:
            touched = touched_partitions(self.changes)
            with restarts.begun(
                self.job, accesses(self.changes, touched), self.sources(), restart_state
            ) as write:
                result = self._written(write, touched, restart_state)
            restart_state.staged = None
            return result

        try:
            return restarts.until_not_overtaken(attempt, restart_state)
        finally:
            if restart_state.staged is not None:
                restart_state.staged.write.discard()

    def _written(
        self, write: Write, touched: Sequence[Touched], restart_state: restarts.RestartState
    ) -> JobResult:
        """Run the statements and publish their files; leaving `begun` commits them."""
        job, changes = self.job, self.changes
        earlier = write.earlier_run()
        if earlier is not None:
            return restarts.already_done(job, write, earlier)
        scopes = touched_partitions(changes)
        for change, old_scope, new_scope in zip(changes, touched, scopes, strict=True):
            if old_scope != new_scope:
                raise write.tables[change.table.ref].overtaken("its partitions changed")
        restarts.check_sources(job, write)
        write.look_ahead()
        work = self.work_of(write)
        why_not = self._take_over(write, work, restart_state)
        if why_not is not None:
            for number, (change, scope) in enumerate(zip(changes, scopes, strict=True), start=1):
                with self.naming(number, len(changes)):
                    work.run(change, scope)
        if restart_state.not_kept is None:
            restart_state.staged = _staged(changes[0], write, work)
        return work.finish(restart_state.details(why_not))

    def _take_over(
        self, write: Write, work: StatementWork[_S, _V], restart_state: restarts.RestartState
    ) -> str | None:
        """Use the files that were staged before a restart; if impossible, return the reason."""
        staged, restart_state.staged = restart_state.staged, None
        if staged is None:
            return restart_state.not_kept or "it had staged nothing"
        (part,) = write.tables.values()
        try:
            why_not = restarts.why_in_full(self.job.client, part.table, staged)
            if why_not is None:
                directories = restarts.reissued(staged, part, work.copied)
                work.take_over(part.table.ref, directories, staged.operations, staged.results)
        except HiveAcidError as error:
            why_not = str(error)
        finally:
            staged.write.discard()
        return why_not


def _staged(change: PlannedStatement, write: Write, work: WrittenStatements) -> restarts.StagedWork:
    (part,) = write.tables.values()
    return restarts.StagedWork(
        write=write,
        write_id=part.write_id,
        directories=part.directories,
        operations=change.operations,
        results=work.results,
    )


def touched_partitions(changes: Sequence[PlannedStatement]) -> list[Touched]:
    """Return the partitions that each statement can touch now.

    If several statements change a table, an earlier one may add partitions that are not listed yet,
    so each gets only the partitions that it specifies itself.
    """
    count = Counter(change.table.ref for change in changes)
    scopes = [change.partitions() for change in changes]
    return [
        touched if count[change.table.ref] == 1 else Touched(names=change.fixed, seen=touched.seen)
        for change, touched in zip(changes, scopes, strict=True)
    ]


def accesses(changes: Sequence[PlannedStatement], touched: Sequence[Touched]) -> list[TableAccess]:
    """Return the access to each table of the statements, for the locks."""
    found: dict[TableRef, TableAccess] = {}
    for change, scope in zip(changes, touched, strict=True):
        access = TableAccess(
            table=change.table, operations=change.operations, partitions=scope.names
        )
        earlier = found.get(access.ref)
        found[access.ref] = access if earlier is None else _both(earlier, access)
    return list(found.values())


def _both(one: TableAccess, other: TableAccess) -> TableAccess:
    """Combine two statements' accesses to a table; without names, the whole table is locked."""
    names = None
    if one.partitions is not None and other.partitions is not None:
        names = nameable(tuple(sorted({*one.partitions, *other.partitions}, key=str)))
    return dataclasses.replace(one, operations=one.operations | other.operations, partitions=names)

"""The statements of one write: where each stages its files, and the results.

The statements run in order; each stages its files under its own statement ID. `finish` publishes
the files of all statements.

Statement IDs increase. Suppose a row and its delete event have the same write ID. Then Hive finds
the event only if a later statement wrote it (VectorizedOrcAcidRowBatchReader).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts, StatementResult
from airflow_hiveacid.jobs.specs.statements import StreamBatchSpec
from airflow_hiveacid.writing.event_files import WritePlan, writer_options
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.publish import (
    StagedDirectory,
    StagedFile,
    assemble,
    empty_file,
    row_counts,
)
from airflow_hiveacid.writing.write import Write


class WrittenStatements:
    """The statements that one write has staged. Mutable: it collects the statements' results."""

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
        files: tuple[StagedFile, ...],
        replaced: Collection[PartitionName] = (),
    ) -> StatementResult:
        """Add the files that the next statement has staged.

        `replaced` are the partitions that an overwrite replaces even without new rows.
        """
        directories = _assembled(plan, files, replaced)
        self._write.stage(plan.table.ref, directories, operations)
        staged = [file for directory in directories for file in directory.files]
        partitions = {str(d.partition) for d in directories if d.partition.columns}
        result = StatementResult(
            kind=kind,
            table=str(plan.table.ref),
            rows=row_counts(directories),
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
        directories: tuple[StagedDirectory, ...],
        operations: frozenset[DataOperation],
        results: tuple[StatementResult, ...],
    ) -> None:
        """Use the result and the files that the job's only statement staged before a restart."""
        self._write.stage(ref, directories, operations)
        size = sum(file.size_bytes for directory in directories for file in directory.files)
        self._results += (dataclasses.replace(result, size_bytes=size) for result in results)

    def finish(self, retried: Mapping[str, JsonValue] | None = None) -> JobResult:
        """Publish the files of all statements; leaving the write's block then commits them.

        `retried` are details about the run before a restart, for the result.
        """
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
    files: tuple[StagedFile, ...],
    replaced: Collection[PartitionName],
) -> tuple[StagedDirectory, ...]:
    """Assemble the files into directories; an overwrite also replaces partitions without rows."""
    if isinstance(plan.insert_directory, BaseName):
        for name in set(replaced) - {f.partition for f in files}:
            empty = empty_file(
                plan.table, name, str(plan.insert_directory), plan.staging(name), plan.options
            )
            files = (*files, empty)
    return assemble(files, {f.partition: plan.staging(f.partition) for f in files})

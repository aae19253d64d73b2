"""The results of cleanings and compactions: from outcomes for partitions to a `JobResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs.results import JobResult, JobStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.codec import JsonValue
    from airflow_hiveacid.format.policies import ConflictPolicy
    from airflow_hiveacid.jobs.specs.job import JobSpec
    from airflow_hiveacid.jobs.specs.maintenance import (
        CleanSpec,
        CleanTablesSpec,
        CompactSpec,
        CompactTablesSpec,
    )
    from airflow_hiveacid.maintenance.clean import CleaningOutcome
    from airflow_hiveacid.maintenance.clean_tables import TablesCleaning
    from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
    from airflow_hiveacid.maintenance.compaction_planner import TablesPlan
    from airflow_hiveacid.maintenance.many_tables import TablesRun


def cleaning_result(
    job: JobSpec, spec: CleanSpec, outcomes: Sequence[CleaningOutcome]
) -> JobResult:
    """Return the result of a cleaning, or of its plan."""
    removed = [one for outcome in outcomes for one in outcome.removed]
    return JobResult(
        kind=job.kind,
        job_key=job.job_key,
        status=_status(is_plan=spec.plan_only, is_done=bool(removed)),
        table=spec.target,
        partitions=tuple(o.partition for o in outcomes if o.partition and o.removed),
        files=len(removed),
        size_bytes=sum(one.size_bytes for one in removed),
        details={"cleanings": [to_json(outcome) for outcome in outcomes]},
    )


def cleanings_result(job: JobSpec, spec: CleanTablesSpec, run: TablesCleaning) -> JobResult:
    """Return the result of a cleaning of many tables, or of its plan.

    The tables with the largest removed and kept directories come first.
    """
    largest_first = sorted(
        run.cleaned,
        key=lambda one: (one.removed_bytes + one.kept_bytes, one.unknown_bytes),
        reverse=True,
    )
    removed = sum(one.removed for one in run.cleaned)
    return JobResult(
        kind=job.kind,
        job_key=job.job_key,
        status=_status(is_plan=spec.plan_only, is_done=bool(removed)),
        table=spec.target,
        files=removed,
        size_bytes=sum(one.removed_bytes for one in run.cleaned),
        details={
            "cleanings": [to_json(one) for one in largest_first],
            "cleaned_partitions": sum(one.partitions for one in run.cleaned),
            "kept": sum(one.kept for one in run.cleaned),
            "kept_bytes": sum(one.kept_bytes for one in run.cleaned),
            "unknown": sum(one.unknown for one in run.cleaned),
            "unknown_bytes": sum(one.unknown_bytes for one in run.cleaned),
            **_tables_of(run),
        },
    )


def compaction_result(
    job: JobSpec,
    spec: CompactSpec,
    outcomes: Sequence[CompactionOutcome],
    policy: ConflictPolicy,
) -> JobResult:
    """Return the result of a table's compaction, or of its plan."""
    done = [outcome for outcome in outcomes if outcome.done]
    return JobResult(
        kind=job.kind,
        job_key=job.job_key,
        status=_status(is_plan=spec.plan_only, is_done=bool(done)),
        table=spec.target,
        txn_id=done[0].txn_id if len(done) == 1 else None,
        partitions=tuple(outcome.partition for outcome in done if outcome.partition),
        files=sum(outcome.files for outcome in done),
        size_bytes=sum(outcome.bytes_out for outcome in done),
        details={
            "compactions": [to_json(outcome) for outcome in outcomes],
            "conflict_policy": policy.value,
        },
    )


def compactions_result(job: JobSpec, spec: CompactTablesSpec, run: TablesPlan) -> JobResult:
    """Return the result of a compaction of many tables, or of its plan."""
    done = [outcome for _, outcome in run.outcomes if outcome.done]
    compactions: list[JsonValue] = [
        {"table": table, **_record(outcome)} for table, outcome in run.outcomes
    ]
    return JobResult(
        kind=job.kind,
        job_key=job.job_key,
        status=_status(is_plan=spec.plan_only, is_done=bool(done)),
        table=spec.target,
        files=sum(outcome.files for outcome in done),
        size_bytes=sum(outcome.bytes_out for outcome in done),
        details={
            "compactions": compactions,
            "window_ended": run.window_ended,
            **_tables_of(run),
        },
    )


def _tables_of(run: TablesRun) -> dict[str, JsonValue]:
    """Return what the results of all jobs of many tables contain."""
    return {
        "tables": run.tables,
        "partitions": run.partitions,
        "skipped": [{"table": table, "why": why} for table, why in run.skipped.items()],
    }


def _record(outcome: CompactionOutcome) -> dict[str, JsonValue]:
    record = to_json(outcome)
    if not isinstance(record, dict):
        raise TypeError("an outcome is an object")
    return record


def _status(*, is_plan: bool, is_done: bool) -> JobStatus:
    if is_plan:
        return JobStatus.PLANNED
    return JobStatus.COMMITTED if is_done else JobStatus.NOTHING_TO_DO

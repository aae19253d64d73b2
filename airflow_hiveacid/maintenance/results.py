"""The results of cleanings and compactions: from the run of a job to its `JobResult`.

A job of one table lists the outcome of each partition. A job of many tables lists what was due, by
table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.policies import chosen_policy
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.job import JobSpec
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec, CompactSpec
from airflow_hiveacid.maintenance.many_tables import TablesRun

if TYPE_CHECKING:
    from airflow_hiveacid.maintenance.clean_tables import TablesCleaning
    from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
    from airflow_hiveacid.maintenance.compaction_planner import TablesPlan


def cleaning_result(job: JobSpec, spec: CleanSpec, run: TablesCleaning) -> JobResult:
    """Return the result of a cleaning, or of its plan.

    Of many tables, those with the largest removed and kept directories come first.
    """
    removed = sum(table.removed for table in run.cleaned)
    details: dict[str, JsonValue]
    if spec.is_of_table:
        details = {"cleanings": [to_json(outcome) for outcome in run.outcomes]}
    else:
        largest_first = sorted(
            run.cleaned,
            key=lambda table: (table.removed_bytes + table.kept_bytes, table.unknown_bytes),
            reverse=True,
        )
        details = {
            "cleanings": [to_json(table) for table in largest_first],
            "cleaned_partitions": sum(table.partitions for table in run.cleaned),
            "kept": sum(table.kept for table in run.cleaned),
            "kept_bytes": sum(table.kept_bytes for table in run.cleaned),
            "unknown": sum(table.unknown for table in run.cleaned),
            "unknown_bytes": sum(table.unknown_bytes for table in run.cleaned),
            **_tables_of(run),
        }
    return JobResult(
        kind=job.kind,
        job_key=job.job_key,
        status=_status(is_plan=spec.plan_only, is_done=bool(removed)),
        table=spec.target,
        partitions=tuple(o.partition for o in run.outcomes if o.partition and o.removed),
        files=removed,
        size_bytes=sum(table.removed_bytes for table in run.cleaned),
        details=details,
    )


def compaction_result(job: JobSpec, spec: CompactSpec, run: TablesPlan) -> JobResult:
    """Return the result of a compaction, or of its plan."""
    compacted = [outcome for _, outcome in run.outcomes if outcome.done]
    details: dict[str, JsonValue]
    if run.table is not None:
        parameters, default = run.table.parameters, job.default_conflict_policy
        policy = chosen_policy(job.conflict_policy, parameters, default, table=run.table.ref)
        details = {
            "compactions": [to_json(outcome) for outcome in run.of_table],
            "conflict_policy": policy.value,
        }
    else:
        details = {
            "compactions": [
                {"table": table, **_record(outcome)} for table, outcome in run.outcomes
            ],
            "window_ended": run.window_ended,
            **_tables_of(run),
        }
    of_table = run.of_table if spec.is_of_table else []
    return JobResult(
        kind=job.kind,
        job_key=job.job_key,
        status=_status(is_plan=spec.plan_only, is_done=bool(compacted)),
        table=spec.target,
        txn_id=compacted[0].txn_id if of_table and len(compacted) == 1 else None,
        partitions=tuple(o.partition for o in of_table if o.done and o.partition),
        files=sum(outcome.files for outcome in compacted),
        size_bytes=sum(outcome.bytes_out for outcome in compacted),
        details=details,
    )


def _tables_of(run: TablesRun) -> dict[str, JsonValue]:
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

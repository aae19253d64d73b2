"""Statements that a task executes with metastore calls, without a Spark job.

Input is a statement, its `Order` and the notes of earlier tries. Output is a `JobResult`, as for a
Spark job.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.metastore.transactions.terms import JobTerms

if TYPE_CHECKING:
    from airflow_hiveacid.format.codec import JsonValue
    from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
    from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
    from airflow_hiveacid.operators.statements.notes import Order, StatementNote


def run_in_metastore(
    hook: HiveAcidHook, statement: MetastoreStatement, order: Order, note: StatementNote
) -> JobResult:
    """Execute a statement with metastore calls, and return the statement's result."""
    began_s = time.monotonic()
    state = note.before()
    outcome = hook.run(
        statement,
        terms=JobTerms(
            job_key=order.job_key,
            attempt=AttemptId.parse(order.attempt),
            lock_timeout_s=order.lock_timeout_s,
        ),
        before=state,
        on_begin=note.begin,
    )
    if outcome.has_changed:
        status = JobStatus.COMMITTED
    else:
        status = JobStatus.NOTHING_TO_DO if state is None else JobStatus.ALREADY_DONE
    details: dict[str, JsonValue] = {}
    if statement.asks_only:
        rows = [dict(row) for row in outcome.rows]
        details = {"rows": rows, "count": len(outcome.rows)}
    return JobResult(
        kind=statement.kind,
        job_key=order.job_key,
        status=status,
        table=statement.target,
        txn_id=outcome.txn_id,
        partitions=tuple(str(name) for name in outcome.partitions),
        seconds=time.monotonic() - began_s,
        details=details,
    )


def what_came_of(result: JobResult) -> str:
    """Return a one-line summary of a metastore statement's result."""
    target = f" {result.table}" if result.table else ""
    if "count" in result.details:
        return f"{result.kind}{target}: {result.details['count']} rows"
    parts = f", partitions {', '.join(result.partitions)}" if result.partitions else ""
    return f"{result.kind}{target}: {result.status.value}{parts}"

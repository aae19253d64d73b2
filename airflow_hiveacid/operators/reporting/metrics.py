"""Metrics of jobs, for whatever backend Airflow's section `[metrics]` configures.

Each tag has only a few possible values: kinds of jobs, states, kinds of row changes, error classes.
No tag contains the name of a table or DAG, because a metrics backend stores one series for each
value of a tag. docs/reference/metrics.md lists the metrics.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.airflow_names import stats
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.operators.reporting.plan_text import reasons_left

if TYPE_CHECKING:
    from airflow_hiveacid.writing.streams import StreamReport

_STREAM: Final = {"kind": "stream"}


def count_job(result: JobResult, elapsed_s: float) -> None:
    """Count a job that has ended without an error, and what it has changed.

    `elapsed_s` includes Spark's start and end. If an earlier try has done the job, count the job,
    but not its rows and bytes.
    """
    tags = {"kind": result.kind, "status": result.status.value}
    stats.incr("hiveacid.jobs", tags=tags)
    stats.timing("hiveacid.job_duration", timedelta(seconds=elapsed_s), tags=tags)
    partitions_left = reasons_left(result.details).total()
    if partitions_left and result.status is not JobStatus.PLANNED:
        stats.incr("hiveacid.partitions_left", partitions_left, tags={"kind": result.kind})
    if result.status is not JobStatus.COMMITTED:
        return
    for change, rows in asdict(result.rows).items():
        if rows:
            stats.incr("hiveacid.rows", rows, tags={"kind": result.kind, "change": change})
    stats.incr("hiveacid.bytes", result.size_bytes, tags={"kind": result.kind})


def count_failure(error: HiveAcidError) -> None:
    """Count a job that has failed, by the class of its error."""
    stats.incr("hiveacid.failed_jobs", tags={"error": type(error).__name__})


def count_stream(report: StreamReport) -> None:
    """Count what a stream did since its last report, and time its lag and its last commit."""
    stats.incr("hiveacid.stream_batches", report.batches, tags=_STREAM)
    stats.incr("hiveacid.stream_rows", report.rows, tags=_STREAM)
    stats.timing("hiveacid.stream_lag", timedelta(seconds=report.lag_s), tags=_STREAM)
    stats.timing("hiveacid.stream_last_commit", timedelta(seconds=report.idle_s), tags=_STREAM)

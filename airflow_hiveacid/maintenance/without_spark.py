"""Whole maintenance jobs that need no Spark: cleanings, and compactions with nothing due."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_hiveacid.format.errors import PartitionsFailedError
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.job import JobSpec
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec, CompactSpec
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.compaction_planner import TablesPlan, Window, plan_tables
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.preflight import preflight

log = logging.getLogger("hiveacid")


def done_on_worker(
    client: MetastorePort, job: JobSpec, on_step: Callable[[str], None]
) -> JobResult | None:
    """Do a job as far as it needs no Spark; return its result, or None if it needs a driver."""
    match job.job:
        case CleanSpec() as spec:
            return clean_on_worker(client, job, spec, on_step)
        case CompactSpec() as spec:
            return nothing_to_compact(client, job, spec)
        case _:
            return None


def clean_on_worker(
    client: MetastorePort, job: JobSpec, spec: CleanSpec, on_step: Callable[[str], None]
) -> JobResult:
    """Clean the tables of `spec`, or plan the cleaning, and return the result."""
    _warn(client)
    return clean_tables(client, spec, on_step).result(job)


def nothing_to_compact(client: MetastorePort, job: JobSpec, spec: CompactSpec) -> JobResult | None:
    """Return the result of a compaction if no partition is due, or if the job only plans.

    The result is None if the job must compact: a partition is due, or may be, because it cannot be
    planned; or the user has requested minor or major compactions, which may wait for another
    client's. If the job's window ends during the plan, the partitions that are due are left.
    """
    if not spec.plan_only and spec.choice.insists:
        return None
    try:
        plan = plan_tables(client, spec)
        if spec.plan_only:
            plan.report_due()
        plan.check(plan.done)
    except PartitionsFailedError as error:
        if spec.plan_only:
            raise
        log.warning("cannot plan every partition, so a Spark driver does it: %s", error)
        return None
    if plan.due and not spec.plan_only:
        if not Window.of(spec).is_over:
            return None
        plan.leave(plan.due)
    _warn(client)
    return plan.result(job)


def nothing_in_window(job: JobSpec, spec: CompactSpec) -> JobResult | None:
    """Return the result of a compaction if its window has ended before its plan."""
    if not Window.of(spec).is_over:
        return None
    log.info("the window has ended, so this job does nothing")
    return TablesPlan(spec=spec, window_ended=True).result(job)


def _warn(client: MetastorePort) -> None:
    for finding in preflight(client):
        log.warning("%s", finding)

"""Whole maintenance jobs that need no Spark: cleanings, and compactions with nothing due.

Input is a metastore and a job's spec. Output is a `JobResult`, as for a Spark job.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import PartitionsFailedError
from airflow_hiveacid.format.policies import chosen_policy
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.maintenance.clean_table import clean_table
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.compaction_facts import plan_table
from airflow_hiveacid.maintenance.compaction_planner import TablesPlan, plan_tables
from airflow_hiveacid.maintenance.results import (
    cleaning_result,
    cleanings_result,
    compaction_result,
    compactions_result,
)
from airflow_hiveacid.maintenance.window import Window
from airflow_hiveacid.metastore.preflight import preflight

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.jobs.specs.job import JobSpec
    from airflow_hiveacid.jobs.specs.maintenance import (
        CleanSpec,
        CleanTablesSpec,
        CompactSpec,
        CompactTablesSpec,
    )
    from airflow_hiveacid.metastore.port import MetastorePort

log = logging.getLogger("hiveacid")


def cleaned(
    client: MetastorePort, job: JobSpec, spec: CleanSpec, on_step: Callable[[str], None]
) -> JobResult:
    """Clean the table of `spec`, or plan the cleaning, and return the result.

    Raises:
        HiveAcidError: as in `clean_table`.
    """
    _warn(client)
    return cleaning_result(job, spec, clean_table(client, spec, on_step))


def cleaned_tables(
    client: MetastorePort, job: JobSpec, spec: CleanTablesSpec, on_step: Callable[[str], None]
) -> JobResult:
    """Clean the tables of `spec`, or plan the cleaning, and return the result.

    Raises:
        HiveAcidError: as in `clean_tables`.
    """
    _warn(client)
    return cleanings_result(job, spec, clean_tables(client, spec, on_step))


def nothing_to_compact(client: MetastorePort, job: JobSpec, spec: CompactSpec) -> JobResult | None:
    """Return the result of a compaction if no partition is due, or if the job only plans.

    The result is None if the job must compact: a partition is due, or the user has requested a
    minor or major compaction, which may wait for another client's compaction. The result is also
    None if one of several partitions cannot be planned, because the others may be due.

    Raises:
        HiveAcidError: the table does not exist, or as in `plan_table`.
    """
    if not spec.plan_only and spec.choice.insists:
        return None
    table = client.get_table(TableRef.parse(spec.target))
    try:
        outcomes = plan_table(client, table, spec)
    except PartitionsFailedError as error:
        if spec.plan_only:
            raise
        log.warning("cannot plan every partition, so a Spark driver does it: %s", error)
        return None
    due = [outcome for outcome in outcomes if outcome.kind != "none"]
    if due and not spec.plan_only:
        log.info("compaction is due: partitions=%d of=%d", len(due), len(outcomes))
        return None
    _warn(client)
    policy = chosen_policy(
        job.conflict_policy, table.parameters, job.default_conflict_policy, table=table.ref
    )
    return compaction_result(job, spec, outcomes, policy)


def nothing_to_compact_in_tables(
    client: MetastorePort, job: JobSpec, spec: CompactTablesSpec
) -> JobResult | None:
    """Return the result of a compaction of many tables if nothing is due, or if the job only plans.

    The result is None if the job must compact: a partition is due, a table or partition cannot be
    planned, or the user has requested minor or major compactions. If the job's window ends during
    the plan, the partitions that are due are left.

    Raises:
        HiveAcidError: as in `plan_tables`; with `plan_only` also `PartitionsFailedError`.
    """
    if not spec.plan_only and spec.choice.insists:
        return None
    plan = plan_tables(client, spec)
    if spec.plan_only:
        plan.report_due()
        plan.check(spec.target, plan.done)
    elif plan.due and Window.of(spec).is_over and not plan.failed:
        plan.leave(plan.due)
    elif plan.due or plan.failed:
        return None
    _warn(client)
    return compactions_result(job, spec, plan)


def nothing_in_window(job: JobSpec, spec: CompactTablesSpec) -> JobResult | None:
    """Return the result of a compaction of many tables if its window has ended before its plan."""
    if not Window.of(spec).is_over:
        return None
    log.info("the window has ended, so this job does nothing")
    return compactions_result(job, spec, TablesPlan(window_ended=True))


def _warn(client: MetastorePort) -> None:
    for finding in preflight(client):
        log.warning("%s", finding)

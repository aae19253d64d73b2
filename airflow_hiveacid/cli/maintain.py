"""The commands `plan`, `compact`, `clean`, `own`, `convert` and `restore`.

They do what the operators do. Large compactions and restores, and conversions, run Spark in their
own process, so they need PySpark.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.cli import metastore as cli_metastore, view as cli_view
from airflow_hiveacid.cli.arguments import named
from airflow_hiveacid.cli.many_tables import SKIPPED, pattern_of, tables_answer, with_others
from airflow_hiveacid.cli.output import Answer, Column, field, partition, shown
from airflow_hiveacid.cli.spark_environment import other_environment
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ConfigurationError, SparkNeededError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.format.words import counted, first_few, several
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec, JobStatus, kind_of
from airflow_hiveacid.jobs.maintenance import (
    CleanSpec,
    CompactionChoice,
    CompactSpec,
    ConversionTarget,
    ConvertSpec,
    RestoreSpec,
)
from airflow_hiveacid.maintenance.clean_tables import TablesCleaning, clean_matching, clean_tables
from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
from airflow_hiveacid.maintenance.compaction_planner import TablesPlan, plan_tables
from airflow_hiveacid.maintenance.conversion_survey import ConversionSurvey
from airflow_hiveacid.maintenance.ownership import take_ownership
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.operators.reporting.plan_text import restore_lines, size_text, unknown_text
from airflow_hiveacid.plan.conversion import ConversionOutcome
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.plan.statements.dml import check_insertable
from airflow_hiveacid.versions.past import Past
from airflow_hiveacid.versions.restoring import Differing, differing_roots
from airflow_hiveacid.writing.job import WritingJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_hiveacid.spark.writing.context import JobContext


def plan(options: argparse.Namespace) -> Iterator[str]:
    """Yield the compactions that are due now, by partition or table, and start none of them."""
    is_of_table = pattern_of(options) is None
    with cli_metastore.connected(options) as client:
        run = plan_tables(client, _spec(options, plan_only=True, is_of_table=is_of_table))
        run.report_due()
    if not is_of_table:
        yield from _plan_by_table(run, options)
        return
    run.check(run.done)
    outcomes = [to_json(outcome) for outcome in run.of_table]
    yield shown(_answer(outcomes, is_plan=True), options.output)


def _plan_by_table(run: TablesPlan, options: argparse.Namespace) -> Iterator[str]:
    by_table: dict[str, list[CompactionOutcome]] = {}
    for table, outcome in run.outcomes:
        by_table.setdefault(table, []).append(outcome)
    records: list[dict[str, Any]] = []
    for table, outcomes in by_table.items():
        due = [outcome for outcome in outcomes if not outcome.is_hindered]
        first = [outcome for outcome in outcomes if outcome.is_hindered] or due
        record = {
            "table": table,
            "state": "due" if first is due else "blocked",
            "due": len(due),
            "directories": sum(len(outcome.inputs) for outcome in due),
            "bytes_in": sum(outcome.bytes_in for outcome in due),
            "why": first_few([*counted(outcome.why for outcome in first)], most=1),
        }
        records.append(record)
    records.sort(key=lambda record: -record["bytes_in"])
    listed = with_others(records, run)
    # `listed` may have failed tables that `run.tables` does not count; then this would be negative.
    fine = max(0, run.tables - sum(record["state"] != SKIPPED for record in listed))
    yield from tables_answer(listed, options, fine=fine)


def compact(options: argparse.Namespace) -> Iterator[str]:
    """Compact the partitions that need it, in this process; large ones with Spark."""
    from airflow_hiveacid.arrow.compaction import compact_in_process  # noqa: PLC0415 - Arrow's part

    spec = _spec(options, plan_only=False)
    plan = "see what is due with the command plan"
    lack = partial(lack_of_pyspark, "compact", "HiveAcidCompactOperator", options, plan=plan)
    with_spark = "maintenance.compact_tables:compact_tables"
    result = _result(options, spec, compact_in_process, with_spark, lack)
    outcomes: Any = result.details["compactions"]
    yield shown(_answer(outcomes, is_plan=False), options.output)


def _result(
    options: argparse.Namespace,
    job: Job,
    run: Callable[[WritingJob], JobResult],
    with_spark: str,
    lack: Callable[..., ConfigurationError],
) -> JobResult:
    """Run a job without Spark or, if it needs Spark, by the function `with_spark` of `spark`."""
    endpoint = cli_metastore.endpoint_of(options)
    # Each call of the command is a separate job.
    key = f"{kind_of(job)}/{options.table}/{uuid.uuid4().hex}"
    spec = JobSpec(job_key=f"command line/{key}", metastore=endpoint, job=job)
    with cli_metastore.connected(options) as client:
        try:
            return run(WritingJob(spec=spec, client=client, terms=JobTerms.of(spec)))
        except SparkNeededError as error:
            if not has_pyspark():
                raise lack(why=f"because {error.reason}") from error
        run_with_spark: Callable[[JobContext], JobResult] = named(
            f"airflow_hiveacid.spark.{with_spark}"  # needs PySpark
        )
        return run_with_spark(local_job(client, endpoint, job, key))


def _spec(options: argparse.Namespace, *, plan_only: bool, is_of_table: bool = True) -> CompactSpec:
    return CompactSpec(
        tables=(str(options.table),),
        is_of_table=is_of_table,
        partition=None if options.partition is None else str(options.partition),
        choice=CompactionChoice(options.choice),
        delta_count=options.delta_count,
        delta_ratio=options.delta_ratio,
        also_when=options.also_when,
        plan_only=plan_only,
    )


def _answer(outcomes: Sequence[Any], *, is_plan: bool) -> Answer:
    columns = (
        partition(),
        field("compaction", "kind"),
        Column(head="directories", text=lambda one: str(len(one["inputs"]) or ""), is_number=True),
        Column(head="in", text=lambda one: size_text(one["bytes_in"]), is_number=True),
        Column(head="out", text=lambda one: size_text(one["bytes_out"]), is_number=True),
        *(() if is_plan else (field("done"),)),
        field("why", wraps=True),
    )
    return Answer(records=outcomes, columns=columns)


def clean(options: argparse.Namespace) -> Iterator[str]:
    """Clean a table, or plan the cleaning; yield the paths that are removed, kept or unknown.

    Of the tables of a pattern, yield only their totals, and change nothing.
    """
    yield from _clean(options) if pattern_of(options) is None else _cleaning_by_table(options)


def _cleaning_by_table(options: argparse.Namespace) -> Iterator[str]:
    if not options.dry_run:
        raise ConfigurationError(
            f"clean {options.table!r} needs --dry-run; HiveAcidCleanTablesOperator cleans the"
            " tables of a pattern"
        )
    spec = CleanSpec(
        tables=(options.table,), unknown_age_s=options.remove_unknown_after, plan_only=True
    )
    run = TablesCleaning(spec=spec)
    with cli_metastore.connected(options) as client:
        clean_matching(client, run, lambda _: None)
    records = []
    for total in sorted(run.cleaned, key=lambda total: -total.removed_bytes - total.kept_bytes):
        state = "due" if total.removed else "waiting" if total.kept else "fine"
        fields = asdict(total)
        why = fields.pop("why_kept")
        records.append({"table": fields.pop("table"), "state": state, **fields, "why": why})
    listed = with_others(records, run)
    fine = run.tables + run.unlisted - sum(record["state"] != SKIPPED for record in listed)
    yield from tables_answer(listed, options, fine=fine)


def _clean(options: argparse.Namespace) -> Iterator[str]:
    spec = CleanSpec.of_table(
        str(options.table),
        partition=None if options.partition is None else str(options.partition),
        unknown_age_s=options.remove_unknown_after,
        plan_only=options.dry_run,
    )
    with cli_metastore.connected(options) as client:
        outcomes = clean_tables(client, spec, lambda _: None).outcomes
    records: list[dict[str, Any]] = [
        {
            "partition": outcome.partition,
            "action": action,
            "path": path.path,
            "size_bytes": path.size_bytes,
            "why": path.why,
        }
        for outcome in outcomes
        for action, paths in (("remove", outcome.removed), ("keep", outcome.kept))
        for path in paths
    ]
    unknown = [(outcome, outcome.unknown) for outcome in outcomes if outcome.unknown is not None]
    unknown_count = sum(unknown_paths.count for _, unknown_paths in unknown)
    known_count = len(records)
    records += [
        {
            "partition": outcome.partition,
            "action": "none",
            "path": path.path,
            "size_bytes": path.size_bytes,
            "why": f"unknown: {unknown_text(asdict(path))}",
        }
        for outcome, unknown_paths in unknown
        for path in unknown_paths.largest
    ]
    removed = [record for record in records if record["action"] == "remove"]
    size = size_text(sum(record["size_bytes"] for record in removed)) or "0 B"
    would = "would be removed" if options.dry_run else "removed"
    foot = (
        f"{options.table}: {several(len(removed), 'path')} ({size}) {would},"
        f" {known_count - len(removed)} kept"
        + (f", {unknown_count:,} unknown" if unknown_count else "")
    )
    columns = (
        partition(),
        field("action"),
        field("path"),
        Column(head="size", text=lambda one: size_text(one["size_bytes"]), is_number=True),
        field("why", wraps=True),
    )
    yield shown(Answer(records=records, columns=columns, foot=foot), options.output)


def own(options: argparse.Namespace) -> Iterator[str]:
    """Record that this metastore's table owns its directory; yield the earlier owner, if any."""
    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        earlier_owner = take_ownership(client, table)
    earlier = "" if earlier_owner is None else str(earlier_owner)
    foot = f"{table.ref} owns {table.location} now"
    if earlier:
        foot += f"; the owner was {earlier}"
    record = {"table": str(table.ref), "location": table.location, "earlier_owner": earlier}
    yield shown(Answer(records=[record], foot=foot, is_text=True), options.output)


def convert(options: argparse.Namespace) -> Iterator[str]:
    """Convert a table, or plan the conversion; yield the steps."""
    ref, to = options.table, ConversionTarget(options.to)
    endpoint = cli_metastore.endpoint_of(options)
    with cli_metastore.connected(options) as client:
        if options.dry_run:
            outcome = ConversionSurvey(client=client, ref=ref, to=to).plan()
        else:
            if not has_pyspark():
                raise lack_of_pyspark("convert", "HiveAcidConvertOperator", options)
            from airflow_hiveacid.spark.conversions import convert_table  # noqa: PLC0415 - PySpark

            job = local_job(client, endpoint, ConvertSpec(target=str(ref), to=to), f"convert/{ref}")
            outcome = convert_table(job, ref, to)
    fields: Any = to_json(outcome)
    record = {"table": str(ref), **fields}
    text = _conversion_text(str(ref), outcome)
    yield shown(Answer(records=[record], foot=text, is_text=True), options.output)


def _conversion_text(table: str, outcome: ConversionOutcome) -> str:
    """Return the result of a conversion as readable text.

    Example:
        >>> from airflow_hiveacid.plan.conversion import ConversionOutcome
        >>> outcome = ConversionOutcome(
        ...     before="flat", after="full_acid", done=False, steps=("a", "b")
        ... )
        >>> print(_conversion_text("db.t", outcome))
        db.t: flat to full_acid, not done
          1. a
          2. b
    """
    rows = "" if outcome.rows is None else f", {outcome.rows} rows compared"
    head = f"{table}: {outcome.before} to {outcome.after}, {'done' if outcome.done else 'not done'}"
    steps = [f"  {number}. {step}" for number, step in enumerate(outcome.steps, start=1)]
    return "\n".join((head + rows, *steps))


def restore(options: argparse.Namespace) -> Iterator[str]:
    """Restore a table, in this process or with Spark, or plan it; yield the changed partitions."""
    ref, version = options.table, cli_view.version_of(options)
    if options.dry_run:
        with cli_metastore.connected(options) as client:
            partitions = _planned_restore(client, ref, version)
        changes = any(partition.how is not Way.NOTHING for partition in partitions)
        body: dict[str, Any] = {
            "table": str(ref),
            "status": "planned" if changes else "nothing_to_do",
            "restore": [to_json(partition) for partition in partitions],
        }
    else:
        result = _restored(options, RestoreSpec(target=str(ref), version=version.text()))
        is_new = result.status is JobStatus.COMMITTED
        body = {
            "table": result.table,
            "status": result.status.value,
            "write_id": result.write_ids.get(result.table) if is_new else None,
            **result.details,
        }
    text = _restore_text(body, str(version))
    yield shown(Answer(records=[body], foot=text, is_text=True), options.output)


def _restore_text(body: dict[str, Any], version: str) -> str:
    """Return the result of a restore as readable text.

    Example:
        >>> print(_restore_text({"table": "db.t", "status": "nothing_to_do"}, "version 3"))
        db.t: restore to version 3: nothing to do
    """
    suffix = f" as version {body['write_id']}" if body.get("write_id") else ""
    head = f"{body['table']}: restore to {version}: {body['status'].replace('_', ' ')}{suffix}"
    return "\n".join((head, *restore_lines(body)))


def _planned_restore(
    client: MetastoreClient, ref: TableRef, version: VersionSpec
) -> list[RestoredPartition]:
    table = client.get_table(ref)
    check_insertable(table)
    with cli_view.read_transaction(client, table) as txn:
        past, roots = differing_roots(
            client, table, version, txn.snapshot, taken_s=txn.seen_after_s
        )
        view = cli_view.view_of(client, table, None, txn.snapshot)
        return [_counted(view, past, root) for root in roots]


def _counted(view: cli_view.TableView, past: Past, root: Differing) -> RestoredPartition:
    """Count the rows of one partition that a restore would add, remove and leave unchanged.

    A deleted row's ID is never written again. So if a row is visible now and its write ID was
    visible at the version, the row was visible at the version.
    """
    rows_now, rows_then = (
        cli_view.rows_by_write(replace(view, write_ids=write_ids), root.info, state)
        for write_ids, state in ((past.now, root.now), (past.then, root.then))
    )
    is_plain = view.table.kind is TransactionalKind.INSERT_ONLY
    stay = 0
    if not is_plain:
        stay = sum(n for w, n in rows_now.items() if w < 1 or past.then.is_visible(WriteId(w)))
    return RestoredPartition.of(
        come=rows_then.total() - stay,
        go=rows_now.total() - stay,
        stay=stay,
        is_plain=is_plain,
        partition=str(root.info.name),
    )


def _restored(options: argparse.Namespace, spec: RestoreSpec) -> JobResult:
    from airflow_hiveacid.arrow.job import run_in_process  # noqa: PLC0415 - Arrow's part

    lack = partial(lack_of_pyspark, "restore", "HiveAcidRestoreOperator", options)
    return _result(options, spec, run_in_process, "statements.restore:restore", lack)


def has_pyspark() -> bool:
    """Return whether this environment has PySpark."""
    # Airflow's environment has pyspark-client. Its modules have PySpark's names, but no local
    # Spark.
    return any(importlib.metadata.distributions(name="pyspark"))


def lack_of_pyspark(
    name: str,
    operator: str,
    options: argparse.Namespace,
    *,
    why: str = "to read and write rows",
    plan: str = "give --dry-run",
) -> ConfigurationError:
    """Return an error that recommends the environment with PySpark, `operator` or `plan`."""
    return ConfigurationError(
        f"this environment has no PySpark, which the command needs {why}:"
        f" {other_environment(name, options)}, use {operator}, or {plan}"
    )


def local_session(name: str) -> SparkSession:
    """Return a Spark session in this process, whose local Python workers also run this Python."""
    from airflow_hiveacid.spark.engine.session import open_session  # noqa: PLC0415 - PySpark

    # Spark starts the `python3` on PATH, so change PATH. A Spark setting with this Python's path
    # would also apply on the nodes of a cluster, where the path does not exist.
    folder = Path(sys.executable).parent
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return open_session(name)


def local_job(
    client: MetastoreClient, endpoint: MetastoreEndpoint, job: Job, key: str
) -> JobContext:
    """Return the context of a job in this process; `key` identifies the job, not a call."""
    from airflow_hiveacid.spark.writing.context import JobContext  # noqa: PLC0415 - PySpark

    spec = JobSpec(job_key=f"command line/{key}", metastore=endpoint, job=job)
    return JobContext.of(local_session(f"hiveacid-{spec.kind}"), spec, client)

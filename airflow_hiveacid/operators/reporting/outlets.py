"""What others get from a task: asset events for the consumers of a table, and metrics of jobs.

Input is a task's outlets and the results of its jobs. Each change of a table causes one event. The
events of a `partitions_asset` have a key for each changed partition.

Each tag of a metric has only a few possible values: kinds of jobs, states, kinds of row changes,
error classes. No tag contains the name of a table or DAG, because a metrics backend stores one
series for each value of a tag. docs/reference/metrics.md lists the metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context

from airflow_hiveacid.airflow_names import stats
from airflow_hiveacid.assets.uris import WHOLE_TABLE, Aspect, AssetUri
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.hooks.hive_acid import DEFAULT_CONNECTION
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun
from airflow_hiveacid.jobs.short_form import short_form
from airflow_hiveacid.operators.reporting.plan_text import reasons_left

if TYPE_CHECKING:
    from airflow_hiveacid.writing.streams import StreamReport

_log: Final = logging.getLogger(__name__)

_MOST_KEYS: Final = 100
"""The most partitions that get an event each, because each event starts a DAG run."""
_LONGEST_KEY: Final = 250  # Airflow's limit


class RerunTerms(Protocol):
    """The fields of a job or statement that decide whether a rerun sends an asset event."""

    @property
    def generation(self) -> int:
        """See JobSpec."""

    @property
    def on_rerun(self) -> OnRerun:
        """See JobSpec."""


def describe_outlets(
    task: BaseOperator, context: Context, done: Sequence[tuple[RerunTerms, JobResult]]
) -> None:
    """Add a summary of a task's results to the events of its outlets.

    If the task had several jobs, `statements` in the event lists a summary of each job that changed
    something. The summary of a transaction lists the transaction's statements. An event gets the
    short form of a summary.
    """
    changed = [result for spec, result in done if _is_news(spec, result)]
    if not changed:
        # When the task succeeds, Airflow sends an event for each outlet in the task's list. So
        # remove the outlets that must get no event.
        task.outlets = []
        return
    news = [_gist(result) for result in changed]
    whole: dict[str, JsonValue] = news[0] if len(done) == 1 else {"statements": news}
    extra = short_form(whole)
    add_alias_events(
        task, context, {name for result in changed for name, _ in _changes(result)}, extra
    )
    events = context["outlet_events"]
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            events[outlet].extra.update(extra)
            uri = AssetUri.of(outlet)
            if uri is not None and uri.aspect is Aspect.PARTITIONS:
                _add_partitions(events[outlet], _keys(str(uri.table), changed))


def _add_partitions(event: Any, keys: list[str]) -> None:  # noqa: ANN401 - Airflow's accessor
    if hasattr(event, "add_partitions"):
        event.add_partitions(keys)
    elif keys:  # Airflow 3.1, 3.2
        _log.warning("events have no partition keys below Airflow 3.3; left out: %s", keys)


def add_alias_events(
    task: BaseOperator, context: Context, tables: Iterable[str], extra: dict[str, JsonValue]
) -> None:
    """Add an event for each changed table to the asset aliases in a task's outlets.

    Airflow sends an alias's events only if the task names their assets.
    """
    from airflow_hiveacid.assets.tables import hive_asset  # noqa: PLC0415 - for tasks only

    conn_id = getattr(task, "hive_acid_conn_id", DEFAULT_CONNECTION)
    for alias in (outlet for outlet in task.outlets if isinstance(outlet, AssetAlias)):
        for table in sorted(tables):
            context["outlet_events"][alias].add(hive_asset(table, hive_acid_conn_id=conn_id), extra)


def _keys(table: str, results: Sequence[JobResult]) -> list[str]:
    """Return the partition keys of an event: the changed partitions, or `WHOLE_TABLE`."""
    changed = [names for result in results for name, names in _changes(result) if name == table]
    if not changed:
        return []
    partitions = set().union(*changed)
    is_listed = 0 < len(partitions) <= _MOST_KEYS and all(
        0 < len(name) <= _LONGEST_KEY for name in partitions
    )
    return sorted(partitions) if is_listed else [WHOLE_TABLE]


def _changes(result: JobResult) -> list[tuple[str, Sequence[str]]]:
    """Return the tables that a job changed, each with its changed partitions.

    A statement that finds no row commits without writing a file, and its table is left out.
    TRUNCATE writes an empty file, so its table is included.
    """
    statements = result.details.get("statements")
    if isinstance(statements, list):
        return [
            (statement["table"], statement["partitions"])
            for statement in statements
            if statement["files"]
        ]
    if result.write_ids and not result.files:  # but a DDL statement has neither
        return []
    return [(result.table, result.partitions)]


def _gist(result: JobResult) -> dict[str, JsonValue]:
    head: dict[str, JsonValue] = {"status": result.status.value, "txn_id": result.txn_id}
    changes = [
        {
            "table": statement["table"],
            "write_id": result.write_ids.get(statement["table"]),
            "rows": statement["rows"],
            "partitions": statement["partitions"],
        }
        for statement in result.statements
    ]
    return head | ({"statements": changes} if "statements" in result.details else changes[0])


def _is_news(spec: RerunTerms, result: JobResult) -> bool:
    """Return true if the result is a change for which no asset event was sent.

    If an earlier try of this generation did the work but its result was lost, that try sent no
    event. In this case, the current try sends the event. A cleared task that skips its work sends
    no event, because it sent the event before it was cleared.
    """
    if result.status is JobStatus.ALREADY_DONE:
        return spec.generation == 0 or spec.on_rerun is not OnRerun.SKIP
    return result.status is JobStatus.COMMITTED


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

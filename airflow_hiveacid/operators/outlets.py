"""Asset events for the consumers of a table: one event for each change of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow.sdk import Asset

from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs.job import OnRerun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import BaseOperator, Context

    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.jobs.results import JobResult


class Ordered(Protocol):
    """The fields of a job or statement that decide whether its result causes an asset event."""

    @property
    def generation(self) -> int:
        """See JobSpec."""

    @property
    def on_rerun(self) -> OnRerun:
        """See JobSpec."""


def describe_outlets(
    task: BaseOperator, context: Context, done: Sequence[tuple[Ordered, JobResult]]
) -> None:
    """Add a summary of a task's results to the events of its outlets.

    If the task had several jobs, `statements` lists a summary of each job that changed something.
    The summary of a transaction lists the transaction's statements.
    """
    news = [_gist(result) for spec, result in done if _is_news(spec, result)]
    if not news:
        # On success, Airflow sends an event for every outlet that is still in the task's list.
        task.outlets = []
        return
    extra: dict[str, JsonValue] = news[0] if len(done) == 1 else {"statements": news}
    events = context["outlet_events"]
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            events[outlet].extra.update(extra)


def _gist(result: JobResult) -> dict[str, JsonValue]:
    statements = result.details.get("statements")
    if isinstance(statements, list):
        return {
            "status": result.status.value,
            "txn_id": result.txn_id,
            "statements": [
                {
                    "table": one["table"],
                    "write_id": result.write_ids.get(one["table"]),
                    "rows": one["rows"],
                    "partitions": one["partitions"],
                }
                for one in statements
            ],
        }
    return {
        "table": result.table,
        "status": result.status.value,
        "txn_id": result.txn_id,
        "write_id": result.write_ids.get(result.table),
        "rows": result.to_json()["rows"],
        "partitions": list(result.partitions),
    }


def _is_news(spec: Ordered, result: JobResult) -> bool:
    """Return true if the result is a change for which no asset event was sent.

    If an earlier try of this generation did the work but its result was lost, that try sent no
    event, so this try sends one. If a cleared task skips its work, it sends no event, because it
    sent the event before it was cleared.
    """
    if result.status is JobStatus.ALREADY_DONE:
        return spec.generation == 0 or spec.on_rerun is not OnRerun.SKIP
    return result.status is JobStatus.COMMITTED

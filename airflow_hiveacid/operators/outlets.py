"""What consumers of a table are told: an asset event for each change, and none for no change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow.sdk import Asset

from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs import OnRerun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import BaseOperator, Context

    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.jobs.results import JobResult


class Ordered(Protocol):
    """What was ordered, as far as it says whether its result is news."""

    @property
    def generation(self) -> int:
        """See JobSpec."""

    @property
    def on_rerun(self) -> OnRerun:
        """See JobSpec."""


def describe_outlets(
    task: BaseOperator, context: Context, done: Sequence[tuple[Ordered, JobResult]]
) -> None:
    """Put the gist of the results into the events of a task's outlets.

    Of several jobs, that of each which changed something, as a list under `statements`; of a
    transaction, that of each of its statements.
    """
    news = [_gist(result) for spec, result in done if _is_news(spec, result)]
    if not news:
        # Airflow sends an event for every outlet that a task has when it succeeds.
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
    """Whether consumers of the table have something new to see.

    What an earlier try of this generation had done before it was lost was never told, so this try
    tells it; what a cleared task skips was.
    """
    if result.status is JobStatus.ALREADY_DONE:
        return spec.generation == 0 or spec.on_rerun is not OnRerun.SKIP
    return result.status is JobStatus.COMMITTED

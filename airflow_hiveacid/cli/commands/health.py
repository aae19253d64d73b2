"""The command `health`, which measures the partitions of a table as the sensors do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Answer, Column, count, field, partition, shown
from airflow_hiveacid.operators.reporting.plan_text import size_text
from airflow_hiveacid.plan.compaction_policy import GivenThresholds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

COLUMNS: Final = (
    partition(),
    Column(head="base", text=lambda record: size_text(record["base_bytes"]), is_number=True),
    count("deltas", "delta_count"),
    Column(
        head="size",
        text=lambda record: size_text(record["delta_bytes"] + record["delete_delta_bytes"]),
        is_number=True,
    ),
    Column(head="of base", text=lambda record: _share(record["delta_ratio"]), is_number=True),
    count("obsolete"),
    count("aborted"),
    field("due", "why", wraps=True),
)


def health(options: argparse.Namespace) -> Iterator[str]:
    """Yield the measurements of each partition, and why it is due, or paused after failures.

    Raises:
        HiveAcidError: the table or partition does not exist or cannot be listed.
    """
    from airflow_hiveacid.watch.health import compaction_need  # noqa: PLC0415 - needs pyarrow

    given = GivenThresholds(
        delta_count=options.delta_count,
        delta_ratio=options.delta_ratio,
        also_when=options.also_when,
    )
    name = None if options.partition is None else str(options.partition)
    with cli_metastore.connected(options) as client:
        need = compaction_need(client, options.table, name, given)
    reasons = {entry.health.partition: entry.record()["why"] for entry in need.due}
    reasons |= need.paused
    records = [
        {**measures.record(), "why": reasons.get(measures.partition)} for measures in need.healths
    ]
    yield shown(Answer(records=records, columns=COLUMNS, foot=str(need)), options.output)


def _share(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.1f} %"

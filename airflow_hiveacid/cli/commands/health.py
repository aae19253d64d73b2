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
    """Yield the measurements of each partition, and why it is due, or paused after failures."""
    from airflow_hiveacid.hooks.health import look  # noqa: PLC0415 - needs Thrift and pyarrow

    name = None if options.partition is None else str(options.partition)
    found = look(
        cli_metastore.endpoint_of(options), str(options.table), name, given_thresholds(options)
    )
    due = {one.health.partition: one.record()["why"] for one in found.due}
    due |= found.paused
    records = [{**one.record(), "why": due.get(one.partition)} for one in found.healths]
    yield shown(Answer(records=records, columns=COLUMNS, foot=str(found)), options.output)


def given_thresholds(options: argparse.Namespace) -> GivenThresholds:
    """Return the thresholds that the options of a command give."""
    return GivenThresholds(
        delta_count=options.delta_count,
        delta_ratio=options.delta_ratio,
        also_when=options.also_when,
    )


def _share(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.1f} %"

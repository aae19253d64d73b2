"""The commands `plan` and `compact`, which work as `HiveAcidCompactOperator` does.

`plan` needs only a metastore and listings. `compact` runs Spark, so it needs PySpark.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.local_job import local_job, require_pyspark
from airflow_hiveacid.cli.output import Answer, Column, field, partition, shown
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.compaction_planner import plan_tables
from airflow_hiveacid.operators.reporting.plan_text import size_text


def plan(options: argparse.Namespace) -> Iterator[str]:
    """Yield the compactions that are due now, and start none of them."""
    with cli_metastore.connected(options) as client:
        spec = _spec(options, plan_only=True)
        run = plan_tables(client, spec)
        run.report_due()
        run.check(spec, run.done)
    outcomes = [to_json(outcome) for outcome in run.of_table]
    yield shown(_answer(outcomes, is_plan=True), options.output)


def compact(options: argparse.Namespace) -> Iterator[str]:
    """Compact the partitions that need it."""
    endpoint = cli_metastore.endpoint_of(options)
    require_pyspark("HiveAcidCompactOperator", plan="see what is due with the command plan")
    from airflow_hiveacid.spark.maintenance.compact_tables import compact_tables  # noqa: PLC0415 - PySpark

    # Each call of the command is a separate job.
    key = f"compact/{options.table}/{uuid.uuid4().hex}"
    with cli_metastore.connected(options) as client:
        result = compact_tables(local_job(client, endpoint, _spec(options, plan_only=False), key))
    outcomes: Any = result.details["compactions"]
    yield shown(_answer(outcomes, is_plan=False), options.output)


def _spec(options: argparse.Namespace, *, plan_only: bool) -> CompactSpec:
    return CompactSpec.of_table(
        str(options.table),
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

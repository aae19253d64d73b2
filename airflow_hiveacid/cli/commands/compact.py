"""The commands `plan` and `compact`, which work as `HiveAcidCompactOperator` does.

`plan` needs only a metastore and listings. `compact` runs Spark, so it needs PySpark.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.commands.spark_environment import local_session, require_pyspark
from airflow_hiveacid.cli.output import Answer, Column, field, partition, shown
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.operators.reporting.plan_text import size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.jobs.results import JobResult

_LOCK_TIMEOUT_S: Final = 300.0


def plan(options: argparse.Namespace) -> Iterator[str]:
    """Yield the compactions that are due now, and start none of them.

    Raises:
        HiveAcidError: the table or partition does not exist or cannot be listed.
    """
    from airflow_hiveacid.maintenance.compaction_planner import plan_tables  # noqa: PLC0415 - pyarrow

    with cli_metastore.connected(options) as client:
        spec = _spec(options, plan_only=True)
        run = plan_tables(client, spec)
        run.report_due()
        run.check(spec, run.done)
    yield shown(_answer([to_json(one) for one in run.of_table], is_plan=True), options.output)


def compact(options: argparse.Namespace) -> Iterator[str]:
    """Compact the partitions that need it.

    Raises:
        ConfigurationError: PySpark is missing.
        HiveAcidError: a compaction was requested but is not possible now, or a compaction failed.
    """
    endpoint = cli_metastore.endpoint_of(options)
    require_pyspark("HiveAcidCompactOperator", plan="see what is due with the command plan")
    from airflow_hiveacid.jobs.specs.job import JobSpec  # noqa: PLC0415 - loaded with the rest
    from airflow_hiveacid.spark.maintenance import compact_tables as spark_compact  # noqa: PLC0415
    from airflow_hiveacid.spark.writing.context import JobContext  # noqa: PLC0415 - as above

    with cli_metastore.connected(options) as client:
        spec = JobSpec(
            # Each call of the command is a separate job.
            job_key=f"command line/compact/{options.table}/{uuid.uuid4().hex}",
            metastore=endpoint,
            job=_spec(options, plan_only=False),
            lock_timeout_s=_LOCK_TIMEOUT_S,
        )
        spark = local_session("hiveacid-compact")
        job = JobContext.of(spark, spec, client)
        result = spark_compact.compact_tables(job)
    yield shown(_answer(_outcomes(result), is_plan=False), options.output)


def _outcomes(result: JobResult) -> Sequence[Any]:
    found: Any = result.details["compactions"]
    return list(found)


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

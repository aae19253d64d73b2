"""The command `convert`, which converts a table or plans the conversion.

A plan needs only a metastore. A conversion reads rows with Spark, so it needs PySpark.

Example:
    >>> from airflow_hiveacid.plan.conversion import ConversionOutcome
    >>> outcome = ConversionOutcome(before="flat", after="full_acid", done=False, steps=("a", "b"))
    >>> print(outcome_text("db.t", outcome))
    db.t: flat to full_acid, not done
      1. a
      2. b
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.local_job import local_job, require_pyspark
from airflow_hiveacid.cli.output import Answer, shown
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs.maintenance import ConversionTarget, ConvertSpec
from airflow_hiveacid.maintenance.conversion_survey import ConversionSurvey
from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient
from airflow_hiveacid.plan.conversion import ConversionOutcome


def convert(options: argparse.Namespace) -> Iterator[str]:
    """Convert a table, or plan the conversion; yield the steps."""
    ref, to = options.table, ConversionTarget(options.to)
    endpoint = cli_metastore.endpoint_of(options)
    with cli_metastore.connected(options) as client:
        if options.dry_run:
            outcome = _planned(client, ref, to)
        else:
            outcome = _converted(client, endpoint, ref, to)
    fields: Any = to_json(outcome)
    record = {"table": str(ref), **fields}
    text = outcome_text(str(ref), outcome)
    yield shown(Answer(records=[record], foot=text, is_text=True), options.output)


def outcome_text(table: str, outcome: ConversionOutcome) -> str:
    """Return the result of a conversion as readable text."""
    rows = "" if outcome.rows is None else f", {outcome.rows} rows compared"
    head = f"{table}: {outcome.before} to {outcome.after}, {'done' if outcome.done else 'not done'}"
    steps = [f"  {number}. {step}" for number, step in enumerate(outcome.steps, start=1)]
    return "\n".join((head + rows, *steps))


def _planned(client: MetastoreClient, ref: TableRef, to: ConversionTarget) -> ConversionOutcome:
    return ConversionSurvey(client=client, ref=ref, to=to).plan()


def _converted(
    client: MetastoreClient, endpoint: MetastoreEndpoint, ref: TableRef, to: ConversionTarget
) -> ConversionOutcome:
    require_pyspark("HiveAcidConvertOperator")
    from airflow_hiveacid.spark.conversions import convert_table  # noqa: PLC0415 - PySpark

    spec = ConvertSpec(target=str(ref), to=to)
    return convert_table(local_job(client, endpoint, spec, f"convert/{ref}"), ref, to)

"""Conversion of a table to another kind: in place, by moving files, or through a copy.

A full-ACID table becomes flat only through a copy: CREATE TABLE AS SELECT makes it as an
insert-only table, while others read and write the original. Then it is made flat, compared with the
original, and renamed to its name (`exchange`).
"""

from __future__ import annotations

import dataclasses

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.table import COPY_OF, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ConversionTarget, ConvertSpec
from airflow_hiveacid.jobs.statements import CreateAsSpec, SourceSpec
from airflow_hiveacid.maintenance.conversion_survey import ConversionSurvey
from airflow_hiveacid.metastore.half_exchange import copy_mark
from airflow_hiveacid.plan import conversion
from airflow_hiveacid.spark.maintenance.convert import Converter, Rows
from airflow_hiveacid.spark.maintenance.exchange import Exchange
from airflow_hiveacid.spark.statements.creation import create_and_fill
from airflow_hiveacid.spark.writing.context import JobContext


def convert(job: JobContext) -> JobResult:
    """Convert one table, or only report the steps."""
    spec = job.job_of(ConvertSpec)
    ref = TableRef.parse(spec.target)
    if spec.plan_only:
        outcome = ConversionSurvey(client=job.client, ref=ref, to=spec.to).plan()
    else:
        outcome = convert_table(job, ref, spec.to)
    if outcome.done:
        status = JobStatus.COMMITTED
    elif spec.plan_only and outcome.before != outcome.after:
        status = JobStatus.PLANNED
    else:
        status = JobStatus.NOTHING_TO_DO
    result = job.result(status, spec.target, {"conversion": to_json(outcome)})
    return dataclasses.replace(result, txn_id=outcome.txn_id, files=outcome.files_moved)


def convert_table(
    job: JobContext, ref: TableRef, to: ConversionTarget
) -> conversion.ConversionOutcome:
    """Convert a table to another kind, unless it is already of that kind."""
    exchange = Exchange(
        client=job.client,
        rows=Rows(spark=job.spark, client=job.client),
        ref=ref,
        terms=job.terms,
    )
    exchange.recover()
    table = job.client.get_table(ref)
    if to is ConversionTarget.FLAT and table.kind is TransactionalKind.FULL_ACID:
        return _leave(job, table, exchange)
    is_back = to is ConversionTarget.FULL_ACID and table.kind is TransactionalKind.NONE
    former_table = exchange.way_back(table) if is_back else None
    if former_table is not None:
        rows = exchange.come_back(former_table)
        steps = conversion.steps_back(exchange.kept)
        return conversion.outcome_of(table, to, steps=steps, done=True, rows=rows)
    return _converter(job, ref, to).convert()


def _leave(job: JobContext, table: TableInfo, exchange: Exchange) -> conversion.ConversionOutcome:
    exchange.make_room()
    copy = CreateAsSpec(
        target=str(exchange.copy),
        source=SourceSpec(table=str(table.ref)),
        partition_columns=tuple(column.name for column in table.partition_columns),
        insert_only=True,
        comment=table.parameters.get("comment"),
        properties={COPY_OF: copy_mark(table.ref, table)},
    )
    create_and_fill(dataclasses.replace(job, spec=dataclasses.replace(job.spec, job=copy)))
    _converter(job, exchange.copy, ConversionTarget.FLAT).convert()
    rows = exchange.leave()
    steps = conversion.steps_of(table, ConversionTarget.FLAT, 0)
    return conversion.outcome_of(table, ConversionTarget.FLAT, steps=steps, done=True, rows=rows)


def _converter(job: JobContext, ref: TableRef, to: ConversionTarget) -> Converter:
    return Converter(
        rows=Rows(spark=job.spark, client=job.client),
        client=job.client,
        ref=ref,
        to=to,
        terms=job.terms,
    )

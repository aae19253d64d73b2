"""CREATE TABLE ... AS SELECT: a table that becomes visible only when it is complete.

It is created under a hidden name that is unique to this try, filled by an INSERT, and renamed.
Hidden tables of other tries are removed, even if these are still running. A table parameter records
the job that created the table. See docs/decisions/definitions.md.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun
from airflow_hiveacid.jobs.metastore_statements import DropTable, RenameTable
from airflow_hiveacid.jobs.statements import CreateAsSpec, InsertSpec, ValueType
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.definitions.new_table import define
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.metastore.definitions.tables import found_table
from airflow_hiveacid.spark.engine.types import column_type
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import run_changes

MADE_BY: Final = "hiveacid.made.by"
"""Table parameter: key and generation of the job that created the table."""

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")

log = logging.getLogger("hiveacid")


def create_and_fill(job: JobContext) -> JobResult:
    """Create a table from a query, unless this job has already created it.

    The table may have been created if the state of its commit is unknown, or the metastore
    unavailable. After any other error, it was not created.
    """
    spec = job.job_of(CreateAsSpec)
    target = TableRef.parse(spec.target)
    existing = found_table(job.client, target)
    if existing is not None:
        return _as_it_is(job, spec, existing)
    hidden = TableRef.parse(spec.hidden(job.spec.job_key, job.spec.attempt))
    new = _new_table(job, spec, hidden)
    _remove_leftovers(job, spec)
    job.client.create_table(new)
    try:
        filled = run_changes(
            job, planned(job, [InsertSpec(target=str(hidden), source=spec.source)])
        )
        job.terms.on_step("filled")
        run_statement(job.client, RenameTable(target=str(hidden), new_name=spec.target), job.terms)
    except (errors.CommitStateUnknownError, errors.MetastoreUnavailableError):
        raise  # the table may already have its final name; the next try checks this
    except BaseException:
        _remove(job, hidden)
        raise
    return _named(filled, hidden, target)


def _as_it_is(job: JobContext, spec: CreateAsSpec, there: TableInfo) -> JobResult:
    """Return the result if a table has the name, whether this job created it or another client."""
    key, _, generation = there.parameters.get(MADE_BY, "").partition("#")
    is_own = key == _digest(spec, job.spec.job_key)
    result = job.result(JobStatus.ALREADY_DONE, there.ref)
    if is_own and (generation == str(job.spec.generation) or job.spec.on_rerun is OnRerun.SKIP):
        log.warning("nothing to do: an earlier try of this job created table=%s", there.ref)
        return result
    if is_own and job.spec.on_rerun is OnRerun.FAIL:
        raise errors.RerunRefusedError(
            table=there.ref, job_key=job.spec.job_key, txn_id=0, when="an earlier run"
        )
    if spec.if_not_exists:
        return dataclasses.replace(result, status=JobStatus.NOTHING_TO_DO)
    raise errors.DefinitionError(
        table=there.ref,
        detail="already exists; write CREATE TABLE IF NOT EXISTS to accept that",
    )


def _new_table(job: JobContext, spec: CreateAsSpec, hidden: TableRef) -> NewTable:
    types = _types(job, spec)
    layout_columns = (*spec.partition_columns, *spec.bucket_columns)
    missing = [name for name in layout_columns if name not in types]
    if missing:
        raise errors.ConfigurationError(
            f"table {spec.target}: {missing[0]!r} is not one of the query's columns, which are"
            f" {', '.join(types)}"
        )
    parameters = {
        **spec.properties,
        **({} if spec.comment is None else {"comment": spec.comment}),
        MADE_BY: f"{_digest(spec, job.spec.job_key)}#{job.spec.generation}",
    }
    return define(
        str(hidden),
        {name: type_ for name, type_ in types.items() if name not in spec.partition_columns},
        partition_columns={name: types[name] for name in spec.partition_columns},
        bucket_columns=spec.bucket_columns,
        num_buckets=spec.num_buckets,
        insert_only=spec.insert_only,
        stored_as=spec.stored_as,
        parameters=parameters,
    )


def _types(job: JobContext, spec: CreateAsSpec) -> dict[str, str]:
    """Return the Hive types of the query's columns; those of a source table are unchanged."""
    if spec.source.table is not None:
        table = job.client.get_source(TableRef.parse(spec.source.table))
        return {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    schema = job.source_shape(spec.source).schema
    parameter_values = (
        value for parameter in spec.source.parameters.values() for value in parameter.values
    )
    # With such a value or column, a timestamp of the query may be of either of Hive's types.
    has_local = any(value.type is ValueType.MOMENT for value in parameter_values) or any(
        TIMESTAMP_LOCAL in column.type
        for table in job.source_tables(spec.source).values()
        for column in (*table.columns, *table.partition_columns)
    )
    types: dict[str, str] = {}
    for field in schema.fields:
        name = field.name.lower()
        if not _PLAIN.match(name) or name in types:
            raise errors.ConfigurationError(
                f"table {spec.target}: column {field.name!r} of the query is not a valid name in a"
                " table, or occurs twice; give each column an alias of letters, digits and _"
            )
        type_ = column_type(field.dataType)
        if type_ is None or (has_local and "timestamp" in type_):
            raise errors.ConfigurationError(
                f"table {spec.target}: no single Hive type fits column {name!r}, whose type is"
                f" {field.dataType.simpleString()}; cast the column, or create the table first and"
                " INSERT INTO it"
            )
        types[name] = type_
    return types


def _named(result: JobResult, hidden: TableRef, target: TableRef) -> JobResult:
    directories = result.details.get("directories")
    moved = {
        "directories": [
            str(path).replace(f"/{hidden.name}/", f"/{target.name}/") for path in directories
        ]
        if isinstance(directories, list)
        else []
    }
    return dataclasses.replace(
        result,
        status=JobStatus.COMMITTED,
        table=str(target),
        write_ids={str(target): write_id for write_id in result.write_ids.values()},
        details={**result.details, **moved},
    )


def _remove_leftovers(job: JobContext, spec: CreateAsSpec) -> None:
    """Remove hidden tables of earlier tries; a try that is still running then fails."""
    own = TableRef.parse(spec.hidden_prefix(job.spec.job_key))
    names = job.client.list_tables(own.db)
    leftovers = [TableRef(own.db, name) for name in names if name.startswith(own.name)]
    for ref in leftovers:
        log.warning("removing a table left by an earlier try table=%s", ref)
        drop = DropTable(target=str(ref), if_exists=True, purge=True)
        run_statement(job.client, drop, job.terms)


def _remove(job: JobContext, hidden: TableRef) -> None:
    try:
        drop = DropTable(target=str(hidden), if_exists=True, purge=True)
        run_statement(job.client, drop, job.terms)
    except errors.HiveAcidError as error:
        log.warning("cannot remove table=%s now; a later try removes it: %s", hidden, error)


def _digest(spec: CreateAsSpec, job_key: str) -> str:
    return spec.hidden_prefix(job_key).removeprefix(spec.target).strip("_")

"""CREATE TABLE ... AS SELECT: a table that nobody sees before it is full.

Takes a checked description; makes the table under a hidden name of this try's own, fills it as any
INSERT does, and gives it its name. Before that nobody looks there, so what another try has left is
removed, whatever it came to; afterwards a table parameter tells whose it is. See docs/adr/0029.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    ConfigurationError,
    DefinitionError,
    HiveAcidError,
    MetastoreUnavailableError,
    RerunRefusedError,
)
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import CreateAsSpec, InsertSpec, OnRerun
from airflow_hiveacid.metastore.definition_lock import LockTerms
from airflow_hiveacid.metastore.definitions import run_statement
from airflow_hiveacid.metastore.new_table import define
from airflow_hiveacid.metastore.table_definitions import found_table
from airflow_hiveacid.plan.metastore_statements import DropTable, RenameTable
from airflow_hiveacid.spark.statements.planned import planned
from airflow_hiveacid.spark.types import column_type
from airflow_hiveacid.spark.writing.job import run_changes

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.catalog import NewTable
    from airflow_hiveacid.spark.writing.context import JobContext

MADE_BY: Final = "hiveacid.made.by"
"""Table parameter: the job that made and filled a table, and in which generation."""

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")

log = logging.getLogger("hiveacid")


def create_and_fill(job: JobContext) -> JobResult:
    """Make a table of what a query gives, or answer that this job has made it.

    Raises:
        HiveAcidError: there is no such table, except after an error that says that nobody knows.
    """
    spec = job.job_of(CreateAsSpec)
    target = TableRef.parse(spec.target)
    there = found_table(job.client, target)
    if there is not None:
        return _as_it_is(job, spec, there)
    hidden = TableRef.parse(spec.hidden(job.spec.job_key, job.spec.attempt))
    new = _new_table(job, spec, hidden)
    _remove_leftovers(job, spec)
    job.client.create_table(new)
    try:
        filled = run_changes(
            job, planned(job, [InsertSpec(target=str(hidden), source=spec.source)])
        )
        job.on_step("filled")
        run_statement(
            job.client, RenameTable(target=str(hidden), new_name=spec.target), _terms(job)
        )
    except (CommitStateUnknownError, MetastoreUnavailableError):
        raise  # it may have its name by now; the next try looks
    except BaseException:
        _remove(job, hidden)
        raise
    return _named(filled, hidden, target)


def _as_it_is(job: JobContext, spec: CreateAsSpec, there: TableInfo) -> JobResult:
    """What to say of a table that is there already."""
    key, _, generation = there.parameters.get(MADE_BY, "").rpartition("#")
    is_own = key == _digest(job, spec)
    result = JobResult(
        kind=job.spec.kind,
        job_key=job.spec.job_key,
        status=JobStatus.ALREADY_DONE,
        table=str(there.ref),
    )
    if is_own and (generation == str(job.spec.generation) or job.spec.on_rerun is OnRerun.SKIP):
        log.warning("nothing is made: an earlier try of this job has made table=%s", there.ref)
        return result
    if is_own and job.spec.on_rerun is OnRerun.FAIL:
        raise RerunRefusedError(
            table=there.ref, job_key=job.spec.job_key, txn_id=0, when="an earlier run"
        )
    if spec.if_not_exists:
        return dataclasses.replace(result, status=JobStatus.NOTHING_TO_DO)
    raise DefinitionError(
        table=there.ref, detail="exists already; write CREATE TABLE IF NOT EXISTS if it may"
    )


def _new_table(job: JobContext, spec: CreateAsSpec, hidden: TableRef) -> NewTable:
    """The hidden table: the query's columns, the partition columns behind the others.

    Raises:
        InputError: a column has no plain name, or a type that no table has.
    """
    types = _types(job, spec)
    named = (*spec.partition_columns, *spec.bucket_columns)
    missing = [name for name in named if name not in types]
    if missing:
        raise ConfigurationError(
            f"table {spec.target}: {missing[0]!r} is none of the query's columns, which are"
            f" {', '.join(types)}"
        )
    parameters = {
        **spec.properties,
        **({} if spec.comment is None else {"comment": spec.comment}),
        MADE_BY: f"{_digest(job, spec)}#{job.spec.generation}",
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
    """Hive types by column, as the query gives them; a whole table keeps its own."""
    if spec.source.table is not None:
        table = job.client.get_table(TableRef.parse(spec.source.table))
        return {c.name: c.type for c in (*table.columns, *table.partition_columns)}
    schema = job.source_shape(spec.source).schema
    has_local = any(
        TIMESTAMP_LOCAL in column.type
        for table in job.source_tables(spec.source).values()
        for column in (*table.columns, *table.partition_columns)
    )
    found: dict[str, str] = {}
    for field in schema.fields:
        name = field.name.lower()
        if not _PLAIN.match(name) or name in found:
            raise ConfigurationError(
                f"table {spec.target}: column {field.name!r} of the query cannot be one of a table,"
                " or is there twice; give each an alias of letters, digits and _"
            )
        type_ = column_type(field.dataType)
        if type_ is None or (has_local and "timestamp" in type_):
            raise ConfigurationError(
                f"table {spec.target}: column {name!r} is {field.dataType.simpleString()}, and it"
                " is not clear which type of Hive's it shall have; cast it, or make the table first"
                " and INSERT INTO it"
            )
        found[name] = type_
    return found


def _named(result: JobResult, hidden: TableRef, target: TableRef) -> JobResult:
    """The result under the name that the table has now."""
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
    """Remove what earlier tries were about to fill; the locks end one that is still at it."""
    prefix = TableRef.parse(spec.hidden_prefix(job.spec.job_key))
    for name in job.client.list_tables(prefix.db):
        if name.startswith(prefix.name):
            log.warning("removing what an earlier try has left table=%s.%s", prefix.db, name)
            drop = DropTable(target=f"{prefix.db}.{name}", if_exists=True, purge=True)
            run_statement(job.client, drop, _terms(job))


def _remove(job: JobContext, hidden: TableRef) -> None:
    """Remove a table that did not get its name, on the way out of an error."""
    try:
        drop = DropTable(target=str(hidden), if_exists=True, purge=True)
        run_statement(job.client, drop, _terms(job))
    except HiveAcidError as error:
        log.warning("left behind table=%s, which a later try removes: %s", hidden, error)


def _terms(job: JobContext) -> LockTerms:
    return LockTerms(
        job_key=job.spec.job_key,
        attempt=AttemptId.parse(job.spec.attempt),
        lock_timeout_s=job.spec.lock_timeout_s,
    )


def _digest(job: JobContext, spec: CreateAsSpec) -> str:
    return spec.hidden_prefix(job.spec.job_key).removeprefix(spec.target).strip("_")

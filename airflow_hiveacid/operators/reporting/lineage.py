"""The OpenLineage datasets of a task: the tables and files that its jobs read and write.

OpenLineage's provider calls methods of an operator at the start and the end of a task, in the
process of the task. At the end, a written table also has its write ID as its version, counts of
rows, files and bytes, and its change as a whole. The files at a location are one dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from airflow.providers.common.compat.openlineage.facet import Dataset, OutputDataset
from airflow.providers.openlineage.extractors import OperatorLineage

from airflow_hiveacid.assets.uris import AssetUri, dataset_name
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs import maintenance, metastore_statements as definitions, statements
from airflow_hiveacid.jobs.job import Job, JobResult, ProgramSpec
from airflow_hiveacid.operators.reporting import lineage_facets
from airflow_hiveacid.plan.statements.dml import tables_of


def lineage_of(
    conn_id: str,
    jobs: Sequence[Job | definitions.MetastoreStatement],
    results: Sequence[JobResult] = (),
) -> OperatorLineage[Any, Any]:
    """Return the datasets that jobs read and write.

    `results` are the results so far, in the order of the jobs; later jobs may have none yet.
    """
    read = _refs(name for job in jobs for name in tables_read(job))
    written = _refs(name for job in jobs for name in tables_written(job))
    facets = lineage_facets.merged(
        {table: {} for table in written},
        lineage_facets.new_columns(jobs),
        lineage_facets.versions(results),
        lineage_facets.lifecycles(jobs, results, partial(_address, conn_id)),
    )
    lineage = _lineage(
        conn_id,
        read={table: {} for table in read},
        written={table: facets[table] for table in written},
        counts=lineage_facets.counts(results),
        origins=partial(lineage_facets.column_lineage, jobs, results),
    )
    feeds = [job.location for job in jobs if isinstance(job, maintenance.ChangeFeedSpec)]
    locations = [location for job in jobs for location in locations_read(job)]
    lineage.inputs += [Dataset(*name) for name in lineage_facets.names_of(locations)]
    lineage.outputs += [OutputDataset(*name) for name in lineage_facets.names_of(feeds)]
    return lineage


def lineage_of_new_table(
    conn_id: str, table: str, columns: Mapping[str, str], *, is_new: bool
) -> OperatorLineage[Any, Any]:
    """Return the dataset of a table with these columns; `is_new` if the task has created it."""
    facets = lineage_facets.schema(columns.items())
    if is_new:
        facets = {**facets, **lineage_facets.lifecycle("CREATE")}
    return _lineage(conn_id, written={TableRef.parse(table): facets})


def lineage_of_version(conn_id: str, table: str, version: int | None) -> OperatorLineage[Any, Any]:
    """Return the dataset of a table that a task reads at a version, if the version is known.

    A tag is no output: another task has written the version that the tag names.
    """
    facets = {} if version is None else lineage_facets.version(version)
    return _lineage(conn_id, read={TableRef.parse(table): facets})


def _lineage(
    conn_id: str,
    *,
    read: lineage_facets.TableFacets = lineage_facets.NO_TABLES,
    written: lineage_facets.TableFacets = lineage_facets.NO_TABLES,
    counts: lineage_facets.TableFacets = lineage_facets.NO_TABLES,
    origins: Callable[..., lineage_facets.TableFacets] = lambda *_: lineage_facets.NO_TABLES,
) -> OperatorLineage[Any, Any]:
    tables = lineage_facets.tables_now(conn_id, dict.fromkeys((*read, *written)))
    column_facets = origins(tables, partial(_address, conn_id))

    def described(table: TableRef, facets: Mapping[str, Any]) -> dict[str, Any]:
        namespace, name = _address(conn_id, table)
        columns = lineage_facets.columns_of(tables[table]) if table in tables else {}
        return {"namespace": namespace, "name": name, "facets": {**facets, **columns}}

    return OperatorLineage(
        inputs=[Dataset(**described(table, facets)) for table, facets in read.items()],
        outputs=[
            OutputDataset(
                **described(table, {**facets, **column_facets.get(table, {})}),
                outputFacets=dict(counts.get(table, {})),
            )
            for table, facets in written.items()
        ],
    )


def locations_read(
    job: Job | statements.MultiInsertSpec | definitions.MetastoreStatement,
) -> tuple[str, ...]:
    """Return the locations of the files that a job reads as its source.

    Example:
        >>> locations_read(statements.LoadSpec(target="db.t", location="hdfs://nn/landing/day"))
        ('hdfs://nn/landing/day',)
    """
    match job:
        case statements.LoadSpec():
            return (job.location,)
        case statements.InsertSpec() | statements.CreateAsSpec() | statements.MergeSpec() if (
            job.source.location is not None
        ):
            return (job.source.location,)
        case statements.TransactionSpec():
            return tuple(location for part in job.statements for location in locations_read(part))
        case statements.MultiInsertSpec():
            return tuple(location for part in job.inserts for location in locations_read(part))
        case _:
            return ()


def tables_read(
    job: Job | statements.MultiInsertSpec | definitions.MetastoreStatement,
) -> tuple[str, ...]:
    """Return the tables from which a job takes rows, without the rows that it changes itself.

    Example:
        >>> from airflow_hiveacid.jobs.statements import SourceSpec
        >>> tables_read(statements.InsertSpec(target="db.t", source=SourceSpec(table="db.s")))
        ('db.s',)
    """
    names: Iterable[str] = ()
    match job:
        case statements.InsertSpec() | statements.CreateAsSpec():
            names = tables_of(job.source).values()
        case statements.MergeSpec():
            names = (*tables_of(job.source).values(), *job.tables.values())
        case statements.UpdateSpec() | statements.DeleteSpec() | statements.MultiInsertSpec():
            names = job.tables.values()
        case statements.TransactionSpec():
            names = (name for part in job.statements for name in tables_read(part))
        case ProgramSpec():
            names = job.reads
        case maintenance.ChangeFeedSpec() | maintenance.ProveErasureSpec():
            names = (job.target,)
        case _:
            pass  # no rows of another table
    return tuple(names)


def tables_written(job: Job | definitions.MetastoreStatement) -> tuple[str, ...]:
    """Return the tables that a job defines, changes, compacts or cleans.

    A renamed table has its new name.

    Example:
        >>> tables_written(definitions.RenameTable(target="db.t", new_name="db.u"))
        ('db.u',)
    """
    match job:
        case statements.TransactionSpec() | ProgramSpec():
            return job.targets
        case (
            maintenance.ChangeFeedSpec()
            | maintenance.ProveErasureSpec()
            | definitions.CreateDatabase()
        ):
            return ()
        case maintenance.CompactSpec() | maintenance.CleanSpec() if not job.is_of_table:
            return ()
        case definitions.RenameTable():
            return (job.new_name,)
        case definitions.MetastoreStatement() if job.asks_only:
            return ()
        case _:
            return (job.target,)


def _refs(names: Iterable[str]) -> list[TableRef]:
    return list(dict.fromkeys(TableRef.parse(name) for name in names))


def _address(conn_id: str, table: TableRef) -> tuple[str, str]:
    return dataset_name(AssetUri(conn_id=conn_id, table=table))

"""The OpenLineage facets of tables, and the names of datasets of files.

A table's facets are its columns, version, counts, and changes of the table itself. If this process
cannot ask the metastore, columns are missing.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from airflow.providers.common.compat.openlineage import facet as openlineage
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet

from airflow_hiveacid.format.errors import ConfigurationError, MetastoreError, TableError
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs import metastore_statements as definitions
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ConvertSpec

Facets: TypeAlias = Mapping[str, Any]
TableFacets: TypeAlias = Mapping[TableRef, Facets]

NO_TABLES: Final[TableFacets] = MappingProxyType({})

_CHANGES: Final[Mapping[type, str]] = MappingProxyType(
    {
        definitions.CreateTable: "CREATE",
        statements.CreateAsSpec: "CREATE",
        definitions.DropTable: "DROP",
        definitions.RenameTable: "RENAME",
        statements.TruncateSpec: "TRUNCATE",
        **dict.fromkeys(
            (
                definitions.AddColumns,
                definitions.AddPartitions,
                definitions.ChangeColumn,
                ConvertSpec,
                definitions.DropPartitions,
                definitions.SetProperties,
                definitions.UnsetProperties,
            ),
            "ALTER",
        ),
    }
)
"""OpenLineage's words for jobs; it has none for other changes of rows."""
_WHOLE: Final = ("CREATE", "DROP", "RENAME")
_OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}

_log = logging.getLogger(__name__)


def merged(*parts: TableFacets) -> TableFacets:
    """Return the facets of all parts, by table."""
    facets_of: defaultdict[TableRef, dict[str, Any]] = defaultdict(dict)
    for table, facets in chain.from_iterable(part.items() for part in parts):
        facets_of[table].update(facets)
    return facets_of


def tables_now(conn_id: str, tables: Iterable[TableRef]) -> Mapping[TableRef, TableInfo]:
    """Return those tables that the metastore can describe now."""
    infos: dict[TableRef, TableInfo] = {}
    try:
        with HiveAcidHook(conn_id).metastore() as client:
            for table in tables:
                # A table is missing if it was dropped, or is not created yet.
                with contextlib.suppress(TableError):
                    infos[table] = client.get_source(table)
    except (ConfigurationError, MetastoreError) as error:
        # The login may exist only on the driver's machine.
        _log.info("OpenLineage gets no columns: %s", error)
    return infos


def columns_of(table: TableInfo) -> Facets:
    """Return the schema facet of a table."""
    columns = (*table.columns, *table.partition_columns)
    return schema((column.name, column.type) for column in columns)


def schema(columns: Iterable[tuple[str, str]]) -> Facets:
    """Return the facet with these columns, given as pairs of name and Hive type."""
    fields = [
        openlineage.SchemaDatasetFacetFields(name=name, type=type_) for name, type_ in columns
    ]
    return {"schema": openlineage.SchemaDatasetFacet(fields=fields)}


def new_columns(jobs: Iterable[Job | definitions.MetastoreStatement]) -> TableFacets:
    """Return the schema facets of the tables that CREATE TABLE defines."""
    return {
        TableRef.parse(job.target): schema(
            (column.name, column.type) for column in (*job.columns, *job.partition_columns)
        )
        for job in jobs
        if isinstance(job, definitions.CreateTable)
    }


def version(number: int) -> Facets:
    """Return the facet with a version of a table."""
    return {"version": DatasetVersionDatasetFacet(datasetVersion=str(number))}


def versions(results: Sequence[JobResult]) -> TableFacets:
    """Return the version facet of each table that a job has changed."""
    return {
        TableRef.parse(name): version(write_id)
        for result in results
        for name, write_id in result.write_ids.items()
    }


def lifecycle(change: str, previous: tuple[str, str] | None = None) -> Facets:
    """Return the facet with a change of a table, such as `CREATE`.

    `previous` is the namespace and the name that the table had before a `RENAME`.
    """
    facet = openlineage.LifecycleStateChangeDatasetFacet(
        lifecycleStateChange=openlineage.LifecycleStateChange[change],
        previousIdentifier=None
        if previous is None
        else openlineage.PreviousIdentifier(namespace=previous[0], name=previous[1]),
    )
    return {"lifecycleStateChange": facet}


def lifecycles(
    jobs: Sequence[Job | definitions.MetastoreStatement],
    results: Sequence[JobResult],
    address: Callable[[TableRef], tuple[str, str]],
) -> TableFacets:
    """Return the lifecycle facet of each table that the finished jobs have changed as a whole.

    A dataset has only one such facet. If a task creates a table and then alters it, the facet says
    that the table is new. `address` returns a table's namespace and name.
    """
    facets_of: dict[TableRef, Facets] = {}
    for job, result in zip(jobs, results, strict=False):
        if result.status not in (JobStatus.COMMITTED, JobStatus.ALREADY_DONE):
            continue
        old = (
            address(TableRef.parse(job.target))
            if isinstance(job, definitions.RenameTable)
            else None
        )
        for name, change in _changes(job):
            table = TableRef.parse(name)
            if change in _WHOLE or table not in facets_of:
                facets_of[table] = lifecycle(change, old)
    return facets_of


def _changes(job: Job | definitions.MetastoreStatement) -> Iterator[tuple[str, str]]:
    match job:
        case statements.TransactionSpec():
            for part in job.statements:
                for statement in statements.each(part):
                    yield from _changes(statement)
        case (
            statements.InsertSpec(mode=statements.InsertMode.OVERWRITE)
            | statements.LoadSpec(overwrite=True)
        ):
            yield job.target, "OVERWRITE"
        case definitions.RenameTable():
            yield job.new_name, _CHANGES[definitions.RenameTable]
        case _ if type(job) in _CHANGES:
            yield job.target, _CHANGES[type(job)]
        case _:
            pass


def counts(results: Sequence[JobResult]) -> TableFacets:
    """Return the facet that counts what the jobs have written to each table."""
    totals: defaultdict[TableRef, Counter[str]] = defaultdict(Counter)
    for result in results:
        for statement in result.statements if result.write_ids else ():
            totals[TableRef.parse(statement["table"])].update(
                rows=statement["rows"]["inserted"] + statement["rows"]["updated"],
                files=statement["files"],
                bytes=statement["size_bytes"],
            )
    return {
        table: {
            "outputStatistics": openlineage.OutputStatisticsOutputDatasetFacet(
                rowCount=total["rows"], fileCount=total["files"], size=total["bytes"]
            )
        }
        for table, total in totals.items()
    }


# ---- files ---------------------------------------------------------------------------------------


def names_of(locations: Iterable[str]) -> list[tuple[str, str]]:
    """Return the namespaces and names of the datasets of files, each once."""
    return list(dict.fromkeys(name for name in map(name_of, locations) if name is not None))


def name_of(location: str) -> tuple[str, str] | None:
    """Return the namespace and the name of the files at a location, a URI.

    OpenLineage's naming rules give the files of each store a namespace and a name, so that a
    location is the same dataset in the events of all tools. S3 has the scheme `s3`, whichever of
    its schemes Hadoop uses, and keys in object stores start without a slash. Return None without a
    scheme, because only the driver knows the store of such a location.

    Example:
        >>> name_of("s3a://bucket/landing/day"), name_of("hdfs://nn:8020/landing/")
        (('s3://bucket', 'landing/day'), ('hdfs://nn:8020', '/landing'))
    """
    uri = urlsplit(location)
    path = uri.path.rstrip("/")
    if not uri.scheme:
        return None
    if uri.scheme == "file":
        return "file", path or "/"
    if uri.scheme in _OBJECT_STORES:
        return f"{_OBJECT_STORES[uri.scheme]}://{uri.netloc}", path.lstrip("/") or "/"
    return f"{uri.scheme}://{uri.netloc}", path or "/"

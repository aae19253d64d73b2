"""The OpenLineage facets of tables, of datasets of files, and of the source columns of each column.

Input is a task's jobs, and the tables that the metastore knows. Output is the facet of each written
table. A column is missing if it gets only constants, or if one of the statements that write it
cannot be analysed with certainty. This module never raises, and the effort of a task is limited.

A table's facets are its columns, version, counts, and changes of the table itself. If this process
cannot ask the metastore, columns are missing.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from airflow.providers.common.compat.openlineage import facet as openlineage
from openlineage.client.generated.column_lineage_dataset import Transformation
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    MetastoreError,
    TableError,
)
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs import metastore_statements as definitions, statements
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ConvertSpec
from airflow_hiveacid.plan.statements import dml
from airflow_hiveacid.plan.statements.columns import value_columns
from airflow_hiveacid.sql.origins import Origins, Relation, Tracer, Use, union

if TYPE_CHECKING:
    _Statement = (
        statements.InsertSpec
        | statements.CreateAsSpec
        | statements.MergeSpec
        | statements.UpdateSpec
        | statements.LoadSpec
    )
    Values = Mapping[str, Origins] | None
    """The origins of the columns that a statement writes, or None if it cannot be analysed."""


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


_CONSTANT: Final[Origins] = frozenset()
_SIDES: Final = {
    statements.MergeWhen.MATCHED: ("t", "s"),
    statements.MergeWhen.NOT_MATCHED: ("s",),
    statements.MergeWhen.NOT_MATCHED_BY_SOURCE: ("t",),
}
_UNKNOWN: Final = (HiveAcidError, LookupError, ValueError)
"""The errors of statements that name unknown tables or columns, or too many or few columns."""

_log = logging.getLogger(__name__)


def column_lineage(
    jobs: Sequence[Job | definitions.MetastoreStatement],
    results: Sequence[JobResult],
    tables: Mapping[TableRef, TableInfo],
    address: Callable[[TableRef], tuple[str, str]],
) -> TableFacets:
    """Return the facet of each written table whose columns have known source columns.

    `results` may be those of the first jobs. `address` returns a table's namespace and name.
    """
    try:
        return _facets(jobs, results, tables, address)
    except Exception:  # noqa: BLE001 - a report must not end its task
        _log.warning("OpenLineage gets no column lineage", exc_info=True)
        return {}


def _facets(
    jobs: Sequence[Job | definitions.MetastoreStatement],
    results: Sequence[JobResult],
    tables: Mapping[TableRef, TableInfo],
    address: Callable[[TableRef], tuple[str, str]],
) -> TableFacets:
    unlike = set(_redefined(jobs))
    analysis = _Analysis({ref: table for ref, table in tables.items() if ref not in unlike})
    origins_of: dict[TableRef, Values] = {}
    for number, job in enumerate(jobs):
        if number < len(results) and results[number].status is JobStatus.NOTHING_TO_DO:
            continue  # CREATE TABLE IF NOT EXISTS ... AS, if the table exists
        for target, values in analysis.of(job):
            ref = TableRef.parse(target)
            origins_of[ref] = _both(origins_of.get(ref, {}), values)
    places = {str(ref): address(ref) for ref in tables} | analysis.files  # `of` has filled them
    facets = {ref: _facet(values, places) for ref, values in origins_of.items() if values}
    return {ref: {"columnLineage": facet} for ref, facet in facets.items() if facet.fields}


def _redefined(jobs: Sequence[Job | definitions.MetastoreStatement]) -> Iterator[TableRef]:
    """Yield the tables whose columns may have changed since a statement, or may yet change."""
    for job in jobs:
        if isinstance(
            job, definitions.AddColumns | definitions.DropTable | definitions.RenameTable
        ):
            yield TableRef.parse(job.target)


def _both(first: Values, second: Values) -> Values:
    if first is None or second is None:
        return None
    return {
        name: union(first.get(name, _CONSTANT), second.get(name, _CONSTANT))
        for name in (*first, *(name for name in second if name not in first))
    }


def _facet(values: Mapping[str, Origins], places: Mapping[str, tuple[str, str]]) -> Any:  # noqa: ANN401 - optional
    fields = {}
    for name, origins in values.items():
        uses: dict[tuple[str, str], list[Transformation]] = {}
        for origin in sorted(
            origins or (), key=lambda origin: (origin.table, origin.column, origin.use)
        ):
            kind = "INDIRECT" if origin.use is Use.CONDITIONAL else "DIRECT"
            of_column = uses.setdefault((origin.table, origin.column), [])
            of_column.append(Transformation(type=kind, subtype=origin.use.name))
        inputs = [
            openlineage.InputField(*places[table], field=column, transformations=transformations)
            for (table, column), transformations in uses.items()
        ]
        if inputs:
            fields[name] = openlineage.Fields(inputFields=inputs)
    return openlineage.ColumnLineageDatasetFacet(fields=fields)


@dataclass(frozen=True, slots=True)
class _Analysis:
    """The analysis of one task's statements; `files` are the addresses of its files."""

    tables: Mapping[TableRef, TableInfo]
    tracer: Tracer = field(default_factory=Tracer)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)

    def of(
        self, job: Job | statements.MultiInsertSpec | definitions.MetastoreStatement
    ) -> Iterator[tuple[str, Values]]:
        match job:
            case statements.TransactionSpec():
                for part in job.statements:
                    yield from self.of(part)
            case statements.MultiInsertSpec():
                views = self._views(job.tables)
                for view, query in job.shared.items():
                    if (rows := self.tracer.query(query, views)) is not None:
                        views[view] = rows
                for insert in job.inserts:
                    yield insert.target, self._known(insert, views)
            case (
                statements.InsertSpec()
                | statements.CreateAsSpec()
                | statements.MergeSpec()
                | statements.UpdateSpec()
                | statements.LoadSpec()
            ):
                yield job.target, self._known(job, {})
            case _:
                pass  # it gives columns no new values

    def _known(self, spec: _Statement, shared: Mapping[str, Relation]) -> Values:
        try:
            match spec:
                case statements.InsertSpec():
                    return self._insert(spec, self._rows(spec.source, shared))
                case statements.CreateAsSpec():
                    return _named(self._rows(spec.source, shared))[0]
                case statements.MergeSpec():
                    return self._merge(spec, self._rows(spec.source, shared))
                case statements.UpdateSpec():
                    clause = dml.resolve_update(self.tables[TableRef.parse(spec.target)], spec)
                    return self.tracer.values(clause.assignments, self._views({"t": spec.target}))
                case statements.LoadSpec():
                    return None  # the columns of its files are not known
        except _UNKNOWN:
            return None

    def _views(self, tables: Mapping[str, str]) -> dict[str, Relation]:
        refs = {view: TableRef.parse(name) for view, name in tables.items()}
        return {
            view: Relation.of_table(str(ref), self.tables[ref].column_names)
            for view, ref in refs.items()
            if ref in self.tables
        }

    def _rows(self, source: statements.SourceSpec, shared: Mapping[str, Relation]) -> Relation:
        """Return the columns of a source; raise LookupError if they are not known."""
        views = {**shared, **self._views(dml.tables_of(source))}
        place = None if source.location is None else name_of(source.location)
        if source.location is not None and place is not None:
            self.files[source.location] = place
            views[statements.SOURCE_VIEW] = Relation(open_table=source.location)
        if source.values is not None:
            columns = tuple((name.lower(), _CONSTANT) for name in value_columns(source))
            views[statements.SOURCE_VIEW] = Relation(columns=columns)
        rows = (
            self.tracer.query(source.query, views)
            if source.query
            else views[statements.SOURCE_VIEW]
        )
        if rows is None:
            raise LookupError
        return rows

    def _insert(self, spec: statements.InsertSpec, rows: Relation) -> Values:
        if spec.columns or spec.match is statements.ColumnMatch.POSITION:
            # The names of the source's columns do not matter, and may be equal or unknown.
            rows = rows.renamed([f"c{number}" for number in range(len(rows.columns))])
        origins_by_name, is_whole = _named(rows)
        table = self.tables[TableRef.parse(spec.target)]
        quoted_origins = {dml.quoted(name): origins for name, origins in origins_by_name.items()}
        expressions = dml.resolve_insert(table, spec, tuple(origins_by_name))
        rest = _CONSTANT if is_whole else None
        return {name: quoted_origins.get(text, rest) for name, text in expressions.items()}

    def _merge(self, spec: statements.MergeSpec, rows: Relation) -> Values:
        table = self.tables[TableRef.parse(spec.target)]
        origins_by_name, is_whole = _named(rows)
        # A file can contain any of the columns that the statement could use.
        names = tuple(origins_by_name) if is_whole else (*table.column_names, *spec.keys)
        sides = {**self._views({"t": spec.target}), "s": rows}
        every: list[Values] = []
        for clause, part in zip(dml.resolve_merge(table, spec, names), spec.clauses, strict=True):
            is_star = (
                part.set is None
                and part.values is None
                and part.action is not statements.MergeAction.DELETE
            )
            if is_star and not is_whole:  # any column may come from a source column, or not
                every.append(dict.fromkeys(table.column_names))
                continue
            visible_sides = {side: sides[side] for side in _SIDES[clause.when]}
            every.append(self.tracer.values(clause.assignments, visible_sides))
        return reduce(_both, every)


def _named(rows: Relation) -> tuple[Mapping[str, Origins], bool]:
    """Return the origins of columns whose names are known, and True if these are all columns.

    Raise ValueError if two columns have the same name.
    """
    names = [name for name, _ in rows.columns if name]
    if len(set(names)) < len(names):
        raise ValueError(f"these columns have the same name: {names}")
    is_whole = rows.open_table is None and len(names) == len(rows.columns)
    return {name: origins for name, origins in rows.columns if name}, is_whole

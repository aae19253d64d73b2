"""The context of a job, and checks of tables and sources before a transaction begins."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.policies import ConflictPolicy, chosen_policy
from airflow_hiveacid.format.table import (
    PartitionName,
    TableInfo,
    TableRef,
)
from airflow_hiveacid.metastore.transactions.terms import JobTerms
from airflow_hiveacid.plan.statements.dml import (
    check_changeable,
    check_insertable,
    check_readable,
    check_source,
    tables_of,
)
from airflow_hiveacid.spark.engine.expressions.parsed_sql import TextTerms
from airflow_hiveacid.spark.reading.access import Touched, nameable, touching
from airflow_hiveacid.spark.reading.files.pruning import partitions_where
from airflow_hiveacid.spark.reading.source import load_source, show
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.storage.plain.fitness import check_files_writable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_publishable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.jobs.parameters import Parameter
    from airflow_hiveacid.jobs.specs.job import JobSpec
    from airflow_hiveacid.jobs.specs.statements import SourceSpec
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.engine.expressions.catalyst import Moment

_S = TypeVar("_S")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The context of a job: a session, the spec, a metastore connection, the job's terms."""

    spark: SparkSession
    spec: JobSpec
    client: MetastorePort
    terms: JobTerms

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        spec: JobSpec,
        client: MetastorePort,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Return the context of a job, with the terms of its spec."""
        return cls(spark=spark, spec=spec, client=client, terms=JobTerms.of(spec, on_step))

    def job_of(self, kind: type[_S]) -> _S:
        """Return the spec of this job; the job must be of the given kind.

        Raises:
            ConfigurationError: the job is of a different kind.
        """
        if not isinstance(self.spec.job, kind):
            raise ConfigurationError(f"this application does not run {self.spec.kind} jobs")
        return self.spec.job

    def policy_of(self, table: TableInfo) -> ConflictPolicy:
        """Return a table's conflict policy: from the job's argument, the table, or the connection.

        Raises:
            ConfigurationError: the table's property is not a valid policy.
        """
        return chosen_policy(
            self.spec.conflict_policy,
            table.parameters,
            self.spec.default_conflict_policy,
            table=table.ref,
        )

    def changeable_table(self, name: str, operation: str) -> TableInfo:
        """Return the table if its rows can be changed and its location is writable.

        Raises:
            InputError: the table is missing, of the wrong kind, or on a store without renames.
            LocationPermissionError: the table's location cannot be written to.
        """
        table = self.client.get_table(TableRef.parse(name))
        check_changeable(table, operation)
        return _writable(table)

    def insertable_table(self, name: str) -> TableInfo:
        """Return the table if rows can be added to it and its location is writable.

        Raises:
            InputError, LocationPermissionError: as `changeable_table`.
        """
        table = self.client.get_table(TableRef.parse(name))
        check_insertable(table)
        check_files_writable(table)
        return _writable(table)

    def with_constraints(self, table: TableInfo) -> TableInfo:
        """Return the table with its constraints, for a statement that writes rows."""
        return dataclasses.replace(table, constraints=self.client.constraints(table.ref))

    def partitions_touched(
        self, table: TableInfo, condition: str | None, moment: Moment
    ) -> Callable[[], Touched]:
        """Return a function that finds the partitions selected by a statement's condition.

        Only these partitions are locked and read. If the function finds different partitions after
        the locks are granted, the statement restarts. Without a restart, the statement could see
        only part of a commit to several partitions.
        """

        def ask(known: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
            found = partitions_where(self.spark, table, known, condition, moment)
            return nameable(found) if found is not None else None

        if condition is None or not table.is_partitioned:
            return Touched
        return touching(self.client, table, ask)

    def source_shape(self, source: SourceSpec) -> DataFrame:
        """Return a frame with the source's columns, to check a statement before any lock is taken.

        Raises:
            InputError, StorageError: the source is missing, unreadable or invalid.
        """
        check_source(source)
        tables = self.source_tables(source)
        shapes = {view: empty_target(self.spark, table) for view, table in tables.items()}
        return self.load(source, shapes)

    def load(self, source: SourceSpec, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Read a source, with unsafe calls only if the job allows them; see `load_source`.

        Raises:
            InputError, StorageError: as `load_source`.
        """
        return load_source(
            self.spark, source, tables, allows_unsafe=self.spec.allow_unsafe_expressions
        )

    def text_terms(self, parameters: Mapping[str, Parameter]) -> TextTerms:
        """Return a statement's parameters, and whether its SQL may contain unsafe calls."""
        return TextTerms(parameters=parameters, allows_unsafe=self.spec.allow_unsafe_expressions)

    def source_tables(self, source: SourceSpec | None) -> dict[str, TableInfo]:
        """Return a dict from view name to ACID table, for the tables that a source reads.

        Raises:
            InputError: a table is missing or of a kind that cannot be read.
        """
        return self.tables(tables_of(source))

    def tables(self, names: Mapping[str, str]) -> dict[str, TableInfo]:
        """Return a dict from view name to ACID table, for tables read in addition to the target.

        Raises:
            InputError: a table is missing or of a kind that cannot be read.
        """
        found = {}
        for view, name in names.items():
            found[view] = self.client.get_source(TableRef.parse(name))
            check_readable(found[view])
        return found

    def show_shapes(self, names: Mapping[str, str]) -> None:
        """Register empty views of tables, to check the queries in a statement's expressions.

        Raises:
            InputError: see `tables`.
        """
        show({view: empty_target(self.spark, t) for view, t in self.tables(names).items()})


def _writable(table: TableInfo) -> TableInfo:
    check_publishable(table.ref, table.location)
    check_writable(table.location)
    return table

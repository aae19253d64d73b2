"""What a job has to work with, and what it asks before anything is begun: its table, its source."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.policies import ConflictPolicy, chosen_policy
from airflow_hiveacid.format.table import (
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.plan.statements import (
    check_changeable,
    check_insertable,
    check_readable,
    check_source,
)
from airflow_hiveacid.spark.reading.access import Touched, nameable, touching
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.source import load_source, show, tables_of
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.storage.plain.avro_schema import check_avro
from airflow_hiveacid.storage.plain.text_form import check_text_writable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_publishable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.jobs.specs import JobSpec, SourceSpec
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.catalyst import Moment

_S = TypeVar("_S")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a job has to work with: a session, its spec, a metastore connection, a step hook."""

    spark: SparkSession
    spec: JobSpec
    client: MetastorePort
    on_step: Callable[[str], None]

    def job_of(self, kind: type[_S]) -> _S:
        """The job's own part of the spec, of the kind that the application is for.

        Raises:
            ConfigurationError: it is of another kind.
        """
        if not isinstance(self.spec.job, kind):
            raise ConfigurationError(f"this application does not do {self.spec.kind} jobs")
        return self.spec.job

    def policy_of(self, table: TableInfo) -> ConflictPolicy:
        """Who may commit beside this job: by its argument, the table, or the connection.

        Raises:
            ConfigurationError: the table's property names no policy.
        """
        return chosen_policy(
            self.spec.conflict_policy,
            table.parameters,
            self.spec.default_conflict_policy,
            table=table.ref,
        )

    def changeable_table(self, name: str, operation: str) -> TableInfo:
        """The table, if its rows can be changed, here and now.

        Raises:
            InputError: it is missing, of the wrong kind, or on a store without renames.
            LocationPermissionError: its location cannot be written.
        """
        table = self.client.get_table(TableRef.parse(name))
        check_changeable(table, operation)
        return _writable(table)

    def insertable_table(self, name: str) -> TableInfo:
        """The table, if rows can be added to it, here and now.

        Raises:
            InputError, LocationPermissionError: as `changeable_table`.
        """
        table = self.client.get_table(TableRef.parse(name))
        check_insertable(table)
        check_avro(table.ref, table.storage, table.parameters, table.columns)
        check_text_writable(table)
        return _writable(table)

    def with_constraints(self, table: TableInfo) -> TableInfo:
        """The table with what it demands of its rows: for who makes some."""
        return dataclasses.replace(table, constraints=self.client.constraints(table.ref))

    def transactional_table(self, name: str) -> TableInfo:
        """The table, if it is transactional; its directories can be removed, here and now.

        Raises:
            InputError, LocationPermissionError: as `changeable_table`.
        """
        table = self.client.get_table(TableRef.parse(name))
        if table.kind is not TransactionalKind.INSERT_ONLY:
            check_changeable(table, "cleaning")
        return _writable(table)

    def partitions_touched(
        self, table: TableInfo, condition: str | None, moment: Moment
    ) -> Callable[[], Touched]:
        """A way to look which partitions a statement's condition keeps it in.

        Only these are locked and read. If the answer is another one when the locks are granted, the
        statement begins anew: it would see one half of what a commit did to several partitions.
        """

        def ask(known: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
            found = partitions_where(self.spark, table, known, condition, moment)
            return nameable(found) if found is not None else None

        if condition is None or not table.is_partitioned:
            return Touched
        return touching(self.client, table, ask)

    def source_shape(self, source: SourceSpec) -> DataFrame:
        """A frame with the source's columns, to check a statement against before anything is begun.

        Raises:
            InputError, StorageError: the source is missing, unreadable or nonsense.
        """
        check_source(source)
        tables = self.source_tables(source)
        shapes = {view: empty_target(self.spark, table) for view, table in tables.items()}
        return load_source(self.spark, source, shapes)

    def source_tables(self, source: SourceSpec | None) -> dict[str, TableInfo]:
        """The ACID tables that a source reads, by their views (`reading.source.tables_of`).

        Raises:
            InputError: one is missing or of a kind that is not read.
        """
        return self.tables(tables_of(source))

    def tables(self, names: Mapping[str, str]) -> dict[str, TableInfo]:
        """ACID tables that are read beside the target, by their views.

        Raises:
            InputError: one is missing or of a kind that is not read.
        """
        found = {}
        for view, name in names.items():
            found[view] = self.client.get_table(TableRef.parse(name))
            check_readable(found[view])
        return found

    def show_shapes(self, names: Mapping[str, str]) -> None:
        """Make tables known to queries within expressions, without rows, to check a statement.

        Raises:
            InputError: see `tables`.
        """
        show({view: empty_target(self.spark, t) for view, t in self.tables(names).items()})


def _writable(table: TableInfo) -> TableInfo:
    check_publishable(table.ref, table.location)
    check_writable(table.location)
    return table

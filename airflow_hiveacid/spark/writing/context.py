"""The context of a job with Spark, and checks of its sources before a transaction begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.jobs.statements import Parameter, SourceSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.plan.statements.dml import check_source
from airflow_hiveacid.reading.snapshots import ReadSnapshot, held_snapshot
from airflow_hiveacid.reading.table_view import Touched, nameable, touching
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.engine.parsed_sql import TextTerms
from airflow_hiveacid.spark.engine.tasks import job_group
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.source import load_source, show
from airflow_hiveacid.spark.reading.target import empty_target
from airflow_hiveacid.writing.job import WritingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(WritingJob):
    """The context of a job with Spark: a session, the spec, a metastore connection, the terms."""

    spark: SparkSession

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

    def cancellable(self) -> AbstractContextManager[Callable[[], None]]:
        """Run a block's Spark jobs as one group; see `WritingJob`."""
        return job_group(self.spark, str(self.terms.attempt))

    @contextmanager
    def snapshot(self, table: str) -> Iterator[ReadSnapshot]:
        """Hold a snapshot of a table, as a job that only reads."""
        with self.cancellable(), held_snapshot(self.client, [table], self.terms) as snapshot:
            yield snapshot

    def partitions_touched(
        self, table: TableInfo, condition: str | None, moment: Moment
    ) -> Callable[[], Touched]:
        """Return a function that finds the partitions selected by a statement's condition.

        Only these are locked and read. If others are found after the locks are granted, the
        statement restarts; otherwise, it could see only part of a commit to several partitions.
        """

        def ask(known: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
            matches = partitions_where(self.spark, table, known, condition, moment)
            return nameable(matches) if matches is not None else None

        if condition is None or not table.is_partitioned:
            return Touched
        return touching(self.client, table, ask)

    def source_shape(self, source: SourceSpec) -> DataFrame:
        """Return a frame with the source's columns, to check a statement before it takes locks."""
        check_source(source)
        tables = self.source_tables(source)
        shapes = {view: empty_target(self.spark, table) for view, table in tables.items()}
        return self.load(source, shapes)

    def load(self, source: SourceSpec, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Read a source, with unsafe calls only if the job allows them; see `load_source`."""
        return load_source(
            self.spark, source, tables, allows_unsafe=self.spec.allow_unsafe_expressions
        )

    def text_terms(self, parameters: Mapping[str, Parameter]) -> TextTerms:
        """Return a statement's parameters, and whether its SQL may contain unsafe calls."""
        return TextTerms(parameters=parameters, allows_unsafe=self.spec.allow_unsafe_expressions)

    def show_shapes(self, names: Mapping[str, str]) -> None:
        """Register empty views of tables, to check the queries in a statement's expressions."""
        show({view: empty_target(self.spark, t) for view, t in self.tables(names).items()})

"""The inputs that the INSERTs of one FROM clause share: tables, queries, and the time.

In Hive, these INSERTs are one statement, and each sees the tables as they were before it. A shared
query returns the same rows to all of them, even with `rand()`, so its rows are kept
(`localCheckpoint`). Shared tables are read again, because the files of a snapshot do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_hiveacid.jobs.parameters import Parameter
from airflow_hiveacid.jobs.specs.statements import MultiInsertSpec, SourceSpec
from airflow_hiveacid.spark.engine.expressions.catalyst import Moment
from airflow_hiveacid.spark.reading.source import show
from airflow_hiveacid.spark.reading.target import empty_target

if TYPE_CHECKING:
    from airflow_hiveacid.spark.writing.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Common:
    """The inputs that several statements share: tables and queries by view name, and the time.

    `number` is the position of the FROM clause among the statements of the transaction. `versions`
    contains the versions of tables that are read as of an earlier version.
    """

    tables: Mapping[str, str]
    queries: Mapping[str, str]
    moment: Moment
    number: int
    versions: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


def common_of(job: JobContext, spec: MultiInsertSpec, number: int) -> Common:
    """Return the checked inputs that INSERTs share, and register their views for queries."""
    common = Common(
        tables=spec.tables,
        queries=spec.shared,
        moment=Moment.now(job.spark, job.text_terms({})),
        number=number,
        versions=spec.versions,
        parameters=spec.parameters,
    )
    shapes = {view: empty_target(job.spark, t) for view, t in job.tables(common.tables).items()}
    for view, query in common.queries.items():
        show({view: _run(job, common, query, shapes)})
    return common


def common_frames(
    job: JobContext, common: Common, tables: Mapping[str, DataFrame]
) -> dict[str, DataFrame]:
    """Run the shared queries; return a dict from view name to rows, for all shared inputs."""
    frames = dict(tables)
    for view, query in common.queries.items():
        rows = _run(job, common, query, frames)
        frames[view] = common.moment.fixed_in(rows).localCheckpoint()
    return frames


def _run(job: JobContext, common: Common, query: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    return job.load(SourceSpec(tables={}, query=query, parameters=common.parameters), frames)

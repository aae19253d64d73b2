"""What the INSERTs of one FROM clause have in common: tables, queries, and one moment.

In Hive they are one statement: each sees the tables as they were before it, and a query that they
have in common says to all of them the same, `rand()` too. So its rows are kept (`localCheckpoint`).
Tables are read by each of them anew, since the files of a snapshot are what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs import SourceSpec
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.reading.source import load_source, show
from airflow_hiveacid.spark.reading.target import empty_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.jobs.specs import MultiInsertSpec
    from airflow_hiveacid.spark.writing.context import JobContext


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Common:
    """What some statements have in common: tables and queries by their views, and their one time.

    `place` is the place of all of them in their transaction; `versions` are those of the tables
    that are read as of an earlier one.
    """

    tables: Mapping[str, str]
    queries: Mapping[str, str]
    moment: Moment
    place: int
    versions: Mapping[str, str] = field(default_factory=dict)


def common_of(job: JobContext, spec: MultiInsertSpec, place: int) -> Common:
    """What INSERTs have in common, once it is known to be right; their queries know its columns.

    Raises:
        InputError: a table is missing or of a kind that is not read; a query is wrong.
    """
    common = Common(
        tables=spec.tables,
        queries=spec.shared,
        moment=Moment.now(job.spark),
        place=place,
        versions=spec.versions,
    )
    shapes = {view: empty_target(job.spark, t) for view, t in job.tables(common.tables).items()}
    for view, query in common.queries.items():
        show({view: _run(job.spark, query, shapes)})
    return common


def common_frames(
    spark: SparkSession, common: Common, tables: Mapping[str, DataFrame]
) -> dict[str, DataFrame]:
    """The rows of all that they have in common, by the views; the queries are run here.

    Raises:
        SourceUnreadableError, StorageError: see `load_source`.
    """
    frames = dict(tables)
    for view, query in common.queries.items():
        rows = _run(spark, query, frames)
        frames[view] = common.moment.fixed_in(rows).localCheckpoint()
    return frames


def _run(spark: SparkSession, query: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    return load_source(spark, SourceSpec(tables={}, query=query), frames)

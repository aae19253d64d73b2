"""Where the rows of an INSERT or MERGE come from, as a frame that is read exactly once.

Takes a `SourceSpec` and the frames of the ACID tables in it; gives a frame. A source that is
missing or unreadable is an error before any transaction is begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, ParseException

from airflow_hiveacid.format.errors import (
    HiveAcidError,
    SourceNotFoundError,
    SourceUnreadableError,
    StorageError,
)
from airflow_hiveacid.jobs.specs import SOURCE_VIEW
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.failures import SPARK_ERRORS, condition_of, reason_of
from airflow_hiveacid.spark.reading.nanoseconds import load_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.jobs.specs import SourceSpec

# What Spark says of files that may come later: no path, or an empty one.
_MISSING: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
_WRONG: Final = ("DATA_SOURCE_NOT_FOUND",)


def describe(source: SourceSpec) -> str:
    """Name a source for messages."""
    if source.values is not None:
        return f"VALUES ({len(source.values)} rows)"
    if source.table is not None:
        return f"table {source.table}"
    if source.tables is not None:
        return f"query of {', '.join(sorted(source.tables.values())) or 'no table'}"
    return f"{source.format} {source.location}"


def tables_of(source: SourceSpec | None) -> Mapping[str, str]:
    """The ACID tables that a source reads, by the name of the view that each is to its query."""
    if source is None:
        return {}
    return {SOURCE_VIEW: source.table} if source.table is not None else source.tables or {}


def show(views: Mapping[str, DataFrame]) -> None:
    """Make frames known to queries, each under its name; earlier ones of that name are replaced."""
    for name, view in views.items():
        view.createOrReplaceTempView(name)


def load_source(
    spark: SparkSession, source: SourceSpec, tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Read a source, lazily.

    Args:
        spark: the session.
        source: what to read.
        tables: the frames of its `tables_of`, read under the job's snapshot.

    Raises:
        SourceNotFoundError: it is not there (yet).
        SourceUnreadableError: its format is unknown or its query cannot be resolved.
        StorageError: it cannot be opened for another reason; an outage, perhaps.
    """
    try:
        views = tables
        if source.tables is None:
            views = {SOURCE_VIEW: _load(spark, source, tables.get(SOURCE_VIEW))}
        if source.query:
            show(views)
            frame = spark.sql(source.query)
        else:
            frame = views[SOURCE_VIEW]
        _ = frame.schema
    except SPARK_ERRORS as error:
        raise _typed(source, error) from error
    return frame


def _typed(source: SourceSpec, error: Exception) -> HiveAcidError:
    name, reason = describe(source), reason_of(error)
    if condition_of(error).startswith(_MISSING):
        return SourceNotFoundError(source=name, reason=reason)
    is_wrong = condition_of(error).startswith(_WRONG)
    if is_wrong or isinstance(error, AnalysisException | ParseException):
        return SourceUnreadableError(source=name, reason=reason)
    return StorageError(f"source {name} cannot be opened: {reason}")


def _load(spark: SparkSession, source: SourceSpec, table: DataFrame | None) -> DataFrame:
    if table is not None:
        return table
    if source.values is not None:
        # Values travel as text and are cast by the store assignment, so that 1 and '1' both fit a
        # bigint, as in Hive's VALUES.
        names = (
            source.columns or tuple(f"col{i + 1}" for i in range(len(source.values[0])))
            if source.values
            else source.columns
        )
        if not names:
            return spark.range(len(source.values)).select()  # DEFAULT stands for every column
        rows = [tuple(None if v is None else _text(v) for v in row) for row in source.values]
        return spark.createDataFrame(rows, ", ".join(f"{quoted(n)} string" for n in names))
    reader = spark.read.format(source.format or "").options(**dict(source.options))
    if (source.format or "").lower() == "parquet":
        return load_parquet(spark, reader, source.location, describe(source))
    return reader.load(source.location)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

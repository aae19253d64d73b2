"""The source of an INSERT or MERGE, as a frame.

The input is a `SourceSpec` and the frames of the ACID tables in it; the output is a frame. A
missing or unreadable source raises an error before a transaction begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.errors import (
    HiveAcidError,
    SourceNotFoundError,
    SourceUnreadableError,
    StorageError,
    UnsafeTextError,
)
from airflow_hiveacid.jobs.specs.statements import SOURCE_VIEW, SourceSpec
from airflow_hiveacid.metastore.auth.secret import read_secret_text
from airflow_hiveacid.plan.statements.columns import value_columns
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.plan.statements.source_options import secret_of
from airflow_hiveacid.spark.engine.expressions.catalyst import query
from airflow_hiveacid.spark.engine.expressions.parsed_sql import (
    RefusedTextError,
    TextTerms,
    UnboundParameterError,
)
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, condition_of, reason_of
from airflow_hiveacid.spark.engine.small_frames import small_frame
from airflow_hiveacid.spark.reading.nanoseconds import load_parquet

# Spark's error conditions for a missing or empty path; files may appear there later.
_MISSING: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
_WRONG: Final = ("DATA_SOURCE_NOT_FOUND",)
_UNREACHABLE: Final = ("FAILED_JDBC.CONNECTION",)  # an AnalysisException, since Spark 4.2


def describe(source: SourceSpec) -> str:
    """Return a source's name for messages."""
    if source.values is not None:
        return f"VALUES ({len(source.values)} rows)"
    if source.table is not None:
        return f"table {source.table}"
    if source.tables is not None:
        return f"query of {', '.join(sorted(source.tables.values())) or 'no table'}"
    return f"{source.format} {source.location}"


def show(views: Mapping[str, DataFrame]) -> None:
    """Register frames as views for queries, and replace existing views of the same names."""
    for name, view in views.items():
        view.createOrReplaceTempView(name)


def load_source(
    spark: SparkSession,
    source: SourceSpec,
    tables: Mapping[str, DataFrame],
    *,
    allows_unsafe: bool = False,
) -> DataFrame:
    """Read a source, lazily.

    `tables` are the frames of the tables in `tables_of`, read under the job's snapshot. With
    `allows_unsafe`, the source's query may call Java and read files of the driver.

    Raises:
        SourceNotFoundError: the source does not exist (yet).
        SourceUnreadableError: the source's format is unknown, or its query cannot be resolved.
        UnsafeTextError: the source's query contains a call that is not allowed.
        StorageError: the source cannot be opened for a different reason, such as an outage.
    """
    try:
        views = tables
        if source.tables is None:
            views = {SOURCE_VIEW: _load(spark, source, tables.get(SOURCE_VIEW))}
        if source.query:
            show(views)
            terms = TextTerms(parameters=source.parameters, allows_unsafe=allows_unsafe)
            frame = query(spark, source.query, terms)
        else:
            frame = views[SOURCE_VIEW]
        _ = frame.schema
    except RefusedTextError as error:
        raise UnsafeTextError(
            of=f"source {describe(source)}", text=source.query or "", what=str(error)
        ) from error
    except UnboundParameterError as error:
        raise SourceUnreadableError(source=describe(source), reason=str(error)) from error
    except SPARK_ERRORS as error:
        raise _typed(source, error) from error
    return frame


def _typed(source: SourceSpec, error: Exception) -> HiveAcidError:
    name, reason, condition = describe(source), reason_of(error), condition_of(error)
    if condition.startswith(_MISSING):
        return SourceNotFoundError(source=name, reason=reason)
    if condition.startswith(_UNREACHABLE):
        return StorageError(f"source {name} cannot be opened: {reason}")
    if condition.startswith(_WRONG) or isinstance(error, AnalysisException | ParseException):
        return SourceUnreadableError(source=name, reason=reason)
    return StorageError(f"source {name} cannot be opened: {reason}")


def _load(spark: SparkSession, source: SourceSpec, table: DataFrame | None) -> DataFrame:
    if table is not None:
        return table
    if source.values is not None:
        # Values stay strings until store assignment casts them. So a bigint accepts both 1 and '1',
        # as in Hive's VALUES.
        names = value_columns(source)
        if not names:
            return spark.range(len(source.values)).select()  # every column gets its DEFAULT
        rows = [tuple(None if v is None else _text(v) for v in row) for row in source.values]
        return small_frame(spark, rows, ", ".join(f"{quoted(n)} string" for n in names))
    options = {name: _option(name, value) for name, value in source.options.items()}
    reader = spark.read.format(source.format or "").options(**options)
    if (source.format or "").lower() == "parquet":
        return load_parquet(spark, reader, source.location, describe(source))
    return reader.load(source.location)


def _option(name: str, value: str) -> str:
    """Return an option's value; for a secret, read it from its file or variable."""
    place = secret_of(name, value)
    return value if place is None else read_secret_text(place)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

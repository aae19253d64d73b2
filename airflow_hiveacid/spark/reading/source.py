"""The source of an INSERT or MERGE, as a frame.

A missing or unreadable source raises an error before a transaction begins.

Parquet sources may have timestamps in nanoseconds, pyarrow's default, which Spark reads, with a
setting, as integers. `load_parquet` converts these to timestamps. A value with digits below the
microsecond, which Spark would truncate, is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession, functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, FractionalType, MapType, StructType

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.statements import SOURCE_VIEW, SourceSpec
from airflow_hiveacid.metastore.auth.secret import read_secret_text
from airflow_hiveacid.plan.statements.arguments import secret_of
from airflow_hiveacid.plan.statements.columns import value_columns
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.spark.engine import parsed_sql
from airflow_hiveacid.spark.engine.catalyst import opaque, query
from airflow_hiveacid.spark.engine.current_time import UnfixedTimeError
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, carried, condition_of, reason_of
from airflow_hiveacid.spark.engine.types import small_frame
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import side_by_side

_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"
_ILLEGAL: Final = "TIMESTAMP(NANOS"
_CUT: Final = 1000  # nanoseconds in a microsecond
_A_NANO: Final = Decimal("0.000000001")
_INSTANT: Final = "instant"
_WALL_CLOCK: Final = "wall clock"

Kinds = tuple[str | None, ...]
"""For each leaf of a column, depth first: its kind of nanosecond timestamp; None for other
types."""


def load_parquet(
    spark: SparkSession, reader: DataFrameReader, location: str | None, source: str
) -> DataFrame:
    """Read Parquet files, even if their timestamps are in nanoseconds.

    `source` is the source's name in messages. A setting of the session that the files need remains
    set. Raises SourceUnreadableError if a map's keys are in nanoseconds, or the files' timestamps
    differ in kind. Computing the frame also raises this error if a value has digits below the
    microsecond.
    """
    spark.conf.unset(_AS_LONG)
    try:
        return _without_float_filters(spark, reader.load(location))
    except SPARK_ERRORS as error:
        if _ILLEGAL not in str(error):
            raise
    spark.conf.set(_AS_LONG, "true")
    frame = _without_float_filters(spark, reader.load(location))
    kinds = _kinds_of_all(frame.inputFiles(), source)
    return frame.select(
        *[
            _timestamps(F.col(quoted(field.name)), field.dataType, kinds[field.name], source).alias(
                field.name
            )
            if any(kinds.get(field.name, ()))
            else F.col(quoted(field.name))
            for field in frame.schema
        ]
    )


def _without_float_filters(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return the frame; no condition on floats, where 0.0 equals -0.0, is pushed to files."""
    if not any(_holds_floats(field.dataType) for field in frame.schema):
        return frame
    return frame.select(
        *[
            opaque(spark, F.col(quoted(field.name))).alias(field.name)
            if _holds_floats(field.dataType)
            else F.col(quoted(field.name))
            for field in frame.schema
        ]
    )


def _holds_floats(type_: DataType) -> bool:
    match type_:
        case StructType(fields=fields):
            return any(_holds_floats(field.dataType) for field in fields)
        case ArrayType(elementType=element):
            return _holds_floats(element)
        case MapType(keyType=key, valueType=value):
            return _holds_floats(key) or _holds_floats(value)
        case _:
            return isinstance(type_, FractionalType) and not isinstance(type_, DecimalType)


def _kinds_of_all(files: Sequence[str], source: str) -> dict[str, Kinds]:
    """Return the timestamp kinds of the columns; all files must share them."""
    all_kinds: dict[str, Kinds] = {}
    for file, kinds in zip(files, side_by_side(_kinds, files), strict=True):
        for name, of_file in kinds.items():
            if all_kinds.setdefault(name, of_file) != of_file:
                raise errors.SourceUnreadableError(
                    source=source,
                    reason=f"timestamps of column {name!r} in {file} are of a different kind than"
                    " in the files before it; use the same kind in all files",
                )
    return all_kinds


def _kinds(file: str) -> dict[str, Kinds]:
    fs, path = open_location(unquote(file))
    with fs.open_input_file(path) as opened:
        footer = pq.ParquetFile(opened)
        columns = [footer.schema.column(i) for i in range(len(footer.schema))]
        leaves = [_kind(column) for column in columns]
        kinds: dict[str, Kinds] = {}
        for field in footer.schema_arrow:
            count = _leaf_count(field.type)
            kinds[field.name], leaves = tuple(leaves[:count]), leaves[count:]
        return kinds


def _kind(column: pq.ColumnSchema) -> str | None:
    logical = json.loads(column.logical_type.to_json())
    if logical.get("timeUnit") != "nanoseconds" or logical["Type"] != "Timestamp":
        return None
    return _INSTANT if logical["isAdjustedToUTC"] else _WALL_CLOCK


def _leaf_count(type_: pa.DataType) -> int:
    if not pa.types.is_nested(type_):
        return 1
    return sum(_leaf_count(type_.field(i).type) for i in range(type_.num_fields))


def _timestamps(column: Column, type_: DataType, kinds: Kinds, source: str) -> Column:
    """Return the column with its integer nanoseconds converted to timestamps, at any depth."""
    if not any(kinds):
        return column
    match type_:
        case StructType(fields=fields):
            parts = []
            for field in fields:
                count = _spark_leaf_count(field.dataType)
                mine, kinds = kinds[:count], kinds[count:]
                value = _timestamps(column.getField(field.name), field.dataType, mine, source)
                parts.append(value.alias(field.name))
            return F.when(column.isNotNull(), F.struct(*parts))
        case ArrayType(elementType=element):
            return F.transform(column, lambda v: _timestamps(v, element, kinds, source))
        case MapType(keyType=key, valueType=value):
            count = _spark_leaf_count(key)
            if any(kinds[:count]):
                raise errors.SourceUnreadableError(
                    source=source,
                    reason="the keys of a map are timestamps in nanoseconds; write them in"
                    " microseconds",
                )
            return F.transform_values(
                column, lambda _k, v: _timestamps(v, value, kinds[count:], source)
            )
        case _:
            return _timestamp(column, kinds[0], source)


def _spark_leaf_count(type_: DataType) -> int:
    match type_:
        case StructType(fields=fields):
            return sum(_spark_leaf_count(field.dataType) for field in fields)
        case ArrayType(elementType=element):
            return _spark_leaf_count(element)
        case MapType(keyType=key, valueType=value):
            return _spark_leaf_count(key) + _spark_leaf_count(value)
        case _:
            return 1


def _timestamp(nanos: Column, kind: str | None, source: str) -> Column:
    seconds = (nanos.cast("decimal(19,0)") * F.lit(_A_NANO)).cast("decimal(18,6)")
    exact = (
        seconds.cast("timestamp")
        if kind == _INSTANT
        # This sum does not depend on a time zone.
        else F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'") + F.make_dt_interval(secs=seconds)
    )
    error = errors.SourceUnreadableError(
        source=source,
        reason="a timestamp has digits below the microsecond, which Spark cannot store; write the"
        " files in microseconds (pyarrow: coerce_timestamps='us')",
    )
    return F.when(nanos.isNull() | (nanos % _CUT == 0), exact).otherwise(
        F.raise_error(F.lit(carried(error)))
    )


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
    `allows_unsafe`, the source's query may call Java and read files of the driver. Raises
    SourceNotFoundError if the source does not exist (yet). Raises SourceUnreadableError if the
    source's format is unknown, or its query cannot be resolved. Raises UnsafeTextError if the
    source's query contains a call that is not allowed. Raises StorageError if the source cannot be
    opened for a different reason, such as an outage.
    """
    try:
        views = tables
        if source.tables is None:
            views = {SOURCE_VIEW: _load(spark, source, tables.get(SOURCE_VIEW))}
        if source.query:
            show(views)
            terms = parsed_sql.TextTerms(parameters=source.parameters, allows_unsafe=allows_unsafe)
            frame = query(spark, source.query, terms)
        else:
            frame = views[SOURCE_VIEW]
        _ = frame.schema
    except parsed_sql.RefusedTextError as error:
        raise errors.UnsafeTextError(
            of=f"source {describe(source)}", text=source.query or "", what=str(error)
        ) from error
    except (parsed_sql.UnboundParameterError, UnfixedTimeError) as error:
        raise errors.SourceUnreadableError(source=describe(source), reason=str(error)) from error
    except SPARK_ERRORS as error:
        raise _typed(source, error) from error
    return frame


def _typed(source: SourceSpec, error: Exception) -> errors.HiveAcidError:
    name, reason, condition = describe(source), reason_of(error), condition_of(error)
    if condition.startswith(_MISSING):
        return errors.SourceNotFoundError(source=name, reason=reason)
    if condition.startswith(_UNREACHABLE):
        return errors.StorageError(f"source {name} cannot be opened: {reason}")
    if condition.startswith(_WRONG) or isinstance(error, AnalysisException | ParseException):
        return errors.SourceUnreadableError(source=name, reason=reason)
    return errors.StorageError(f"source {name} cannot be opened: {reason}")


def _load(spark: SparkSession, source: SourceSpec, table: DataFrame | None) -> DataFrame:
    if table is not None:
        return table
    if source.values is not None:
        # Strings, which store assignment casts, as in Hive's VALUES: 1 and '1' fit a bigint.
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
    place = secret_of(name, value)
    return value if place is None else read_secret_text(place)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

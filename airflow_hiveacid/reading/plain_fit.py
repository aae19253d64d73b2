"""Check of an insert-only table's files: whether Spark's readers read each file correctly.

If Spark would read a file differently than Hive, our own reader (`storage.plain`) reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.reading.orc_fit import UNKNOWN_TO_SPARK, has_none_in_ranges, why_not_columns
from airflow_hiveacid.reading.request import NUMBER, ReadRequest
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_fit import FieldPositions, is_exactly
from airflow_hiveacid.storage.plain.parquet_footer import (
    ParquetCalendar,
    ParquetFacts,
    TimestampStorage,
    read_facts,
)
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.column_types import holds

# Reserved names: Spark's column with file metadata, and our column with the file's number.
_TAKEN: Final = frozenset({"_metadata", NUMBER})
_REBASE: Final = {ParquetCalendar.HYBRID: "LEGACY", ParquetCalendar.PROLEPTIC: "CORRECTED"}
# A standard Spark installation does not include Spark's Avro reader.
_OURS: Final = {FileFormat.AVRO: "it is Avro", FileFormat.TEXT: "it is text"}
_DATE: Final = PrimitiveType("date")
_TIMESTAMP: Final = PrimitiveType("timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkManner:
    """The options with which Spark reads a file; files with equal options are read together.

    `has_instants` is True if timestamps are stored as instants. `rebase` is Spark's mode for old
    timestamps: LEGACY uses the old hybrid calendar, CORRECTED uses today's calendar, and EXCEPTION
    fails.
    """

    format: FileFormat
    has_instants: bool = True
    rebase: str = "EXCEPTION"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainVerdict:
    """The verdict on one file.

    `rows` is the number of rows in the file; if `is_outside`, no row is in the requested ranges.
    `why_not` is the reason why Spark's reader must not read the file; None if it may, with
    `manner`.
    """

    rows: int
    manner: SparkManner
    why_not: str | None = None
    is_outside: bool = False


def judged_plain(
    request: ReadRequest,
    files: Sequence[PlainFile],
    *,
    moves_instants: bool = False,
    minds_case: bool = False,
) -> list[PlainVerdict]:
    """Return a verdict on each file.

    `moves_instants` is True if the session sets spark.sql.parquet.int96TimestampConversion.
    `minds_case` is True if it sets spark.sql.caseSensitive, so that `a` and `A` are different
    names.
    """
    verdict = partial(
        _verdict,
        request,
        _why_none_fits(request),
        moves_instants=moves_instants,
        minds_case=minds_case,
    )
    return each_in_threads(verdict, files)


def _why_none_fits(request: ReadRequest) -> str | None:
    if any(c.name in _TAKEN for c in request.columns):
        return "a column has a name that Spark needs"
    if any("`" in f"{c.name} {c.type}" for c in request.table_columns):
        return "a column's name has a backquote"
    return None


def _verdict(
    request: ReadRequest,
    why_table: str | None,
    file: PlainFile,
    *,
    moves_instants: bool,
    minds_case: bool,
) -> PlainVerdict:
    if file.format in _OURS:
        # These footers lack the number of rows; 1 stands for at least one row.
        return PlainVerdict(
            rows=1, manner=SparkManner(format=file.format), why_not=_OURS[file.format]
        )
    if file.format is FileFormat.PARQUET:
        facts = read_facts(file)
        why = why_table or _why_not_parquet(request, facts, file, minds_case=minds_case)
        if why is None and moves_instants and facts.clock is TimestampStorage.INSTANT:
            why = "the session moves timestamps of Parquet"
        manner = SparkManner(
            format=file.format,
            has_instants=facts.clock is not TimestampStorage.WALL,
            rebase=_REBASE.get(facts.calendar, "EXCEPTION"),
        )
        return PlainVerdict(rows=facts.rows, manner=manner, why_not=why if facts.rows else None)
    with file_errors("read", file.path):
        tail = read_tail(file.fs, file.path, file.length)
    why = why_table or _why_not_orc(request, tail)
    return PlainVerdict(
        rows=tail.rows,
        manner=SparkManner(format=file.format),
        why_not=why if tail.rows else None,
        is_outside=why is None and has_none_in_ranges(request, tail),
    )


def _why_not_orc(request: ReadRequest, tail: OrcTail) -> str | None:
    if any(type_.kind in UNKNOWN_TO_SPARK for type_ in tail.types):
        return "it has a union or a local timestamp"
    return why_not_columns(request, tail)


def _why_not_parquet(
    request: ReadRequest, facts: ParquetFacts, file: PlainFile, *, minds_case: bool
) -> str | None:
    positions = FieldPositions(facts.schema, file.path)
    for column in request.columns:
        position = positions.of(column.name)
        if position is None:
            continue
        if not file.knows(column.name):
            return f"its partition was created before column {column.name} was added"
        if minds_case and facts.schema.field(position).name != column.name:
            return f"it spells column {column.name} differently, and the session is case-sensitive"
        why = _why_not_column(facts, position, column, in_utc=request.in_utc)
        if why is not None:
            return why
    return None


def _why_not_column(
    facts: ParquetFacts, position: int, column: Column, *, in_utc: bool
) -> str | None:
    hive_type = parse_type(column.type)
    if not is_exactly(facts, facts.schema.field(position).type, hive_type):
        return f"column {column.name} is not stored as {column.type}"
    if facts.schema.field(position).name.partition(".")[0] in facts.without_nan:
        return "Spark would skip its NaN values"  # Spark treats NaN as the greatest number
    if facts.has_old_days and holds(hive_type, _DATE):
        return "it may contain dates of another calendar"
    if facts.clock is TimestampStorage.INSTANT and holds(hive_type, _TIMESTAMP):
        if not facts.is_in_utc:
            return "its timestamps were not written in UTC"
        # Spark reads old timestamps as local times in the JVM's time zone.
        if facts.calendar is ParquetCalendar.HYBRID and not in_utc:
            return "Spark's JVM does not run in UTC"
    return None

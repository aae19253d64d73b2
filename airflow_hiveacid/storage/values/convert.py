"""Plan how to read a table's columns from an ORC file.

Columns are found by name at every level; case is ignored. A missing column is NULL. If all columns
of a file are called `_colN`, as before HIVE-4243, columns are found by position, as in ORC's
SchemaEvolution.
"""

from __future__ import annotations

import enum
import functools
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.orc.footer import OrcCalendar, OrcTail, OrcType
from airflow_hiveacid.storage.orc.view import TIMESTAMP_KINDS
from airflow_hiveacid.storage.values import converters
from airflow_hiveacid.storage.values.time_zones import TimeZone
from airflow_hiveacid.storage.values.timestamps import (
    TimestampForm,
    is_hybrid,
    may_have_old_days,
    may_overflow,
)

_log: Final = logging.getLogger(__name__)
_POSITIONAL: Final = re.compile(r"_col[0-9]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """The plan to read one column of the table from one file.

    `column_id` is None if the file does not have the column. If `is_split`, Arrow may not read its
    timestamps (out of range, or not in UTC), and `convert` also needs an array of its seconds.
    """

    field: pa.Field
    column_id: int | None
    is_split: bool
    convert: converters.Convert


class Matching(enum.Enum):
    """The method by which a table's columns are found in a file.

    NAME is the method of Hive 3.1, Trino and ORC. POSITION is Hive 4's default
    (`orc.force.positional.evolution`, true in Hive 4's HiveConf). By name, a renamed column is NULL
    in older files; by position, a moved column gets another's values. Fields of nested structs are
    always matched by name.

    UNAMBIGUOUS matches by name, and refuses a file for which NAME and POSITION may differ:
    otherwise, a job could read rows wrongly and write them back. They may differ in three cases:

    * The file lacks a column of the table, and has a column that the table lacks. The column may
      have been renamed.
    * The file and the table have common columns in different orders.
    * The file lacks a column of the table, but contains a later column of the table.

    A column that only the file has was dropped: by Trino, which matches by name.
    """

    NAME = "name"
    POSITION = "position"
    UNAMBIGUOUS = "unambiguous"


def plan_fields(  # noqa: PLR0913 - a file, a table and how their columns are matched
    tail: OrcTail,
    struct_id: int,
    columns: Sequence[Column],
    *,
    wanted: Sequence[Column],
    form: TimestampForm,
    matching: Matching = Matching.NAME,
    zone: TimeZone | None = None,
    is_hives: bool = False,
) -> tuple[FieldPlan, ...]:
    """Plan how to read columns from the struct with this column ID.

    `columns` are in the table's order; `wanted` are those to plan for, in the order of the result.
    `zone` is that of the writer; None means UTC. `is_hives`: a file without ACID columns was
    written into an ACID table (`is_hybrid`). Raises UnsupportedFileError if a column's type in the
    file cannot be read as the table's type, or a column may have been renamed.
    """
    hybrid = is_hybrid(tail, is_hives=is_hives or struct_id != 0)
    source = converters.ColumnFile(tail=tail, form=form, hybrid=hybrid, zone=zone)
    struct = tail.types[struct_id]
    by_position = matching is Matching.POSITION or all(
        _POSITIONAL.match(name) for name in struct.field_names
    )
    if matching is Matching.UNAMBIGUOUS and not by_position:
        _require_known_names(tail, struct, columns)
    positions = {column.name: position for position, column in enumerate(columns)}
    plans = []
    for column in wanted:
        position = positions[column.name]
        column_id = (
            _at(struct, position) if by_position else converters.child_named(struct, column.name)
        )
        plans.append(_field_plan(source, column, column_id))
    _tell_guess(source, [plan.column_id for plan in plans if plan.column_id is not None])
    return tuple(plans)


def _tell_guess(source: converters.ColumnFile, column_ids: Sequence[int]) -> None:
    tail = source.tail
    if tail.calendar is OrcCalendar.UNKNOWN and any(
        may_have_old_days(tail, dated)
        for column_id in column_ids
        for dated in source.dated_below(column_id)
    ):
        _tell_calendar(tail.path, "hybrid" if source.hybrid else "proleptic Gregorian")


@functools.lru_cache(maxsize=1000)  # each stripe of a file is planned
def _tell_calendar(path: str, calendar: str) -> None:
    _log.warning(
        "ORC file does not state its calendar: days before 1582-10-15 are read in the %s calendar"
        " path=%s",
        calendar,
        path,
    )


def _field_plan(source: converters.ColumnFile, column: Column, column_id: int | None) -> FieldPlan:
    hive_type = parse_type(column.type)
    type_ = converters.read_type(hive_type, source.form)
    field = pa.field(column.name, type_)
    if column_id is None:
        return FieldPlan(
            field=field, column_id=None, is_split=False, convert=converters.nulls(type_)
        )
    return FieldPlan(
        field=field,
        column_id=column_id,
        is_split=any(
            source.zone_of(source.tail.types[t]) is not None or may_overflow(source.tail, t)
            for t in source.dated_below(column_id)
            if source.tail.types[t].kind in TIMESTAMP_KINDS
        ),
        convert=converters.converter(source, column_id, hive_type, column.name),
    )


def _require_known_names(tail: OrcTail, struct: OrcType, columns: Sequence[Column]) -> None:
    theirs = [name.lower() for name in struct.field_names]
    ours = [column.name.lower() for column in columns]
    dropped, missing = set(theirs) - set(ours), set(ours) - set(theirs)
    if dropped and missing:
        why = (
            f"it has the columns {', '.join(sorted(dropped))} and lacks"
            f" {', '.join(sorted(missing))}: if a column was renamed,"
        )
    elif (overlap := [name for name in theirs if name in set(ours)]) != ours[: len(overlap)]:
        why = (
            f"its columns are {', '.join(overlap)}, but the table's are {', '.join(ours)}. With"
            " this order,"
        )
    else:
        return
    raise UnsupportedFileError(
        path=tail.path,
        reason=f"{why} Hive 3.1 and Hive 4 read different values. Compact the table with its own"
        " Hive version first",
    )


def _at(struct: OrcType, position: int) -> int | None:
    return struct.children[position] if position < len(struct.children) else None

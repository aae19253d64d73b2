"""From the columns of an ORC file to the columns of a table: names, nesting, types, calendars.

Takes the type tree of a file and the columns that are wanted; gives, for each column, the ID to
read and a function from what Arrow reads to what the table wants. Columns are found by name, in
any case, at every level; a missing one is NULL. Files whose columns are all called `_colN` are
read by position (SchemaEvolution of ORC, before HIVE-4243). Must not know rows' identity or where
files are.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.types import (
    parse_type,
)
from airflow_hiveacid.storage.values.calendars import is_hybrid
from airflow_hiveacid.storage.values.converters import (
    Convert,
    Source,
    child_named,
    converter,
    nulls,
    read_type,
)
from airflow_hiveacid.storage.values.timestamps import (
    TimestampForm,
    may_overflow,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.orc.footer import OrcTail, OrcType

_POSITIONAL: Final = re.compile(r"_col[0-9]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """How one column of the table comes out of one file.

    `column_id` is None for a column that the file does not have. `is_split` says that a
    timestamp in it may lie beyond Arrow's nanoseconds, so that `convert` needs the second reading.
    """

    field: pa.Field
    column_id: int | None
    is_split: bool
    convert: Convert


class Matching(enum.Enum):
    """How a table's columns are found in a file.

    NAME is what Hive 3.1, Trino and ORC itself do, POSITION what Hive 4 does unless it is told
    otherwise (`orc.force.positional.evolution`, true in its HiveConf). They differ after a column
    was renamed or moved: by name a renamed one is NULL in older files, by position a moved one is
    another's. Fields of nested structs go by name in both.

    UNAMBIGUOUS is by name too, but refuses a file in which they differ, since whoever writes what
    was read would make the guess permanent: a column of the table is missing while one of the
    file's own has no place in the table, so that it may have been renamed; columns stand in another
    order; one is missing that stands before others in the table. Columns that only the file has
    were dropped, which Trino alone can do, and it goes by name.
    """

    NAME = "name"
    POSITION = "position"
    UNAMBIGUOUS = "unambiguous"


def plan_fields(  # noqa: PLR0913 - a file, a table and how one is seen in the other
    tail: OrcTail,
    struct_id: int,
    columns: Sequence[Column],
    *,
    wanted: Sequence[Column],
    form: TimestampForm,
    matching: Matching = Matching.NAME,
) -> tuple[FieldPlan, ...]:
    """Find out how to read columns from the struct with this column ID.

    Args:
        tail: the file.
        struct_id: the column ID of the struct that holds the table's columns.
        columns: the table's columns, in the table's order.
        wanted: those to plan for, in the order of the result.
        form: how timestamps shall come out.
        matching: how columns are found.

    Raises:
        InvalidNameError: a type text is no Hive type.
        UnsupportedFileError: the file holds a column as a type that cannot be read as the table's,
            or under a name that may have been changed.
    """
    types = tail.types
    source = Source(tail=tail, types=types, form=form, hybrid=is_hybrid(tail))
    struct = types[struct_id]
    by_position = matching is Matching.POSITION or all(
        _POSITIONAL.match(name) for name in struct.field_names
    )
    if matching is Matching.UNAMBIGUOUS and not by_position:
        _require_known_names(tail, struct, columns)
    places = {column.name: at for at, column in enumerate(columns)}
    plans = []
    for column in wanted:
        place = places[column.name]
        column_id = _at(struct, place) if by_position else child_named(struct, column.name)
        plans.append(_field_plan(source, column, column_id))
    return tuple(plans)


def _field_plan(source: Source, column: Column, column_id: int | None) -> FieldPlan:
    wanted = parse_type(column.type)
    type_ = read_type(wanted, source.form)
    field = pa.field(column.name, type_)
    if column_id is None:
        return FieldPlan(field=field, column_id=None, is_split=False, convert=nulls(type_))
    return FieldPlan(
        field=field,
        column_id=column_id,
        is_split=any(may_overflow(source.tail, t) for t in source.timestamps_below(column_id)),
        convert=converter(source, column_id, wanted, column.name),
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
    elif (kept := [name for name in theirs if name in set(ours)]) != ours[: len(kept)]:
        why = f"it has the columns {', '.join(kept)}, and the table {', '.join(ours)}: so placed,"
    else:
        return
    raise UnsupportedFileError(
        path=tail.path,
        reason=f"{why} Hive 3.1 and 4 read different values here. Compact the table with the Hive"
        " that it belongs to first",
    )


def _at(struct: OrcType, position: int) -> int | None:
    return struct.children[position] if position < len(struct.children) else None

"""Which files Spark's own ORC reader reads right.

That reader knows nothing of ACID, so everything that makes our own reader look at rows one by one
is looked for in names and footers: files without ACID columns, write IDs that are only partly
visible, files still streamed into, update events of Hive 2, types that were changed later, old
calendars. Takes files with what a snapshot says of their directories; gives a verdict on each.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.bucket_codec import BucketCodec, decode
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty
from airflow_hiveacid.format.snapshot import RangeVisibility
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.acid.read.acid_file import FileKind, has_acid_columns
from airflow_hiveacid.storage.acid.read.file_check import require_new_rows
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.acid.row_schema import (
    IDENTITY_COLUMN_IDS,
    OPERATION_COLUMN_ID,
    ROOT_NAMES,
    ROW,
    ROW_COLUMN_ID,
    Operation,
)
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS, TypeKind
from airflow_hiveacid.storage.orc.statistics import has_replaced_bounds
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.calendars import SWITCHOVER_DAY, day_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.spark.reading.key_ranges import KeyRange
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.orc.footer import OrcTail, OrcType
    from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb

Doubts = Mapping[str, str]
"""Directories of one partition, with what speaks against reading them with Spark."""

_BUCKET_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[1]
_MILLIS_A_DAY: Final = 86_400_000
UNKNOWN_TO_SPARK: Final = frozenset({TypeKind.UNION, TypeKind.TIMESTAMP_INSTANT})
"""Spark looks at all types of an ORC file, whatever is asked of it, and fails on these."""
_STATISTICS: Final = {"date": "dates", "string": "strings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A delete file with events in it.

    `ranges` are the least and greatest value of each identity column, both inclusive; None where
    the file does not say. `is_native` says that Spark's reader may read it.
    """

    file: AcidFile
    rows: int
    ranges: tuple[tuple[int, int] | None, ...]
    is_native: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of the data files of a table.

    `table_columns` are all data columns, `columns` those that are read. `ranges` hold for some of
    these. `in_utc` says that Spark's JVMs run in UTC.
    """

    table_columns: tuple[Column, ...]
    columns: tuple[Column, ...]
    ranges: Mapping[str, KeyRange]
    in_utc: bool

    @property
    def why_none_fits(self) -> str | None:
        """Why Spark's reader is wrong about every file of such a table; None if it is not."""
        # A filter on `row.x` would be one on the field of that column.
        if any(c.name.lower() == ROW for c in self.table_columns):
            return "a column is called row"
        # Spark tells ORC the names between backquotes; one with a backquote in it ends early.
        if any("`" in f"{c.name} {c.type}" for c in self.table_columns):
            return "a column's name has a backquote"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known of one data file.

    `rows` counts all that are in it; it has none that is asked for if `is_outside`. `why_not` says
    why Spark's reader must not read it; None lets it.
    """

    rows: int
    why_not: str | None = None
    is_outside: bool = False


def doubts_about(state: AcidState) -> Doubts:
    """The directories of a partition whose rows have to be looked at one by one."""
    return {
        d.text: "some of its write IDs are aborted or open"
        if d.visibility is not RangeVisibility.ALL
        else "it is still streamed into"
        for d in state.live
        if d.visibility is not RangeVisibility.ALL or d.side_files
    }


def judged(asked: Asked, files: Sequence[tuple[AcidFile, Doubts]]) -> list[Verdict]:
    """A verdict on each data file, with the doubts about its partition.

    Raises:
        HiveAcidError: a footer cannot be read.
    """
    table = asked.why_none_fits
    return each_in_threads(lambda one: _verdict(asked, table, *one), files)


def delete_files(files: Sequence[tuple[AcidFile, Doubts]]) -> list[DeleteFile]:
    """Those delete files that have events in them.

    Raises:
        HiveAcidError: a footer cannot be read.
    """
    found = each_in_threads(lambda one: _delete_file(*one), files)
    return [delete for delete in found if delete.rows]


def _verdict(asked: Asked, why_table: str | None, file: AcidFile, doubts: Doubts) -> Verdict:
    tail = file.tail()  # let go at once: there may be many, and they are large
    _require_new_rows(file, tail)
    why = why_table or _why_not(asked, file, tail, doubts)
    is_outside = why is None and any(
        lies_outside(tail, tail.column_id(ROW, column.name), column, asked.ranges[column.name])
        for column in asked.columns
        if column.name in asked.ranges
    )
    return Verdict(rows=tail.rows, why_not=why if tail.rows else None, is_outside=is_outside)


def _require_new_rows(file: AcidFile, tail: OrcTail) -> None:
    """Refuse changes of Hive before 3 here, where all files are looked at.

    A task that meets them may never run: one row is enough for `LIMIT 1`, and it may be an old one.
    """
    require_new_rows(file, tail)
    is_told = tail.integer_range(OPERATION_COLUMN_ID) is not None
    if file.kind is FileKind.DATA and tail.rows and not is_told and not file.is_of_base:
        for _ in read_identity(file):
            pass  # it is looked at


def _delete_file(file: AcidFile, doubts: Doubts) -> DeleteFile:
    tail = file.tail()
    ranges = tuple(tail.integer_range(column_id) for column_id in IDENTITY_COLUMN_IDS)
    return DeleteFile(
        file=file,
        rows=tail.rows,
        ranges=ranges,
        is_native=_why_not_whole(file, tail, doubts, FileKind.DELETE, Operation.DELETE) is None,
    )


def _why_not_whole(
    file: AcidFile, tail: OrcTail, doubts: Doubts, kind: FileKind, operation: Operation
) -> str | None:
    """What speaks against reading a file with Spark at all, whatever of it."""
    if file.kind is not kind or not has_acid_columns(tail):
        return "it has no ACID columns"
    directory = doubts.get(file.key.partition("/")[0])
    if directory is not None:
        return directory
    reasons = {
        "its ACID columns are spelt otherwise": tail.types[0].field_names != ROOT_NAMES,
        "it has a union or a local timestamp": any(
            type_.kind in UNKNOWN_TO_SPARK for type_ in tail.types
        ),
        "its statistics do not say that its events are all of one kind": tail.integer_range(
            OPERATION_COLUMN_ID
        )
        != (operation, operation),
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _why_not(asked: Asked, file: AcidFile, tail: OrcTail, doubts: Doubts) -> str | None:
    """Why Spark's reader must not read these columns of a data file."""
    why = _why_not_whole(file, tail, doubts, FileKind.DATA, Operation.INSERT)
    if why is not None:
        return why
    found = tail.types[ROW_COLUMN_ID].field_names
    # By name and by position: there are engines for either.
    if found != tuple(c.name for c in asked.table_columns[: len(found)]):
        return "its columns are not the table's"
    if _buckets(tail) != {(BucketCodec.V1, file.bucket_id)}:
        return "its rows are not all of its bucket"
    for column in asked.columns:
        column_id = tail.column_id(ROW, column.name)
        if column_id is None:
            return f"it is older than column {column.name}"
        if not is_column(tail, column_id, parse_type(column.type), in_utc=asked.in_utc):
            return f"column {column.name} is not stored as {column.type} in today's calendar"
    return None


def _buckets(tail: OrcTail) -> set[tuple[BucketCodec, BucketId]]:
    """Codec and bucket of the least and the greatest bucket property."""
    found = tail.integer_range(_BUCKET_COLUMN_ID) or ()
    try:
        identities = [decode(BucketProperty(value)) for value in found]
    except InvalidNameError:
        return set()
    return {(identity.codec_version, identity.bucket_id) for identity in identities}


def is_column(tail: OrcTail, column_id: int, wanted: hive.HiveType, *, in_utc: bool) -> bool:
    """Whether a column is stored as its type, in today's calendar, so that Spark reads it right."""
    if isinstance(wanted, hive.CharType):  # its padding is taken off; nobody does so further down
        found = tail.types[column_id]
        return (found.kind, found.maximum_length) == (TypeKind.CHAR, wanted.length)
    return _is_alike(tail, column_id, wanted, in_utc=in_utc)


def _is_alike(tail: OrcTail, column_id: int, wanted: hive.HiveType, *, in_utc: bool) -> bool:
    found = tail.types[column_id]
    alike = partial(_are_alike, tail, found, in_utc=in_utc)
    match wanted:
        case hive.ArrayType(element=element):
            return alike(TypeKind.LIST, [element])
        case hive.MapType(key=key, value=value):
            return alike(TypeKind.MAP, [key, value])
        case hive.StructType(fields=fields):
            has_names = found.field_names == tuple(name for name, _ in fields)
            return has_names and alike(TypeKind.STRUCT, [t for _, t in fields])
        case hive.PrimitiveType(name="timestamp"):
            is_kind = found.kind == TypeKind.TIMESTAMP
            return is_kind and in_utc and _is_gregorian(tail, column_id)
        case hive.PrimitiveType(name="date"):
            return found.kind == TypeKind.DATE and _is_gregorian(tail, column_id)
        case _:
            facts = (found.kind, found.precision, found.scale, found.maximum_length)
            return facts == _facts(wanted)


def _facts(wanted: hive.HiveType) -> tuple[TypeKind, int, int, int] | None:
    """Kind, precision, scale and length that a file must say of a type; None: none will do."""
    match wanted:
        case hive.PrimitiveType(name=name) if name in PRIMITIVE_KINDS:
            return PRIMITIVE_KINDS[name], 0, 0, 0
        case hive.VarcharType(length=length):
            return TypeKind.VARCHAR, 0, 0, length
        case hive.DecimalType(precision=precision, scale=scale):
            return TypeKind.DECIMAL, precision, scale, 0
        case _:
            return None


def _are_alike(
    tail: OrcTail,
    found: OrcType,
    kind: TypeKind,
    below: Sequence[hive.HiveType],
    *,
    in_utc: bool,
) -> bool:
    return (
        found.kind == kind
        and len(found.children) == len(below)
        and all(
            _is_alike(tail, *pair, in_utc=in_utc)
            for pair in zip(found.children, below, strict=True)
        )
    )


def _is_gregorian(tail: OrcTail, column_id: int) -> bool:
    """Whether all days are of the calendar that everybody agrees on."""
    statistics = _counted(tail, column_id)
    if statistics is None:
        return False
    if not statistics.values:
        return True
    if tail.types[column_id].kind == TypeKind.DATE:
        dates = statistics.dates
        return dates.HasField("minimum") and dates.minimum >= SWITCHOVER_DAY
    times = statistics.timestamps
    return times.HasField("minimum_utc") and times.minimum_utc >= SWITCHOVER_DAY * _MILLIS_A_DAY


def _counted(tail: OrcTail, column_id: int) -> pb.ColumnStatistics | None:
    """Statistics of a column that say how many values there are; None if there are none."""
    found = tail.statistics(column_id) if tail.row_index_stride else None
    return found if found is not None and found.HasField("values") else None


def lies_outside(tail: OrcTail, column_id: int | None, column: Column, wanted: KeyRange) -> bool:
    """Whether no value of a column lies in a range; only of columns that the file has as such."""
    if wanted.is_empty:
        return True
    statistics = _counted(tail, column_id) if column_id is not None else None
    if statistics is None:
        return False
    if not statistics.values:
        return True
    found = getattr(statistics, _STATISTICS.get(column.type, "integers"))
    if not (found.HasField("minimum") and found.HasField("maximum")):
        return False
    if column.type == "string" and has_replaced_bounds(found):
        return False
    low, high = _bound(wanted.low), _bound(wanted.high)
    return (low is not None and found.maximum < low) or (high is not None and found.minimum > high)


def _bound(value: Any) -> Any:  # noqa: ANN401 - of the column's own type
    """An end of a range as footers have it."""
    match value:
        case dt.date():
            return day_of(value)
        case str():
            return value.encode()
        case _:
            return value

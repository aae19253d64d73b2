"""Which partitions Spark's own ORC reader reads right.

That reader knows nothing of ACID, so everything that makes our own reader look at rows one by one
is looked for in names and footers: files without ACID columns, write IDs that are only partly
visible, files still streamed into, update events of Hive 2, types that were changed later, old
calendars. Takes what a snapshot reads of a partition; gives its files, or None.
"""

from __future__ import annotations

import datetime as dt
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.bucket_codec import BucketCodec, decode
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty
from airflow_hiveacid.format.snapshot import RangeVisibility
from airflow_hiveacid.format.types import TIMESTAMP_LOCAL, parse_type
from airflow_hiveacid.storage.acid.read.acid_file import FileKind, has_acid_columns
from airflow_hiveacid.storage.acid.row_schema import (
    IDENTITY_COLUMN_IDS,
    ROOT_NAMES,
    ROW,
    ROW_COLUMN_ID,
    Operation,
)
from airflow_hiveacid.storage.orc.footer import PRIMITIVE_KINDS, TypeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.table import Column, PartitionInfo, TableInfo
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.files import BucketFiles
    from airflow_hiveacid.storage.orc.footer import OrcTail, OrcType

_PARALLEL: Final = 16
_OPERATION_COLUMN_ID: Final = 1
_BUCKET_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[1]
_GLOB: Final = frozenset("{}[]*?\\")
# A directory and a file whose names look the same in a URI.
_PLAIN_PATH: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_FIRST_GREGORIAN: Final = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days
# Spark's reader moves them through the time zone of its JVM. Nor are let through: char, whose
# padding it keeps, and unions, for which it fails on the whole file.
_TIMESTAMPS: Final = frozenset({"timestamp", TIMESTAMP_LOCAL})
_KINDS: Final = {n: kind for n, kind in PRIMITIVE_KINDS.items() if n not in _TIMESTAMPS}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A delete file with events in it.

    `ranges` are the least and greatest value of each identity column, both inclusive; None where
    the file does not say.
    """

    file: AcidFile
    rows: int
    ranges: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition whose rows Spark's reader reads right: its files with rows, and with events."""

    info: PartitionInfo
    data: tuple[AcidFile, ...]
    deletes: tuple[DeleteFile, ...]


def readable_part(
    table: TableInfo,
    columns: Sequence[Column],
    info: PartitionInfo,
    state: AcidState,
    buckets: Sequence[BucketFiles],
) -> Part | None:
    """The partition, with the files of its buckets, if Spark's reader is right about these columns.

    Raises:
        HiveAcidError: a footer cannot be read.
    """
    # A filter on `row.x` would be one on the field of that column; and Spark tells ORC the names
    # between backquotes, so that one with a backquote ends early and the values are others'.
    is_misnamed = any(c.name.lower() == ROW or "`" in f"{c.name} {c.type}" for c in table.columns)
    if not columns or is_misnamed or _GLOB & set(info.location) or not _is_plain(state):
        return None
    names = tuple(c.name for c in table.columns)

    def rows_of(file: AcidFile) -> int | None:
        tail = file.tail()  # let go at once: there may be many, and they are large
        return None if tail.rows and not _is_right(file, tail, names, columns) else tail.rows

    data = [file for bucket in buckets for file in bucket.inserts]
    deletes = {file.path: file for bucket in buckets for file in bucket.deletes}
    with ThreadPoolExecutor(_PARALLEL) as pool:
        rows = list(pool.map(rows_of, data))
        if None in rows:
            return None
        return Part(
            info=info,
            data=tuple(file for file, count in zip(data, rows, strict=True) if count),
            deletes=tuple(d for d in pool.map(_delete_file, deletes.values()) if d.rows),
        )


def _delete_file(file: AcidFile) -> DeleteFile:
    tail = file.tail()
    ranges = tuple(tail.integer_range(column_id) for column_id in IDENTITY_COLUMN_IDS)
    return DeleteFile(file=file, rows=tail.rows, ranges=ranges)


def _is_plain(state: AcidState) -> bool:
    """Whether every row of every data file counts, and is in a file with ACID columns."""
    first = () if state.base is None else (state.base,)
    return not state.originals and all(
        directory.visibility is RangeVisibility.ALL and not directory.side_files
        for directory in (*first, *state.deltas)
    )


def _is_right(
    file: AcidFile, tail: OrcTail, names: Sequence[str], columns: Sequence[Column]
) -> bool:
    """Whether Spark's reader reads these columns of a data file as ours does."""
    if file.kind is not FileKind.DATA or not has_acid_columns(tail):
        return False
    found = tail.types[ROW_COLUMN_ID].field_names
    return (
        _PLAIN_PATH.fullmatch(file.key) is not None
        and tail.types[0].field_names == ROOT_NAMES
        and all(type_.kind != TypeKind.UNION for type_ in tail.types)
        # By name and by position: there are engines for either.
        and found == tuple(names[: len(found)])
        and tail.integer_range(_OPERATION_COLUMN_ID) == (Operation.INSERT, Operation.INSERT)
        and _buckets(tail) == {(BucketCodec.V1, file.bucket_id)}
        and all(
            (column_id := tail.column_id(ROW, column.name)) is not None
            and _is_alike(tail, column_id, parse_type(column.type))
            for column in columns
        )
    )


def _buckets(tail: OrcTail) -> set[tuple[BucketCodec, BucketId]]:
    """Codec and bucket of the least and the greatest bucket property."""
    found = tail.integer_range(_BUCKET_COLUMN_ID) or ()
    try:
        identities = [decode(BucketProperty(value)) for value in found]
    except InvalidNameError:
        return set()
    return {(identity.codec_version, identity.bucket_id) for identity in identities}


def _is_alike(tail: OrcTail, column_id: int, wanted: hive.HiveType) -> bool:
    found = tail.types[column_id]
    match wanted:
        case hive.ArrayType(element=element):
            return _are_alike(tail, found, TypeKind.LIST, [element])
        case hive.MapType(key=key, value=value):
            return _are_alike(tail, found, TypeKind.MAP, [key, value])
        case hive.StructType(fields=fields):
            has_names = found.field_names == tuple(name for name, _ in fields)
            return has_names and _are_alike(tail, found, TypeKind.STRUCT, [t for _, t in fields])
        case _:
            facts = (found.kind, found.precision, found.scale, found.maximum_length)
            is_old = found.kind == TypeKind.DATE and not _is_gregorian(tail, column_id)
            return facts == _facts(wanted) and not is_old


def _facts(wanted: hive.HiveType) -> tuple[TypeKind, int, int, int] | None:
    """Kind, precision, scale and length that a file must say of a type; None: none will do."""
    match wanted:
        case hive.PrimitiveType(name=name) if name in _KINDS:
            return _KINDS[name], 0, 0, 0
        case hive.VarcharType(length=length):
            return TypeKind.VARCHAR, 0, 0, length
        case hive.DecimalType(precision=precision, scale=scale):
            return TypeKind.DECIMAL, precision, scale, 0
        case _:
            return None


def _are_alike(
    tail: OrcTail, found: OrcType, kind: TypeKind, below: Sequence[hive.HiveType]
) -> bool:
    return (
        found.kind == kind
        and len(found.children) == len(below)
        and all(_is_alike(tail, *pair) for pair in zip(found.children, below, strict=True))
    )


def _is_gregorian(tail: OrcTail, column_id: int) -> bool:
    """Whether all days are of the calendar that everybody agrees on."""
    statistics = tail.statistics(column_id)
    if statistics is None or not tail.row_index_stride:
        return False
    if not statistics.values:
        return True
    dates = statistics.dates
    return dates.HasField("minimum") and dates.minimum >= _FIRST_GREGORIAN

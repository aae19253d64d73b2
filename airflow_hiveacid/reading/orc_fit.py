"""Check of a table's files: whether Spark's readers read each file correctly.

Names and footers show what only our own reader handles: files without ACID columns, partly visible
write IDs, unfinished streams, update events of Hive 2, changed types, and old calendars.

If Spark would read a file of an insert-only table differently than Hive, our own reader
(`storage.plain`) reads it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.errors import InvalidNameError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketCodec, BucketId, BucketProperty, decode
from airflow_hiveacid.format.snapshot import RangeVisibility
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.reading import NUMBER, KeyRange, ReadRequest
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, has_acid_columns
from airflow_hiveacid.storage.acid.read.buckets import buckets_read
from airflow_hiveacid.storage.acid.read.file_check import require_new_rows
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.orc.footer import OrcTail, TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.statistics import has_replaced_bounds
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.orc.view import TIMESTAMP_KINDS
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_footer import (
    ParquetCalendar,
    ParquetFacts,
    TimestampStorage,
    read_facts,
)
from airflow_hiveacid.storage.plain.parquet_rows import FieldPositions, is_exactly
from airflow_hiveacid.storage.plain.stored import is_stored_as
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.column_types import holds, types_in
from airflow_hiveacid.storage.values.converters import DATED_KINDS
from airflow_hiveacid.storage.values.timestamps import day_of, may_have_old_days

Doubts = Mapping[str, str]
"""Directories of a partition that Spark must not read, each with the reason."""

_BUCKET_COLUMN_ID: Final = acid.IDENTITY_COLUMN_IDS[1]
UNKNOWN_TO_SPARK: Final = frozenset({TypeKind.UNION, TypeKind.TIMESTAMP_INSTANT})
"""Types that make Spark fail even if it does not read such a column, since it parses all types."""
_STATISTICS: Final = {"date": "dates", "string": "strings"}
# Older writers merged the statistics of strings incorrectly (HIVE-8732).
_MERGES_TEXTS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A delete file that is not empty.

    `ranges` has each row ID column's least and greatest value, inclusive; None without statistics.
    `is_native` is True if Spark's reader may read the file.
    """

    file: AcidFile
    rows: int
    ranges: tuple[tuple[int, int] | None, ...]
    is_native: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFit:
    """The verdict on one data file.

    `rows` is the number of rows in the file; if `is_outside`, no row is in the requested ranges.
    `why_not` is the reason why Spark's reader must not read the file, or None. `buckets` are those
    of its rows, if these may be changed.
    """

    rows: int
    why_not: str | None = None
    is_outside: bool = False
    buckets: frozenset[BucketId] = frozenset()


def doubts_about(state: AcidState) -> Doubts:
    """Return a partition's directories whose rows must be checked one by one."""
    return {
        d.text: "some of its write IDs are aborted or open"
        if d.visibility is not RangeVisibility.ALL
        else "a writer still streams rows into it"
        for d in state.live
        if d.visibility is not RangeVisibility.ALL or d.side_files
    }


def judged(
    request: ReadRequest, files: Sequence[tuple[AcidFile, Doubts]], *, for_changes: bool = False
) -> list[FileFit]:
    """Return a verdict on each data file, given the doubts about its partition."""
    table = request.why_none_fits
    return each_in_threads(
        lambda pair: _verdict(request, table, *pair, for_changes=for_changes), files
    )


def delete_files(files: Sequence[tuple[AcidFile, Doubts]]) -> list[DeleteFile]:
    """Return the delete files that are not empty."""
    deletes = each_in_threads(lambda pair: _delete_file(*pair), files)
    return [delete for delete in deletes if delete.rows]


def _verdict(
    request: ReadRequest,
    why_table: str | None,
    file: AcidFile,
    doubts: Doubts,
    *,
    for_changes: bool,
) -> FileFit:
    tail = file.tail()  # not stored, because there may be many tails, and they are large
    check_rows(file, tail)
    why = why_table or _why_not(request, file, tail, doubts)
    is_outside = why is None and has_none_in_ranges(request, tail, acid.ROW)
    return FileFit(
        rows=tail.rows,
        why_not=why if tail.rows else None,
        is_outside=is_outside,
        # For these, all rows may have to be read, and only a change needs them.
        buckets=_buckets_of(file, tail) if for_changes and not is_outside else frozenset(),
    )


def _buckets_of(file: AcidFile, tail: OrcTail) -> frozenset[BucketId]:
    """Return the buckets of a data file's rows.

    The rows are read if the statistics do not show it: they may be missing or undecodable.
    """
    if file.kind is not FileKind.DATA or not tail.rows:
        return frozenset()
    ends = _buckets(tail)
    found = {bucket for _, bucket in ends}
    # One bucket at both ends is that of all rows, and a foreign bucket is enough to refuse the
    # file. Ends of the own bucket but two codecs may have any bucket between them.
    return frozenset(found if len(ends) == 1 or found - {file.bucket_id} else buckets_read(file))


def require_own_bucket(file: AcidFile, buckets: Collection[BucketId]) -> None:
    """Raise an UnsupportedFileError if Hive would ignore delete events for rows of these buckets.

    `file` has the rows. Hive applies only the events of the bucket in its name.
    """
    others = set(buckets) - {file.bucket_id}
    if others:
        raise UnsupportedFileError(
            path=file.path,
            reason=f"it contains rows of bucket {min(others)}, but is named as a file of bucket"
            f" {file.bucket_id}. Hive would show these rows also after they were deleted. First"
            " compact the table or partition: a major compaction moves each row to a file of its"
            " bucket",
        )


def check_rows(file: AcidFile, tail: OrcTail) -> None:
    """Before any task runs, refuse a file with row changes from before Hive 3."""
    require_new_rows(file, tail)
    has_operations = tail.integer_range(acid.OPERATION_COLUMN_ID) is not None
    if file.kind is FileKind.DATA and tail.rows and not has_operations and not file.is_of_base:
        for _ in read_identity(file):
            pass  # the check happens when the file is read


def _delete_file(file: AcidFile, doubts: Doubts) -> DeleteFile:
    tail = file.tail()
    ranges = tuple(tail.integer_range(column_id) for column_id in acid.IDENTITY_COLUMN_IDS)
    return DeleteFile(
        file=file,
        rows=tail.rows,
        ranges=ranges,
        is_native=_why_not_whole(file, tail, doubts, FileKind.DELETE, acid.Operation.DELETE)
        is None,
    )


def _why_not_whole(
    file: AcidFile, tail: OrcTail, doubts: Doubts, kind: FileKind, operation: acid.Operation
) -> str | None:
    """Return why Spark cannot read any column of a file correctly, or None."""
    if file.kind is not kind or not has_acid_columns(tail):
        return "it has no ACID columns"
    directory = doubts.get(file.top)
    if directory is not None:
        return directory
    reasons = {
        "some of its rows have write IDs that its directory must not contain": not _is_within(
            file, tail.integer_range(acid.IDENTITY_COLUMN_IDS[0])
        ),
        "its ACID columns have other names": tail.types[0].field_names != acid.ROOT_NAMES,
        "it has a union or a local timestamp": any(
            type_.kind in UNKNOWN_TO_SPARK for type_ in tail.types
        ),
        "its statistics do not prove that all its events are of one kind": tail.integer_range(
            acid.OPERATION_COLUMN_ID
        )
        != (operation, operation),
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _why_not(request: ReadRequest, file: AcidFile, tail: OrcTail, doubts: Doubts) -> str | None:
    """Return why Spark cannot read these columns of a data file correctly, or None."""
    why = _why_not_whole(file, tail, doubts, FileKind.DATA, acid.Operation.INSERT)
    if why is not None:
        return why
    if _buckets(tail) != {(BucketCodec.V1, file.bucket_id)}:
        return "some of its rows belong to another bucket"
    return why_not_columns(request, tail, acid.ROW)


def why_not_columns(request: ReadRequest, tail: OrcTail, *root: str) -> str | None:
    """Return why Spark cannot read the requested columns below `root` correctly, or None."""
    # Files without `root` were refused before; the root of a flat file is column 0.
    names = tail.types[tail.column_id(*root) or 0].field_names
    # Names and positions must agree: engines match columns by either.
    if names != tuple(c.name for c in request.table_columns[: len(names)]):
        return "its columns differ from the table's"
    for column in request.columns:
        column_id = tail.column_id(*root, column.name)
        if column_id is None:
            return f"it was written before column {column.name} was added"
        if not is_column(tail, column_id, hive.parse_type(column.type), in_utc=request.in_utc):
            return f"column {column.name} is not stored as {column.type} in today's calendar"
    return None


def has_none_in_ranges(request: ReadRequest, tail: OrcTail, *root: str) -> bool:
    """Return whether a file has no row in the requested ranges of columns below `root`."""
    return any(
        lies_outside(tail, tail.column_id(*root, c.name), c, request.ranges[c.name])
        for c in request.columns
        if c.name in request.ranges
    )


def _is_within(file: AcidFile, write_ids: tuple[int, int] | None) -> bool:
    """Return whether all original write IDs are in the range of the file's directory."""
    if write_ids is None:
        return False
    lowest, highest = write_ids
    return file.least_write_id <= lowest and (
        file.greatest_write_id is None or highest <= file.greatest_write_id
    )


def _buckets(tail: OrcTail) -> set[tuple[BucketCodec, BucketId]]:
    """Return the codec and bucket of the least and greatest bucket property in a file."""
    properties = tail.integer_range(_BUCKET_COLUMN_ID) or ()
    try:
        identities = [decode(BucketProperty(value)) for value in properties]
    except InvalidNameError:
        return set()
    return {(identity.codec_version, identity.bucket_id) for identity in identities}


def is_column(tail: OrcTail, column_id: int, wanted: hive.HiveType, *, in_utc: bool) -> bool:
    """Return whether a column is stored as Spark expects: with this type, in today's calendar."""
    # `orc_frame` strips the padding of a char, but not of nested ones.
    is_padded = any(isinstance(t, hive.CharType) for t in types_in(wanted))
    if is_padded and not isinstance(wanted, hive.CharType):
        return False
    if not is_stored_as(tail.types, column_id, wanted):
        return False
    dated = [i for i in tail.below([column_id]) if tail.types[i].kind in DATED_KINDS]
    are_times_moved = not in_utc and any(tail.types[i].kind in TIMESTAMP_KINDS for i in dated)
    return not are_times_moved and not any(may_have_old_days(tail, i) for i in dated)


def _counted(tail: OrcTail, column_id: int) -> pb.ColumnStatistics | None:
    statistics = tail.statistics(column_id) if tail.row_index_stride else None
    return statistics if statistics is not None and statistics.HasField("values") else None


def lies_outside(tail: OrcTail, column_id: int | None, column: Column, wanted: KeyRange) -> bool:
    """Return whether a column has no value in a range; the column must be stored with its type."""
    if wanted.is_empty:
        return True
    statistics = _counted(tail, column_id) if column_id is not None else None
    if statistics is None:
        return False
    if not statistics.values:
        return True
    ends = getattr(statistics, _STATISTICS.get(column.type, "integers"))
    if not (ends.HasField("minimum") and ends.HasField("maximum")):
        return False
    if column.type == "string" and (
        tail.postscript.writer_version < _MERGES_TEXTS or has_replaced_bounds(ends)
    ):
        return False
    low, high = _bound(wanted.low), _bound(wanted.high)
    return (low is not None and ends.maximum < low) or (high is not None and ends.minimum > high)


def _bound(value: Any) -> Any:  # noqa: ANN401 - of the column's own type
    match value:
        case dt.date():
            return day_of(value)
        case str():
            return value.encode()
        case _:
            return value


# Reserved names: Spark's column with file metadata, and our column with the file's number.
_TAKEN: Final = frozenset({"_metadata", NUMBER})
_REBASE: Final = {ParquetCalendar.HYBRID: "LEGACY", ParquetCalendar.PROLEPTIC: "CORRECTED"}
# A standard Spark installation does not include Spark's Avro reader.
_OURS: Final = {FileFormat.AVRO: "it is Avro", FileFormat.TEXT: "it is text"}
_DATE: Final = hive.PrimitiveType("date")
_TIMESTAMP: Final = hive.PrimitiveType("timestamp")


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
class PlainVerdict(FileFit):
    """The verdict on one file of an insert-only or flat table, which Spark may read by `manner`."""

    manner: SparkManner


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
        _plain_verdict,
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


def _plain_verdict(
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
        if position is None:  # every reader returns NULL
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
    hive_type = hive.parse_type(column.type)
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

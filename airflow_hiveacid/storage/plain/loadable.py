"""Check and copy the files that LOAD DATA adds, so that every reader reads the same rows.

Files are copied byte by byte, and refused if Hive 3.1, Hive 4 and our reader would not all read the
same rows: other column names, order or types, values in an unknown calendar, and whatever our
reader or writer refuses: then each read or compaction of the table would fail. Footers do not prove
which values a file has, so it is read to its end. A refused file can instead be the source of an
INSERT.
"""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.names import is_hidden
from airflow_hiveacid.format.table import Column, FileFormat, PartitionInfo, TableInfo
from airflow_hiveacid.format.types import PrimitiveType, parse_type
from airflow_hiveacid.storage.acid.read import has_acid_columns
from airflow_hiveacid.storage.orc.compression import Compression
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.plain import parquet_footer as footer
from airflow_hiveacid.storage.plain.compact import compactable_form
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_rows import FieldPositions, why_not
from airflow_hiveacid.storage.plain.rows import rows_of
from airflow_hiveacid.storage.plain.stored import are_old_values_known, is_stored_as
from airflow_hiveacid.storage.stores import filesystem, locations
from airflow_hiveacid.storage.stores.threads import side_by_side
from airflow_hiveacid.storage.values.column_types import holds
from airflow_hiveacid.storage.values.timestamps import TimestampForm

_REMEDY: Final = (
    "insert the rows instead: use HiveAcidInsertOperator with these files as the source"
)
# Hive brings no codec for these compressions of Parquet (CodecFactory of Parquet's Java library).
_UNKNOWN_METHODS: Final = frozenset({"BROTLI", "LZO"})
# Hive 3.1 reads Parquet with version 1.10, which is older than these. Arrow's LZ4 is LZ4_RAW.
_NEW_METHODS: Final = frozenset({"LZ4", "BYTE_STREAM_SPLIT"})
_DATE: Final = PrimitiveType("date")
_TIMESTAMP: Final = PrimitiveType("timestamp")
# Each check keeps batches of its file in memory.
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadableFile:
    """One file to load, as a plain value; `length` is in bytes."""

    uri: str
    length: int
    rows: int


Found = tuple[str, int]
"""The URI of a file, and its length in bytes."""

Checked = tuple[int, bool]
"""The number of rows in a file, and whether its timestamps need the unit of nanoseconds."""

Each = Callable[[Callable[[Found], Checked], Sequence[Found]], Sequence[Checked]]
"""A function that calls another one for each file, and returns its results in order."""


def checked_here(check: Callable[[Found], Checked], files: Sequence[Found]) -> Sequence[Checked]:
    """Check each file in this process."""
    return side_by_side(check, files, at_once=_AT_ONCE)


def loadable_files(  # noqa: PLR0913 - both last arguments have defaults
    table: TableInfo,
    location: str,
    generation: MetastoreGeneration,
    partition: PartitionInfo | None = None,
    *,
    allow: Callable[[int], None] = lambda _: None,
    each: Each = checked_here,
) -> tuple[LoadableFile, ...]:
    """Check that all files at a location fit the table, and return the files sorted by name.

    `location` is a file, or a directory that contains only files; hidden files are ignored. The
    `generation` of the metastore limits the age of possible readers. `partition` is the partition
    to load into, if it exists; it may lie outside the table's location. `allow` gets the size of
    the files in bytes before they are read, and may refuse it. `each` has the files checked. Raises
    SourceNotFoundError if there is no file, SourceUnreadableError if the location is inside the
    table's or has directories, or a file cannot be loaded, and CorruptFileError if it is damaged.
    """
    homes = [table.location, *([] if partition is None else [partition.location])]
    if any(_is_within(location, home) for home in homes):
        raise errors.SourceUnreadableError(
            source=location,
            reason=f"it is inside {table.ref}, so its rows are already in that table",
        )
    check = partial(_checked, table, generation)
    files = _source_files(location)
    allow(sum(length for _, length in files))
    checked = each(check, files)
    coarse = [file for file, (_, is_fine) in zip(files, checked, strict=True) if not is_fine]
    if coarse and len(coarse) < len(files):
        # A compaction may combine the files, and all timestamps of its result have one unit.
        each(partial(check, form=TimestampForm.NANOSECONDS), coarse)
    return tuple(
        LoadableFile(uri=uri, length=length, rows=rows)
        for (uri, length), (rows, _) in zip(files, checked, strict=True)
    )


def _is_within(location: str, home: str) -> bool:
    # Names of HDFS clusters are not compared, because one cluster may have several names.
    if locations.HADOOP_SCHEMES.isdisjoint(
        (locations.scheme_of(location), locations.scheme_of(home))
    ):
        # The first identity is the directory's own; the others are those of directories above.
        return locations.identities(home)[0] in locations.identities(location)
    if locations.scheme_of(location) != locations.scheme_of(home):
        return False
    path, root = (posixpath.normpath(locations.locate(uri)[1]) for uri in (location, home))
    return path == root or path.startswith(f"{root}/")


def _source_files(location: str) -> list[Found]:
    # The rules are the same as in Hive's LoadSemanticAnalyzer.matchFilesOrDir.
    fs, path = locations.open_location(location)
    with filesystem.storage_errors("read", location):
        info = fs.get_file_info(path)
        if info.type == pafs.FileType.NotFound:
            raise errors.SourceNotFoundError(
                source=location,
                reason="there is no such file or directory; patterns are not supported",
            )
        is_directory = info.type == pafs.FileType.Directory
        infos = fs.get_file_info(pafs.FileSelector(path)) if is_directory else [info]
    visible = sorted((i for i in infos if not is_hidden(i.base_name)), key=lambda i: i.base_name)
    for entry in visible:
        if entry.type == pafs.FileType.Directory:
            raise errors.SourceUnreadableError(
                source=location,
                reason=f"it holds the directory {entry.base_name}; load one directory of files, or"
                f" {_REMEDY}",
            )
    if not visible:
        raise errors.SourceNotFoundError(source=location, reason="there is no file in it")
    if not is_directory:
        return [(location, info.size)]
    return [(posixpath.join(location, entry.base_name), entry.size) for entry in visible]


def _checked(
    table: TableInfo,
    generation: MetastoreGeneration,
    found: Found,
    *,
    form: TimestampForm | None = None,
) -> Checked:
    """Check one file; with `form`, its timestamps must fit this one, which another file needs."""
    uri, length = found
    store, path = locations.locate(uri)
    file = PlainFile(store=store, path=path, key=path, length=length, format=table.storage.format)
    problem, rows = _looked_at(table, generation, file)
    if problem is None:
        try:
            form = compactable_form(file, table.columns, table=table.ref, form=form)
        except (errors.UnsupportedFileError, errors.TypeMismatchError) as error:
            beside = " beside nanoseconds in another file" if form else ""
            problem = f"this provider could not read or compact its rows{beside} ({error})"
    if problem is not None:
        raise errors.SourceUnreadableError(
            source=uri, reason=f"it cannot be a file of {table.ref}: {problem}. {_REMEDY}"
        )
    return rows, form is TimestampForm.NANOSECONDS


def _looked_at(
    table: TableInfo, generation: MetastoreGeneration, file: PlainFile
) -> tuple[str | None, int]:
    """Return why a file's footer forbids to load it, or None; and its number of rows."""
    if not file.length:
        return "it is empty", 0
    match file.format:
        case FileFormat.ORC:
            tail = file.tail()
            return _why_not_orc(tail, table.columns, generation), tail.rows
        case FileFormat.PARQUET:
            facts = footer.read_facts(file)
            why = _why_not_methods(footer.methods_in(file), generation)
            return why or _why_not_parquet(facts, table.columns, file.path), facts.rows
        case FileFormat.TEXT | FileFormat.AVRO | FileFormat.OTHER:
            raise errors.UnsupportedFileError(
                path=file.path,
                reason=f"files cannot be loaded unchanged into a table stored as {table.storage};"
                " create a flat table over the files, and INSERT from that table",
            )
        case other:
            assert_never(other)


def _why_not_orc(
    tail: OrcTail, columns: Sequence[Column], generation: MetastoreGeneration
) -> str | None:
    if has_acid_columns(tail):
        return "it has the ACID columns of a full-ACID table's file; use that table as the source"
    if generation is MetastoreGeneration.V3 and tail.compression > Compression.LZ4:
        return f"it is compressed with {tail.compression.name}, which Hive 3.1 does not know"
    root = tail.types[0]
    file_columns, table_columns = root.field_names, tuple(column.name for column in columns)
    # Hive 4 finds columns by position, Hive 3.1 by name, with upper and lower case.
    if file_columns != table_columns:
        return (
            f"its columns are {', '.join(file_columns)},"
            f" but the table's are {', '.join(table_columns)}"
        )
    for column, column_id in zip(columns, root.children, strict=True):
        if not is_stored_as(tail.types, column_id, parse_type(column.type)):
            return f"column {column.name} is not stored as {column.type} in the file"
    if not are_old_values_known(tail):
        return (
            "the file does not state the calendar of its old times, but may have dates before"
            " 1582-10-15 or times before 1970"
        )
    return None


def _why_not_methods(methods: frozenset[str], generation: MetastoreGeneration) -> str | None:
    for method in sorted(methods & _UNKNOWN_METHODS):
        return f"it is compressed with {method}, for which Hive has no codec"
    for method in sorted(methods & _NEW_METHODS) if generation is MetastoreGeneration.V3 else ():
        return f"it is stored with {method}, which Hive 3.1 does not know"
    return None


def _why_not_parquet(
    facts: footer.ParquetFacts, columns: Sequence[Column], path: str
) -> str | None:
    table_columns = {column.name for column in columns}
    for name in facts.schema.names:
        if name.lower() not in table_columns:
            names = ", ".join(sorted(table_columns))
            return f"its column {name} is not in the table, which has {names}"
    positions = FieldPositions(facts.schema, path)
    for column in columns:
        position = positions.of(column.name)
        why = None
        if position is not None:
            why = _why_not_field(facts, facts.schema.field(position), column)
        if why is not None:
            return f"column {column.name} {why}"
    return None


def _why_not_field(facts: footer.ParquetFacts, field: pa.Field, column: Column) -> str | None:
    hive_type = parse_type(column.type)
    if (why := why_not(facts, field.type, hive_type)) is not None:
        return why
    if field.name.partition(".")[0] in facts.without_nan:
        return "has minimum and maximum values that leave NaN out, so Hive would lose rows with NaN"
    if holds(hive_type, _TIMESTAMP) and facts.clock is not footer.TimestampStorage.INSTANT:
        return "has times in 64 bits, which Hive 3.1 does not read"
    is_dated = holds(hive_type, _TIMESTAMP) or holds(hive_type, _DATE)
    if is_dated and facts.has_old_days and facts.calendar is footer.ParquetCalendar.UNKNOWN:
        return "may have dates before 1582-10-15, and its file does not state their calendar"
    return None


_BLOCK_BYTES: Final = 8 << 20


def copy_file(source: LoadableFile, uri: str, format_: FileFormat) -> None:
    """Copy a file, unless it has changed, to a new path; create its directory."""
    fs, target = locations.open_location(uri)
    if not locations.traits_of(fs).renames:
        # A staged file cannot be read here, so check a local copy before the upload.
        with tempfile.TemporaryDirectory(prefix="hiveacid_load_") as folder:
            copy = replace(source, uri=f"file:{folder}/copy")
            copy_file(source, copy.uri, format_)
            try:
                _copy(copy, fs, target)
            except BaseException:
                filesystem.delete_file(fs, target)
                raise
        return
    filesystem.make_directory(fs, posixpath.dirname(target))
    try:
        _copy(source, fs, target)
        _require_same(source, fs, target, format_)
    except BaseException:
        filesystem.delete_file(fs, target)
        raise


def _copy(source: LoadableFile, fs: pafs.FileSystem, target: str) -> None:
    from_fs, path = locations.open_location(source.uri)
    with (
        filesystem.file_errors("read", path),
        from_fs.open_input_stream(path, compression=None) as stream,
        fs.open_output_stream(target, compression=None) as copy,
    ):
        while block := stream.read(_BLOCK_BYTES):
            copy.write(block)


def _require_same(
    source: LoadableFile, fs: pafs.FileSystem, target: str, format_: FileFormat
) -> None:
    with filesystem.file_errors("read", target):
        length = fs.get_file_info(target).size
    # Text files do not store the number of rows.
    counts = format_ is not FileFormat.TEXT
    if length != source.length or (counts and rows_of(format_)(fs, target, length) != source.rows):
        raise errors.SourceUnreadableError(
            source=source.uri, reason="it was changed while it was copied; try again"
        )

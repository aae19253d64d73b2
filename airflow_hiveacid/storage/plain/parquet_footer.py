"""The facts in a Parquet file's footer that a reader of a Hive table needs.

Hive stores a timestamp as the instant at which clocks in the writer's time zone showed it, and that
zone in the footer. Hive 4 also stores whether dates use the proleptic Gregorian calendar.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.acid.write.flat_copy import UTC_ZONES
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.parquet_batches import open_parquet
from airflow_hiveacid.storage.plain.parquet_chunks import require_readable_chunks
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values.timestamps import SWITCHOVER_DAY

WRITER_ZONE: Final = "writer.time.zone"
"""Hive's metadata key for the time zone in which Hive converted wall-clock times to instants."""

PROLEPTIC_DAYS: Final = "writer.date.proleptic"
"""Hive 4's metadata key that states whether old dates use the proleptic Gregorian calendar."""

OLD_RULES: Final = "writer.zone.conversion.legacy"
"""Hive 4's metadata key that states whether Hive converted times like Java's old classes."""

_DECIMAL: Final = "DECIMAL"
_DECIMAL_BYTES: Final = 16
_INT96: Final = "INT96"
_FLOATING: Final = frozenset({"FLOAT", "DOUBLE"})
_TIMESTAMP: Final = "TIMESTAMP"
_DATE: Final = "DATE"
_JAVA: Final = "parquet-mr"
# Arrow has one class of error for damage and for what it does not implement.
_LACKING: Final = re.compile(r"not (yet )?(supported|implemented)|unsupported", re.IGNORECASE)


class TimestampStorage(enum.Enum):
    """How a file stores timestamps.

    NONE: the file has no timestamps. INSTANT: timestamps are instants in 96 bits. WALL: timestamps
        are wall-clock times in 64 bits. UTC: timestamps are instants in 64 bits
        (isAdjustedToUTC). MIXED: timestamps are stored in several ways.
    """

    NONE = enum.auto()
    INSTANT = enum.auto()
    WALL = enum.auto()
    UTC = enum.auto()
    MIXED = enum.auto()


class ParquetCalendar(enum.Enum):
    """The calendar of old dates; PROLEPTIC_DAYS says nothing about instants."""

    HYBRID = enum.auto()
    PROLEPTIC = enum.auto()
    PROLEPTIC_DAYS = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFacts:
    """The facts in the footer of a file.

    `least_day` is the earliest date, or None if it is unknown. `without_nan` are columns whose
    bounds may ignore NaN. `wide_decimals` describes decimals with more bytes than Arrow reads.
    """

    schema: pa.Schema
    rows: int
    clock: TimestampStorage
    created_by: str
    notes: Mapping[str, str]
    least_day: int | None
    without_nan: frozenset[str] = frozenset()
    wide_decimals: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone(self) -> str | None:
        """The time zone in which the writer converted wall-clock times to instants, or None.

        As in Hive, UTC for files that Java's Parquet did not write. Old Hive versions
        (`has_old_rules`) convert differently if the zone's offset has ever changed, so only their
        UTC is accepted.
        """
        said = self.notes.get(WRITER_ZONE)
        if self.has_old_rules and said not in UTC_ZONES:
            return None
        return said if said or self.created_by.startswith(_JAVA) else "UTC"

    @property
    def has_old_rules(self) -> bool:
        """True if the writer converted wall-clock times to instants like Hive 2."""
        return self.notes.get(OLD_RULES, "").lower() == "true"

    @property
    def is_in_utc(self) -> bool:
        """True if instants equal wall-clock times."""
        return self.zone in UTC_ZONES

    @property
    def calendar(self) -> ParquetCalendar:
        """The calendar of dates and instants before 1582-10-15.

        Hive 4 stores it; the default is the hybrid calendar. If dates use the proleptic calendar,
        that of instants counts as unknown, because this case was not tested; with old rules, both
        do. Hive 3.1 uses the proleptic calendar, but does not say so. For other writers that say
        nothing, Hive 3.1 and Hive 4 assume different calendars.
        """
        said = self.notes.get(PROLEPTIC_DAYS)
        if self.has_old_rules:
            return ParquetCalendar.UNKNOWN
        if said is not None:
            is_hybrid = said.lower() == "false"
            return ParquetCalendar.HYBRID if is_hybrid else ParquetCalendar.PROLEPTIC_DAYS
        return ParquetCalendar.PROLEPTIC if WRITER_ZONE in self.notes else ParquetCalendar.UNKNOWN

    @property
    def has_old_days(self) -> bool:
        """True if the file may contain dates before 1582-10-15."""
        return self.least_day is None or self.least_day < SWITCHOVER_DAY


@contextmanager
def parquet_errors(path: str) -> Iterator[None]:
    """Convert Arrow's exceptions for a damaged file to our errors.

    Raises UnsupportedFileError if the name of a column or field is not UTF-8, or Arrow lacks what
    it takes to decode the file, such as LZO.
    """
    with file_errors("read", path):
        try:
            yield
        except UnicodeDecodeError as error:
            name = error.object.decode(errors="replace")
            raise UnsupportedFileError(
                path=path,
                reason=f"it has a column or field {name!r}, whose name is not UTF-8; this reader"
                " cannot represent such a name",
            ) from error
        except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # an error of the file system; Arrow's own errors have no number
            if _LACKING.search(str(error)):
                raise UnsupportedFileError(
                    path=path, reason=f"this reader cannot decode it (Parquet: {error})"
                ) from error
            raise CorruptFileError(path=path, reason=f"Parquet: {error}") from error


def read_facts(file: PlainFile) -> ParquetFacts:
    """Read the facts in the footer of a file."""
    with parquet_errors(file.path), file.fs.open_input_file(file.path) as source:
        return facts_of(open_parquet(source), file.path, source)


def methods_in(file: PlainFile) -> frozenset[str]:
    """Return the compressions and encodings of all column chunks, as row groups may differ."""
    with parquet_errors(file.path), file.fs.open_input_file(file.path) as source:
        metadata = open_parquet(source).metadata
        require_readable_chunks(source, metadata, file.path)
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    return frozenset().union(*({chunk.compression, *chunk.encodings} for chunk in chunks))


def parquet_rows_in(fs: pafs.FileSystem, path: str, _length: int) -> int:
    """Return the number of rows of a Parquet file according to the footer."""
    with parquet_errors(path), fs.open_input_file(path) as source:
        return int(open_parquet(source).metadata.num_rows)


def facts_of(
    opened: pq.ParquetFile, path: str, unchecked: pa.NativeFile | None = None
) -> ParquetFacts:
    """Read the footer of an open file; `unchecked` is its source if its chunks were not checked.

    Raises CorruptFileError if the number of rows differs from the sum of the row groups.
    """
    metadata = opened.metadata
    rows = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise CorruptFileError(
            path=path,
            reason=f"Parquet: its footer states {metadata.num_rows} rows, but it has {rows}",
        )
    notes = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata.metadata or {}).items()
    }
    numbers, days = _numbers(metadata), _days(metadata.schema)
    if unchecked is not None and (numbers or days):
        require_readable_chunks(unchecked, metadata, path)
    return ParquetFacts(
        schema=opened.schema_arrow,
        rows=metadata.num_rows,
        clock=_clock(opened.schema),
        created_by=_created_by(metadata),
        notes=notes,
        least_day=_least_day(metadata, days),
        without_nan=_without_nan(metadata, numbers),
        wide_decimals=_wide_decimals(opened.schema),
    )


def _wide_decimals(schema: pq.ParquetSchema) -> dict[str, str]:
    columns = (schema.column(index) for index in range(len(schema)))
    return {
        column.path.partition(".")[0]: f"a decimal({column.precision},{column.scale}) in"
        f" {column.length} bytes"
        for column in columns
        if column.logical_type.type == _DECIMAL and column.length > _DECIMAL_BYTES
    }


def _clock(schema: pq.ParquetSchema) -> TimestampStorage:
    storages = set()
    for index in range(len(schema)):
        column = schema.column(index)
        if column.physical_type == _INT96:
            storages.add(TimestampStorage.INSTANT)
        elif column.logical_type.type == _TIMESTAMP:
            is_instant = json.loads(column.logical_type.to_json())["isAdjustedToUTC"]
            storages.add(TimestampStorage.UTC if is_instant else TimestampStorage.WALL)
    if not storages:
        return TimestampStorage.NONE
    return storages.pop() if len(storages) == 1 else TimestampStorage.MIXED


def _created_by(metadata: pq.FileMetaData) -> str:
    """Return the name of the writer; like Hive, accept bytes that are not UTF-8."""
    try:
        return metadata.created_by or ""
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


def _numbers(metadata: pq.FileMetaData) -> list[int]:
    if _created_by(metadata).startswith(_JAVA):
        return []
    schema = metadata.schema
    return [i for i in range(len(schema)) if schema.column(i).physical_type in _FLOATING]


def _days(schema: pq.ParquetSchema) -> list[int]:
    return [i for i in range(len(schema)) if schema.column(i).logical_type.type == _DATE]


def _without_nan(metadata: pq.FileMetaData, numbers: Sequence[int]) -> frozenset[str]:
    # Java's writer treats NaN as the greatest number, and writes no bounds for a column chunk that
    # contains NaN. Other writers ignore NaN.
    groups = range(metadata.num_row_groups)
    return frozenset(
        metadata.schema.column(index).path.partition(".")[0]
        for index in numbers
        if any(metadata.row_group(group).column(index).is_stats_set for group in groups)
    )


def _least_day(metadata: pq.FileMetaData, days: Sequence[int]) -> int | None:
    """Return the earliest date in the file, but at most 0 (1970-01-01); None if it is unknown."""
    earliest = 0
    for group in range(metadata.num_row_groups if days else 0):
        for index in days:
            chunk = metadata.row_group(group).column(index)
            statistics = chunk.statistics
            if (
                statistics is not None
                and statistics.has_null_count
                and statistics.null_count == chunk.num_values
            ):
                continue
            if statistics is None or not statistics.has_min_max:
                return None
            earliest = min(earliest, int(statistics.min_raw))
    return earliest

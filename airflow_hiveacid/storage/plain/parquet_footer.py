"""What the footer of a Parquet file says, as far as a reader of a Hive table depends on it.

Takes a file; gives its types as Arrow has them, and what its writer says of clocks and calendars:
Hive stores a timestamp as the instant that its wall clock stood for in its own time zone, names
that zone, and Hive 4 also says whether days are counted in one calendar throughout.
"""

from __future__ import annotations

import enum
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.acid.write.flat_layout import UTC_ZONES
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.values.calendars import SWITCHOVER_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyarrow import fs as pafs

    from airflow_hiveacid.storage.plain.files import PlainFile

WRITER_ZONE: Final = "writer.time.zone"
"""Metadata key of Hive's for the zone in which it took wall-clock times for instants."""

PROLEPTIC_DAYS: Final = "writer.date.proleptic"
"""Metadata key of Hive 4's that says whether old days are counted in today's calendar."""

OLD_RULES: Final = "writer.zone.conversion.legacy"
"""Metadata key of Hive 4's that says whether it did so by the rules of Java's old classes."""

_INT96: Final = "INT96"
_FLOATING: Final = frozenset({"FLOAT", "DOUBLE"})
_TIMESTAMP: Final = "TIMESTAMP"
_DATE: Final = "DATE"
_JAVA: Final = "parquet-mr"


class Clock(enum.Enum):
    """How the timestamps of a file are stored.

    INSTANT: as instants, 96 bits wide. WALL: as wall-clock times, in 64 bits. MIXED: otherwise.
    """

    NONE = enum.auto()
    INSTANT = enum.auto()
    WALL = enum.auto()
    MIXED = enum.auto()


class Calendar(enum.Enum):
    """In which calendar old days are counted: HYBRID is that of their time, PROLEPTIC today's.

    PROLEPTIC_DAYS is today's in dates, while instants are not known.
    """

    HYBRID = enum.auto()
    PROLEPTIC = enum.auto()
    PROLEPTIC_DAYS = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFacts:
    """What a footer says.

    `least_day` is the least date in the file, None if it is not known. `without_nan` are columns
    whose least and greatest numbers may leave NaN out.
    """

    schema: pa.Schema
    rows: int
    clock: Clock
    created_by: str
    notes: Mapping[str, str]
    least_day: int | None
    without_nan: frozenset[str] = frozenset()

    @property
    def zone(self) -> str | None:
        """The zone in which its writer took wall-clock times for instants; None if nobody knows.

        What is not written by Java's Parquet, Hive takes for written in UTC. Old rules differ from
        today's by the history of a zone; UTC has none.
        """
        said = self.notes.get(WRITER_ZONE)
        if self.has_old_rules and said not in UTC_ZONES:
            return None
        return said if said or self.created_by.startswith(_JAVA) else "UTC"

    @property
    def has_old_rules(self) -> bool:
        """Whether wall-clock times became instants as in Hive 2."""
        return self.notes.get(OLD_RULES, "").lower() == "true"

    @property
    def is_in_utc(self) -> bool:
        """Whether instants are wall-clock times as they are."""
        return self.zone in UTC_ZONES

    @property
    def knows_zone(self) -> bool:
        """Whether instants can be read at all."""
        return self.zone is not None

    @property
    def calendar(self) -> Calendar:
        """How days before 1582-10-15 are counted, in dates and in instants.

        Hive 4 says so of dates, and uses the calendar of their time unless it says otherwise; what
        it makes of instants then, nobody has seen. Hive 3.1 uses today's and says nothing, and of
        whoever else says nothing Hive 3.1 and 4 think differently.
        """
        said = self.notes.get(PROLEPTIC_DAYS)
        if self.has_old_rules:
            return Calendar.UNKNOWN
        if said is not None:
            return Calendar.HYBRID if said.lower() == "false" else Calendar.PROLEPTIC_DAYS
        return Calendar.PROLEPTIC if WRITER_ZONE in self.notes else Calendar.UNKNOWN

    @property
    def has_old_days(self) -> bool:
        """Whether there may be dates before 1582-10-15."""
        return self.least_day is None or self.least_day < SWITCHOVER_DAY


@contextmanager
def parquet_errors(path: str) -> Iterator[None]:
    """Make what Arrow says of a file that is none an error of ours.

    Raises:
        CorruptFileError: the file is damaged, or no Parquet file.
        StorageError, LocationPermissionError: it cannot be read.
    """
    with file_errors("read", path):
        try:
            yield
        except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if isinstance(error, OSError) and error.errno:
                raise  # the file system's; what Arrow finds in a file has no number
            raise CorruptFileError(path=path, reason=f"Parquet: {error}") from error


def read_facts(file: PlainFile) -> ParquetFacts:
    """Read the footer of a file.

    Raises:
        CorruptFileError: it is damaged, or no Parquet file.
        StorageError, LocationPermissionError: it cannot be read.
    """
    with parquet_errors(file.path), file.fs.open_input_file(file.path) as source:
        return facts_of(pq.ParquetFile(source), file.path)


def parquet_rows_in(fs: pafs.FileSystem, path: str, _length: int) -> int:
    """How many rows are in a file.

    Raises:
        CorruptFileError: it is damaged, or no Parquet file.
        StorageError, LocationPermissionError: it cannot be read.
    """
    with parquet_errors(path), fs.open_input_file(path) as source:
        return int(pq.read_metadata(source).num_rows)


def facts_of(opened: pq.ParquetFile, path: str) -> ParquetFacts:
    """The same of a file that is open; a file is not taken for an empty one for its word.

    Raises:
        CorruptFileError: its row groups have other rows than it says.
    """
    metadata = opened.metadata
    rows = sum(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise CorruptFileError(
            path=path, reason=f"Parquet: it says {metadata.num_rows} rows and has {rows}"
        )
    notes = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata.metadata or {}).items()
    }
    return ParquetFacts(
        schema=opened.schema_arrow,
        rows=metadata.num_rows,
        clock=_clock(opened.schema),
        created_by=metadata.created_by or "",
        notes=notes,
        least_day=_least_day(metadata),
        without_nan=_without_nan(metadata),
    )


def _clock(schema: pq.ParquetSchema) -> Clock:
    found = set()
    for at in range(len(schema)):
        column = schema.column(at)
        if column.physical_type == _INT96:
            found.add(Clock.INSTANT)
        elif column.logical_type.type == _TIMESTAMP:
            is_instant = json.loads(column.logical_type.to_json())["isAdjustedToUTC"]
            found.add(Clock.MIXED if is_instant else Clock.WALL)
    if not found:
        return Clock.NONE
    return found.pop() if len(found) == 1 else Clock.MIXED


def _without_nan(metadata: pq.FileMetaData) -> frozenset[str]:
    """The columns, by their first names, with bounds of floating-point numbers not by Java.

    To Java NaN is the greatest number, and bounds with it in them are not written; other writers
    pass it over.
    """
    if (metadata.created_by or "").startswith(_JAVA):
        return frozenset()
    schema = metadata.schema
    groups = range(metadata.num_row_groups)
    numbers = [at for at in range(len(schema)) if schema.column(at).physical_type in _FLOATING]
    return frozenset(
        schema.column(at).path.partition(".")[0]
        for at in numbers
        if any(metadata.row_group(group).column(at).is_stats_set for group in groups)
    )


def _least_day(metadata: pq.FileMetaData) -> int | None:
    """The least date of all columns; 0 without any."""
    least = 0
    schema = metadata.schema
    days = [at for at in range(len(schema)) if schema.column(at).logical_type.type == _DATE]
    for group in range(metadata.num_row_groups if days else 0):
        for at in days:
            chunk = metadata.row_group(group).column(at)
            found = chunk.statistics
            if found is not None and found.has_null_count and found.null_count == chunk.num_values:
                continue
            if found is None or not found.has_min_max:
                return None
            least = min(least, int(found.min_raw))
    return least

"""A table's name, columns, partitions and kind, as plain values for executors, too; their checks.

Example:
    >>> TableRef.parse("demo.Flights")
    TableRef(db='demo', name='flights')
    >>> check_format("db.t", Storage(format=FileFormat.ORC), {})
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from airflow_hiveacid.format.errors import InvalidNameError, UnsupportedTableError

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""NULL in a partition's directory name (hive.exec.default.partition.name)."""

READS_ORIGINALS: Final = "hiveacid.reads.originals"
"""With this parameter, files of an insert-only table outside of bases and deltas have rows."""

COPY_OF: Final = "hiveacid.copy.of"
"""Table parameter of a flat copy: the name and ID of the original table."""

KELVIN_SIGN: Final = "\u212a"
"""The only character beyond ASCII that `str.lower` makes an ASCII letter: a different name."""

_KEPT: Final = "__acid"
_IDENTIFIER: Final = re.compile(r"[a-z0-9_]+\Z")
_TABLE_NAME: Final = "table name (expected db.table, of letters, digits and _)"
# FileUtils.charToEscape of Hive: all characters that must be escaped in a path or partition name.
_ESCAPES: Final[Mapping[int, str]] = {
    ord(c): f"%{ord(c):02X}"
    for c in "\"#%'*/:=?\\\x7f{[]^" + "".join(chr(c) for c in range(1, 0x20))
}


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    """A table's full name in lower case, as the metastore stores it."""

    db: str
    name: str

    def __post_init__(self) -> None:
        for part in (self.db, self.name):
            if not _IDENTIFIER.match(part):
                raise InvalidNameError(name=f"{self.db}.{self.name}", what=_TABLE_NAME)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `db.table`, in any case. Raises InvalidNameError unless both are identifiers."""
        db, dot, name = text.strip().lower().partition(".")
        if not dot or not text.isascii():  # the Kelvin sign is a `k` in lower case
            raise InvalidNameError(name=text, what=_TABLE_NAME)
        return cls(db, name)

    def __str__(self) -> str:
        return f"{self.db}.{self.name}"


def lower_name(text: str) -> str:
    """Return a name in lower case, with its Kelvin signs, which no name of a table has."""
    return KELVIN_SIGN.join(map(str.lower, text.split(KELVIN_SIGN)))


def kept_table(ref: TableRef) -> TableRef:
    """Return the name that a full-ACID table gets while its flat copy has the table's own name."""
    return TableRef(ref.db, f"{ref.name}{_KEPT}")


def is_kept_name(ref: TableRef) -> bool:
    """Return True if `kept_table` returns such names."""
    return ref.name.endswith(_KEPT)


class TransactionalKind(enum.Enum):
    """The transactional kind of a table, from `transactional` and `transactional_properties`."""

    NONE = "none"
    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"


class FileFormat(enum.Enum):
    """The format of a table's files; OTHER stands for every other format."""

    ORC = "ORC"
    PARQUET = "Parquet"
    TEXT = "text"
    AVRO = "Avro"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage format of files: Hive's class names, and the SerDe's parameters."""

    format: FileFormat
    input_format: str = ""
    serde: str = ""
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str | None:
        """Return the value of a SerDe parameter; None if the parameter is not set."""
        return dict(self.parameters).get(name)

    def __str__(self) -> str:
        if self.format is not FileFormat.OTHER:
            return str(self.format.value)
        return f"{self.input_format} with {self.serde}"


AS_ORC: Final = Storage(format=FileFormat.ORC)
"""ORC with default parameters; this provider ignores other parameters of ORC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its lower-case name and its Hive type, such as `decimal(10,2)`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """A table's row constraints that Hive enforces, as expressions in Hive's SQL.

    `defaults` maps columns to expressions, `not_null` maps columns to constraint names, and
    `checks` maps constraint names to conditions.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    not_null: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)


# The maximum length of PARTITION_KEY_VALS.PART_KEY_VAL in the metastore's schema.
_MOST_VALUE_CHARACTERS: Final = 256


def escape_partition_value(value: str) -> str:
    """Escape a partition value for a directory name, as Hive's FileUtils.escapePathName does.

    Example:
        >>> escape_partition_value("a/b=c")
        'a%2Fb%3Dc'
    """
    return value.translate(_ESCAPES)


def unescape_partition_value(text: str) -> str:
    """Reverse `escape_partition_value`; a `%` without two hex digits is kept."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), text)


@dataclass(frozen=True, slots=True, order=True)
class PartitionName:
    """The values of all partition columns, in order; `None` is NULL; empty if unpartitioned."""

    columns: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.values):
            raise InvalidNameError(name=str(self.values), what=f"partition of {self.columns}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a name such as `month=1/day=2`, or ""; raise InvalidNameError without `=`."""
        columns: list[str] = []
        values: list[str | None] = []
        for component in text.split("/") if text else ():
            column, equals, value = component.partition("=")
            if not equals:
                raise InvalidNameError(name=text, what="partition name (expected column=value/...)")
            columns.append(lower_name(column))
            plain = unescape_partition_value(value)
            values.append(None if plain == NULL_PARTITION else plain)
        return cls(tuple(columns), tuple(values))

    def __str__(self) -> str:
        return "/".join(
            f"{c}={NULL_PARTITION if v is None else escape_partition_value(v)}"
            for c, v in zip(self.columns, self.values, strict=True)
        )

    @property
    def directory_values(self) -> list[str]:
        """The values as the metastore stores them; NULL becomes `__HIVE_DEFAULT_PARTITION__`."""
        return [NULL_PARTITION if v is None else v for v in self.values]


UNPARTITIONED: Final = PartitionName()


def _directory_bytes(column: str, value: str) -> int:
    return len(f"{column}={escape_partition_value(value)}".encode(errors="surrogatepass"))


def check_storable(name: PartitionName, *, most_bytes: int | None = None) -> None:
    """Raise InvalidNameError if a value has NUL, or more than 256 characters or `most_bytes`."""
    for column, value in zip(name.columns, name.values, strict=True):
        if value is None:
            continue
        why = ""
        if "\0" in value:
            why = "a directory's name cannot contain NUL"
        elif len(value) > _MOST_VALUE_CHARACTERS:
            why = f"it has {len(value)} characters, the metastore allows {_MOST_VALUE_CHARACTERS}"
        elif most_bytes and (size := _directory_bytes(column, value)) > most_bytes:
            why = f"its directory's name has {size} bytes, the file system allows {most_bytes}"
        if why:
            raise InvalidNameError(
                name=value,
                what=f"value of partition column {column}: {why}. Nothing was written; shorten the"
                " value, or store it in a column that is not a partition column",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """The description of one table, as needed to read and write the table.

    `location` is a URI. `num_buckets` is 0 for an unbucketed table. `bucketing_version` is 1 or 2.
    `table_id` tells the table from an earlier one of the same name. `constraints` is set only for
    jobs that write rows. `write_needs` names what the metastore requires of writers that are not
    this client; empty if this client may write.
    """

    ref: TableRef
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    storage: Storage = AS_ORC
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = 0
    bucketing_version: int = 2
    sort_columns: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    table_id: str = ""
    constraints: Constraints = Constraints()
    write_needs: str = ""

    @property
    def reads_originals(self) -> bool:
        """True if `READS_ORIGINALS` is set."""
        return self.parameters.get(READS_ORIGINALS, "").lower() == "true"

    @property
    def born_s(self) -> float | None:
        """The table's creation time in seconds since 1970; None if `table_id` lacks it."""
        seconds = self.table_id.partition(".")[0]
        return float(seconds) if seconds.isdigit() else None

    @property
    def is_partitioned(self) -> bool:
        """True if the table has partition columns."""
        return bool(self.partition_columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the data columns, then of the partition columns."""
        return tuple(c.name for c in (*self.columns, *self.partition_columns))

    def partition_name(self, values: Sequence[str | None]) -> PartitionName:
        """Return the table's partition with these values, in the order of the partition columns."""
        return PartitionName(tuple(c.name for c in self.partition_columns), tuple(values))

    def default_partition_location(self, name: PartitionName) -> str:
        """Return the location of a new partition: its escaped name below the table's location."""
        return f"{self.location.rstrip('/')}/{name}" if name.columns else self.location


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """A partition and its location; an unpartitioned table counts as one partition.

    `storage` and `columns` are None if they are the table's. A partition of an insert-only table
    may have another format, and keeps its columns at an ALTER TABLE without CASCADE.
    """

    name: PartitionName
    location: str
    storage: Storage | None = None
    columns: tuple[Column, ...] | None = None


_READ: Final = frozenset({FileFormat.ORC, FileFormat.PARQUET, FileFormat.AVRO, FileFormat.TEXT})
# If this table parameter is true, Hive matches Parquet columns by position.
_BY_POSITION: Final = "parquet.column.index.access"


def check_format(table: object, storage: Storage, parameters: Mapping[str, str]) -> None:
    """Raise UnsupportedTableError for an unsupported format, or columns matched by position."""
    by_position = {**dict(storage.parameters), **parameters}.get(_BY_POSITION, "")
    if storage.format is FileFormat.PARQUET and by_position.lower() == "true":
        raise UnsupportedTableError(
            table=table,
            detail=f"has {_BY_POSITION}=true, but columns of Parquet are matched by name",
        )
    if storage.format not in _READ:
        raise UnsupportedTableError(
            table=table,
            detail=f"is stored as {storage}; without full ACID only ORC, Parquet, Avro and text"
            " are supported. Copy it with Hive into a table of such a format",
        )


def own_columns(
    table: object,
    columns: Sequence[Column],
    partition: PartitionName,
    own: tuple[Column, ...] | None,
    format_: FileFormat,
) -> tuple[Column, ...] | None:
    """Return the columns that Hive uses for a partition's files; None means the table's columns.

    Hive reads ORC files with the table's columns. In other formats, Hive returns NULL for each
    column that the partition's definition (`own`) lacks, even if the files contain it. Raises
    UnsupportedTableError if a column of `own` has another name than the table's at its position.
    """
    if own is None or format_ is FileFormat.ORC:
        return None
    if any(a.name != b.name for a, b in zip(own, columns, strict=False)):
        raise UnsupportedTableError(
            table=table,
            detail=f"has other column names in partition {partition}; give the partition the"
            " table's columns with ALTER TABLE ... PARTITION (...) REPLACE COLUMNS",
        )
    return own


def check_alike(table: TableInfo, partitions: Iterable[PartitionInfo]) -> None:
    """Raise UnsupportedTableError unless all partitions have the table's file format."""
    for partition in partitions:
        if partition.storage is not None and partition.storage.format is not table.storage.format:
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"is stored as {table.storage}, but its partition {partition.name} is"
                f" stored as {partition.storage}; only Hive can write such a table",
            )

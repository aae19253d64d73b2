"""What a table is: its name, columns, partitions and transactional kind, as plain values.

Takes what the metastore said, already parsed; gives frozen values that travel to executors. Must
not know Thrift, files or Spark.

Example:
    >>> TableRef.parse("demo.Flights")
    TableRef(db='demo', name='flights')
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.errors import InvalidNameError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""Directory value of a NULL partition column (hive.exec.default.partition.name)."""

READS_ORIGINALS: Final = "hiveacid.reads.originals"
"""Parameter by which the owner of an insert-only table says that files outside of base and delta
are rows of it."""

_IDENTIFIER: Final = re.compile(r"[a-z0-9_]+\Z")
_TABLE_NAME: Final = "table name (expected db.table, of letters, digits and _)"
# FileUtils.charToEscape of Hive: everything that a path or a partition name cannot carry.
_ESCAPES: Final[Mapping[int, str]] = {
    ord(c): f"%{ord(c):02X}"
    for c in "\"#%'*/:=?\\\x7f{[]^" + "".join(chr(c) for c in range(1, 0x20))
}


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    """A table's full name, lower case, as the metastore stores it."""

    db: str
    name: str

    def __post_init__(self) -> None:
        for part in (self.db, self.name):
            if not _IDENTIFIER.match(part):
                raise InvalidNameError(name=f"{self.db}.{self.name}", what=_TABLE_NAME)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `db.table`, in any case.

        Raises:
            InvalidNameError: there is not exactly one dot, or a part is no Hive identifier.
        """
        db, dot, name = text.strip().lower().partition(".")
        if not dot:
            raise InvalidNameError(name=text, what=_TABLE_NAME)
        return cls(db, name)

    def __str__(self) -> str:
        return f"{self.db}.{self.name}"


class TransactionalKind(enum.Enum):
    """What `transactional` and `transactional_properties` say of a table."""

    NONE = "none"
    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"


class FileFormat(enum.Enum):
    """What the files of a table are, as far as we tell them apart; OTHER has the rest."""

    ORC = "ORC"
    PARQUET = "Parquet"
    TEXT = "text"
    AVRO = "Avro"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How the files of a table or partition are stored.

    `input_format` and `serde` are Hive's class names; `parameters` are the SerDe's, by name.
    """

    format: FileFormat
    input_format: str = ""
    serde: str = ""
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str | None:
        """What the SerDe is told; None if it is not."""
        return dict(self.parameters).get(name)

    def __str__(self) -> str:
        if self.format is not FileFormat.OTHER:
            return str(self.format.value)
        return f"{self.input_format} with {self.serde}"


AS_ORC: Final = Storage(format=FileFormat.ORC)
"""ORC, as far as anything depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its lower-case name and its Hive type text, such as `decimal(10,2)`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a table demands of its rows, as far as Hive enforces it; expressions are Hive's.

    `defaults` are by column, `not_null` are the constraints' names by column, `checks` conditions
    by the constraints' names.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    not_null: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)


def escape_partition_value(value: str) -> str:
    """Escape one partition value for a directory name, as Hive's FileUtils.escapePathName does.

    Example:
        >>> escape_partition_value("a/b=c")
        'a%2Fb%3Dc'
    """
    return value.translate(_ESCAPES)


def unescape_partition_value(text: str) -> str:
    """Invert `escape_partition_value`; a `%` without two hex digits stands for itself."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), text)


@dataclass(frozen=True, slots=True, order=True)
class PartitionName:
    """The values of all partition columns, in the table's order; `None` is NULL.

    The empty tuple stands for the only "partition" of an unpartitioned table.
    """

    columns: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.values):
            raise InvalidNameError(name=str(self.values), what=f"partition of {self.columns}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `month=1/day=2`, escaped as in a path; the empty text is the whole table.

        Raises:
            InvalidNameError: a component has no `=`.
        """
        columns: list[str] = []
        values: list[str | None] = []
        for component in text.split("/") if text else ():
            column, equals, value = component.partition("=")
            if not equals:
                raise InvalidNameError(name=text, what="partition name (expected column=value/...)")
            columns.append(column.lower())
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
        """The values as the metastore stores them: NULL under its directory name."""
        return [NULL_PARTITION if v is None else v for v in self.values]


UNPARTITIONED: Final = PartitionName()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """Everything about one table that reading and writing it needs.

    `location` is a URI. `num_buckets` is 0 for an unbucketed table. `bucketing_version` is 1 or 2.
    `table_id` tells it from a table that had its name before. `constraints` are asked for by who
    writes rows.
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

    @property
    def reads_originals(self) -> bool:
        """Whether `READS_ORIGINALS` is set."""
        return self.parameters.get(READS_ORIGINALS, "").lower() == "true"

    @property
    def born_s(self) -> float | None:
        """When the table was made, seconds since 1970; None if its ID does not tell."""
        seconds = self.table_id.partition(".")[0]
        return float(seconds) if seconds.isdigit() else None

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.partition_columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the data columns, then of the partition columns."""
        return tuple(c.name for c in (*self.columns, *self.partition_columns))

    def partition_name(self, values: Sequence[str | None]) -> PartitionName:
        """The partition of this table with these values, in the order of the partition columns."""
        return PartitionName(tuple(c.name for c in self.partition_columns), tuple(values))

    def default_partition_location(self, name: PartitionName) -> str:
        """Where a new partition goes: below the table, under its escaped name."""
        return f"{self.location.rstrip('/')}/{name}" if name.columns else self.location


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition and where its directories are. An unpartitioned table is one such value.

    `storage` None is the table's; a partition of an insert-only table may have another. `columns`
    are those that it had when the table got others without it (ALTER TABLE without CASCADE); None
    is the table's.
    """

    name: PartitionName
    location: str
    storage: Storage | None = None
    columns: tuple[Column, ...] | None = None

"""The kinds of tables, their rows, and the names of those who read and write them.

Rows have values that all engines spell alike: integers, and text for everything else. A row
depends only on its number.
Example:
    >>> COLUMNS[1], row(2)[2:6]
    (Column(name='name', type='string'), (2, '14.02', '1970-03-16', '2020-01-01 00:02:02'))
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.table import Column, FileFormat, TransactionalKind

Value = int | str | None
Row = tuple[Value, ...]

COLUMNS: Final = (
    Column(name="id", type="bigint"),
    Column(name="name", type="string"),
    Column(name="v", type="int"),
    Column(name="amount", type="decimal(12,2)"),
    Column(name="day", type="date"),
    Column(name="at", type="timestamp"),
    Column(name="code", type="char(4)"),
    Column(name="tag", type="varchar(8)"),
    Column(name="flag", type="boolean"),
    Column(name="part", type="double"),
)
_BY_NUMBER: Final = Column(name="p", type="int")
_BY_TEXT: Final = Column(name="q", type="string")
EXTRA: Final = Column(name="extra", type="string")
"""The column that is added later."""

_EPOCH: Final = dt.date(1970, 1, 1)
_START: Final = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - a wall clock
_PLACES: Final = ("a b", "x=1/2%", "Q1")
_ODD_KEYS: Final[Mapping[str, Sequence[Value]]] = {
    "d": ("2020-02-29", "1999-12-31", None),
    "c": ("a/b", "x y%", "n"),
    "m": ("1.50", "-0.25", None),
}
"""Values for every third row: spelled differently in a name, or without a name."""


class Flat(enum.Enum):
    """The files of a table before it became transactional."""

    COPIES = "000000_0, and a further one as Trino names them"
    BUCKETS = "several buckets, a copy of each"
    UNION = "directories of a UNION ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of table.

    Attributes:
        flat: Set if the table got its first rows before it became transactional.
        loaded: Numbers of rows that LOAD DATA adds, batch by batch, instead of an INSERT.
        elsewhere: A partition outside the table's directory.
    """

    name: str
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    format: FileFormat = FileFormat.ORC
    partition_columns: tuple[Column, ...] = ()
    bucketed_by: tuple[str, ...] = ()
    buckets: int = 0
    bucketing_version: int = 2
    flat: Flat | None = None
    loaded: tuple[range, ...] = ()
    elsewhere: str | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS

    @property
    def is_insert_only(self) -> bool:
        """True if rows have no row ID and never change."""
        return self.kind is TransactionalKind.INSERT_ONLY

    @property
    def flat_rows(self) -> dict[int, Row]:
        """The rows of a table before it becomes transactional, in two inserts."""
        return {n: self.row(n) for n in range(500, 530)} if self.flat else {}

    def row(self, number: int) -> Row:
        """Return the row of this number: data columns, then partition columns."""
        odd = {name: values[number % len(values)] for name, values in _ODD_KEYS.items()}
        values = {"p": number % 3, "q": _PLACES[number % len(_PLACES)], **odd}
        return (*row(number), *(values[column.name] for column in self.partition_columns))


_INSERT_ONLY: Final = TransactionalKind.INSERT_ONLY
KINDS: Final = (
    Kind(name="full ACID"),
    Kind(name="full ACID, partitions of two levels", partition_columns=(_BY_NUMBER, _BY_TEXT)),
    Kind(name="full ACID, one bucket", bucketed_by=("id",), buckets=1),
    Kind(name="full ACID, 4 buckets by two columns", bucketed_by=("name", "day"), buckets=4),
    Kind(
        name="full ACID, partitions, 2 buckets by the first hash",
        partition_columns=(_BY_NUMBER,),
        bucketed_by=("id",),
        buckets=2,
        bucketing_version=1,
    ),
    Kind(name="full ACID, converted from flat files", flat=Flat.COPIES),
    Kind(name="insert-only, ORC", kind=_INSERT_ONLY),
    Kind(name="insert-only, Parquet", kind=_INSERT_ONLY, format=FileFormat.PARQUET),
    Kind(name="insert-only, text", kind=_INSERT_ONLY, format=FileFormat.TEXT),
    Kind(
        name="insert-only, Parquet, partitions of two levels",
        kind=_INSERT_ONLY,
        format=FileFormat.PARQUET,
        partition_columns=(_BY_NUMBER, _BY_TEXT),
    ),
    Kind(
        name="full ACID, 32 buckets by the first hash",
        bucketed_by=("id",),
        buckets=32,
        bucketing_version=1,
    ),
    Kind(
        name="full ACID, partitions by date, char and decimal, some of null",
        partition_columns=(
            Column(name="d", type="date"),
            Column(name="c", type="char(4)"),
            Column(name="m", type="decimal(5,2)"),
        ),
    ),
    Kind(
        name="full ACID, a partition elsewhere",
        partition_columns=(_BY_NUMBER,),
        elsewhere="p=1",
    ),
    Kind(
        name="full ACID, converted from 3 buckets of several files",
        bucketed_by=("id",),
        buckets=3,
        flat=Flat.BUCKETS,
    ),
    Kind(name="full ACID, converted from directories of UNION ALL", flat=Flat.UNION),
    Kind(name="full ACID, with files of LOAD DATA", loaded=(range(40, 60), range(200, 210))),
    Kind(name="insert-only, Avro", kind=_INSERT_ONLY, format=FileFormat.AVRO),
)


def row(number: int) -> Row:
    """Return the data columns of the row of this number."""
    at = _START + dt.timedelta(seconds=61 * number, milliseconds=500 * (number % 2))
    return (
        number,
        None if number % 11 == 0 else f"n{number} é",
        number,
        f"{number * 7 % 1000}.{number % 100:02d}",
        str(_EPOCH + dt.timedelta(days=37 * number)),
        clock(at),
        None if number % 13 == 0 else f"c{number % 5}",
        f"tag {number % 7}",
        [None, "true", "false"][number % 3],
        f"{number / 4}",
    )


def clock(at: dt.datetime) -> str:
    """Return a time as Hive writes it: with a fraction of a second only if there is one."""
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{at.microsecond:06d}".rstrip("0") if at.microsecond else text


def canonical(column: Column, value: object) -> Value:
    """Return an engine's value in the form of rows here."""
    if value is None:
        return None
    say = _SAID.get(column.type.partition("(")[0], str)
    return say(value)


def _clock_of(value: object) -> str:
    return clock(value) if isinstance(value, dt.datetime) else str(value).removesuffix(".0")


_SAID: Final[Mapping[str, Callable[[object], Value]]] = {
    "bigint": lambda value: int(str(value)),
    "int": lambda value: int(str(value)),
    "decimal": lambda value: f"{float(str(value)):.2f}",
    "double": lambda value: f"{float(str(value))}",
    "char": lambda value: str(value).rstrip(),
    "boolean": lambda value: str(value).lower(),
    "timestamp": _clock_of,
}


# ---- the names of engines, readers and writers, here and on the pages ----------------------------

OURS: Final = "ours"
HIVE_4: Final = "Hive 4.0.1"
HIVE_3: Final = "Hive 3.1.3"
TRINO: Final = "Trino 483"
ALTERNATING: Final = "in turns"
WRITERS: Final = (OURS, HIVE_4, TRINO, HIVE_3, ALTERNATING)
"""In the order of the page."""

NATIVE: Final = "ours, Spark's reader"
ARROW: Final = "ours, Arrow"
HIVE_3_READER: Final = "Hive 3.1.3's reader"
READERS: Final = (NATIVE, ARROW, HIVE_4, HIVE_3_READER, TRINO)
"""In the order of the page."""

"""Knows the kinds of tables that there are, and the rows that go into them.

Rows are what all engines can say of them alike: integers, and text for everything else. A row
depends on nothing but its number.

Example:
    >>> COLUMNS[1], row(2)[2:6]
    (Column(name='name', type='string'), (2, '14.02', '1970-03-16', '2020-01-01 00:02:02'))
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.table import Column, FileFormat, TransactionalKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
"""What a table gets later on."""

_EPOCH: Final = dt.date(1970, 1, 1)
_START: Final = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - a wall clock
_PLACES: Final = ("a b", "x=1/2%", "Q1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of table."""

    name: str
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    format: FileFormat = FileFormat.ORC
    partition_columns: tuple[Column, ...] = ()
    bucketed_by: tuple[str, ...] = ()
    buckets: int = 0
    bucketing_version: int = 2
    was_flat: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The data columns."""
        return COLUMNS

    @property
    def is_insert_only(self) -> bool:
        """Rows have no identity, and none is changed."""
        return self.kind is TransactionalKind.INSERT_ONLY

    @property
    def flat_rows(self) -> dict[int, Row]:
        """What is in a table before it becomes a transactional one, in two inserts."""
        return {n: self.row(n) for n in range(500, 530)} if self.was_flat else {}

    def row(self, number: int) -> Row:
        """The row of this number: data columns, then partition columns."""
        values = {"p": number % 3, "q": _PLACES[number % len(_PLACES)]}
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
    Kind(name="full ACID, converted from flat files", was_flat=True),
    Kind(name="insert-only, ORC", kind=_INSERT_ONLY),
    Kind(name="insert-only, Parquet", kind=_INSERT_ONLY, format=FileFormat.PARQUET),
    Kind(name="insert-only, text", kind=_INSERT_ONLY, format=FileFormat.TEXT),
    Kind(
        name="insert-only, Parquet, partitions of two levels",
        kind=_INSERT_ONLY,
        format=FileFormat.PARQUET,
        partition_columns=(_BY_NUMBER, _BY_TEXT),
    ),
)


def row(number: int) -> Row:
    """The data columns of the row of this number."""
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
    """A time of day as Hive writes it: a fraction of a second only where there is one."""
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{at.microsecond:06d}".rstrip("0") if at.microsecond else text


def canonical(column: Column, value: object) -> Value:
    """What an engine said, as rows here have it."""
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

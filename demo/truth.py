"""Knows what the table must hold after the run of day N, from the source alone.

The second opinion: DuckDB and SQL over the source's CSV text. Of `changes.py`, which cuts the same
source with Arrow, it knows only where the source lies; of the package that is on trial, nothing.
Two tables are compared as bags of whole rows, so a wrong value, a lost row or a doubled row shows.

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
    from types import TracebackType

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
# Given the days whose runs are done: they have flown or are cancelled; one day more is scheduled.
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
# A table's name stands for one row of it: all columns, with their names.
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
    """Rows of one day: how many there must be, how many there are, how many are not alike."""

    day: date
    expected_rows: int
    actual_rows: int
    differing_rows: int

    @property
    def is_equal(self) -> bool:
        """Whether all rows of the day are alike."""
        return self.differing_rows == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that only one side has. `side` is `missing` or `unexpected`, seen from the table."""

    day: date
    side: str
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The comparison of a whole table with the truth; days in order."""

    days: tuple[DayVerdict, ...]
    differences: tuple[Difference, ...]
    expected_digest: str
    actual_digest: str

    @property
    def is_equal(self) -> bool:
        """Whether the table holds exactly the rows of the truth, each as often."""
        return not self.differences and self.expected_digest == self.actual_digest

    @property
    def rows(self) -> int:
        """Rows that the table holds."""
        return sum(day.actual_rows for day in self.days)


class Truth:
    """The source in an embedded database. Mutable: it holds a connection."""

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
        """Nothing more to open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the database."""
        self._connection.close()

    def expected(self, *, days: int) -> pa.Table:
        """Return the rows that the table must hold after the runs of the first `days` days."""
        self._expect(days)
        return self._connection.table("expected").to_arrow_table()

    def by_carrier(self, *, days: int) -> list[tuple[str, int, int, int]]:
        """Flights of each carrier after these runs: all, flown, late; in order."""
        self._expect(days)
        return self._connection.execute(_BY_CARRIER).fetchall()

    def compare(self, actual: pa.Table, *, days: int) -> Verdict:
        """Compare a table that has all columns of the source, in any order, with the truth.

        Raises:
            ValueError: a column is missing.
            duckdb.Error: a column is not of the source, or holds what its type cannot.
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

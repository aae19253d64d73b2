"""Simple statements run by three engines: Hive's, Spark's, and ours in one process.

Each engine has its own database with the same rows, which Hive writes. After each statement, Hive
reads the three tables. The statements are those that `plan.statements.simple` accepts: INSERT of
values, UPDATE and DELETE by a simple condition, and MERGE of values by keys, on tables with and
without partitions, and with buckets of both hashes. The rows contain NULL, NaN, -0.0, padded char
values, decimals of 38 digits and days before 1582, also in columns that no condition compares.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from airflow_hiveacid.arrow.job import run_in_process
from airflow_hiveacid.format.errors import HiveAcidError, SparkNeededError
from airflow_hiveacid.jobs.job import Job, JobSpec
from airflow_hiveacid.jobs.statements import (
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.writing.job import WritingJob
from tests.judges.line_process import JudgeError
from tests.proofs.differential.cases import Outcome
from tests.proofs.differential.engines import Engines
from tests.proofs.differential.statements import NULL_PARTITION, Written
from tests.proofs.differential.twins import Done, difference

COLUMNS: Final = {
    "a": "bigint",
    "b": "int",
    "c": "tinyint",
    "s": "string",
    "d": "decimal(8,2)",
    "w": "decimal(38,10)",
    "n": "decimal(38,0)",
    "f": "boolean",
    "dt": "date",
    "x": "double",
    "ch": "char(4)",
    "v": "varchar(5)",
    "ts": "timestamp",
}
COMPARED: Final = ("a", "b", "c", "s", "d", "w", "n", "f", "dt")
# Values as users write them; None is NULL.
VALUES: Final[Mapping[str, Sequence[str | None]]] = {
    "a": (None, "0", "1", "-1", "2", "9223372036854775807", "-9223372036854775808"),
    "b": (None, "0", "1", "2", "-2147483648", "2147483647"),
    "c": (None, "0", "1", "-128", "127"),
    "s": (None, "", "a", "ab", " a", "a ", "\u00e9", "\U0001f600", "NULL", "A", "12", "012"),
    "d": (None, "0.00", "1.5", "-1.50", "999999.99", "0.01"),
    "w": (None, "0", "1.0000000001", f"-{9:9<28}.{9:9<10}", "1"),
    "n": (None, "0", "1", "-1", "12345678901234567890"),
    "f": (None, "true", "false"),
    "dt": (None, "1582-10-15", "1970-01-01", "2020-02-29", "9999-12-31"),
    "x": (None, "0.0", "-0.0", "1.5", "1e300", "-2"),
    "ch": (None,),
    "v": (None,),
    "ts": (None,),
    "p": (None, "x", "X", "a b", "7", "\u00e9"),
    "q": (None, "1", "-5"),
    "r": (None, "2020-01-01", "1582-10-15"),
}
# Values with more digits than the column, in conditions only.
_FINER: Final[Mapping[str, Sequence[str]]] = {
    "d": ("1.500000000000001",),
    "w": ("1.000000000099999999",),
    "n": ("1.1", "0.5"),
}
# What only Hive writes, into the first rows.
FIRST: Final[Mapping[str, Sequence[str | None]]] = {
    **VALUES,
    "x": (*VALUES["x"], "NaN", "Infinity"),
    "dt": (*VALUES["dt"], "1500-02-28", "0001-01-01"),
    "ch": (None, "a", "ab  ", "abcd"),
    "v": (None, "a", "a  "),
    "ts": (None, "2020-01-31 01:02:03.123456789", "1500-01-01 00:00:00"),
    # NULL would be in the same partition, and Hive would write one file of it twice.
    "p": (*VALUES["p"][1:], "a/b=c", "__HIVE_DEFAULT_PARTITION__"),
}
SHAPES: Final[Sequence[tuple[Mapping[str, str], tuple[str, ...]]]] = (
    ({}, ()),
    ({"p": "string"}, ()),
    ({"q": "int", "r": "date"}, ()),
    ({}, ("a", "s")),
    ({}, ("d", "dt")),
    ({"p": "string"}, ("b",)),
)
_ROWS: Final = 12
_MOST_CHANGES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The partition columns and bucket columns of a table, and the version of its hash."""

    partition: Mapping[str, str]
    buckets: tuple[str, ...]
    version: int

    @property
    def types(self) -> dict[str, str]:
        return {**COLUMNS, **self.partition}

    @property
    def fixed(self) -> tuple[str, ...]:
        """The columns that no update may change."""
        return (*self.buckets, *self.partition)

    def create_table(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        parts = ", ".join(f"{name} {kind}" for name, kind in self.partition.items())
        buckets = (
            f" CLUSTERED BY ({', '.join(self.buckets)}) INTO 3 BUCKETS" if self.buckets else ""
        )
        return (
            f"CREATE TABLE t ({columns}){f' PARTITIONED BY ({parts})' if parts else ''}{buckets}"
            f" STORED AS ORC TBLPROPERTIES ('transactional'='true',"
            f" 'bucketing_version'='{self.version}')"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A statement as Hive's text, and as our job on the table `t` of a database."""

    text: str
    job: Callable[[str], Job]


class Writer:
    """A writer of simple statements on a table of one shape. Mutable: it has dice."""

    def __init__(self, dice: random.Random, shape: Shape) -> None:
        self._dice, self._shape = dice, shape

    def rows(
        self, count: int, values: Mapping[str, Sequence[str | None]]
    ) -> list[list[str | None]]:
        return [[self._dice.choice(values[n]) for n in self._shape.types] for _ in range(count)]

    def select(self, rows: Sequence[Sequence[str | None]]) -> str:
        """Return rows as a query in Hive's SQL."""
        kinds = self._shape.types
        return " UNION ALL ".join(
            "SELECT "
            + ", ".join(
                f"cast({'NULL' if value is None else _quoted(value)} AS {kind}) AS {name}"
                for (name, kind), value in zip(kinds.items(), row, strict=True)
            )
            for row in rows
        )

    def change(self) -> Change:
        makers = (self._insert, self._update, self._update, self._delete, self._merge, self._merge)
        return self._dice.choice(makers)()

    def _insert(self) -> Change:
        rows = self.rows(self._dice.randint(1, 5), VALUES)
        return Change(
            text=f"INSERT INTO t {self.select(rows)}",
            job=lambda db: InsertSpec(target=f"{db}.t", source=self._source(rows)),
        )

    def _update(self) -> Change:
        names = self._dice.sample([n for n in COMPARED if n not in self._shape.buckets], 2)
        new = ", ".join(f"{n} = {self._literal(n, self._dice.choice(VALUES[n]))}" for n in names)
        return self._of_text(f"UPDATE t SET {new} WHERE {self._condition()}")

    def _delete(self) -> Change:
        return self._of_text(f"DELETE FROM t WHERE {self._condition()}")

    def _of_text(self, text: str) -> Change:
        def job(db: str) -> Job:
            (statement,) = read_script(text, db)
            return statement.job  # type: ignore[return-value]  # no DDL

        return Change(text=text, job=job)

    def _merge(self) -> Change:
        keys = [*self._shape.fixed, self._dice.choice(COMPARED)]
        keys = list(dict.fromkeys(keys))
        rows = self.rows(self._dice.randint(1, 4), VALUES)
        free = [name for name in COLUMNS if name not in {*keys, "ch", "v", "ts"}]
        sets = self._dice.sample(free, 2)
        when = self._dice.choice(("update", "delete", "none"))
        has_insert = when == "none" or self._dice.random() < 0.7
        on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        clauses, ours = [], []
        if when == "update":
            clauses.append(
                "WHEN MATCHED THEN UPDATE SET " + ", ".join(f"{n} = s.{n}" for n in sets)
            )
            ours.append(
                MergeClause(
                    when=MergeWhen.MATCHED,
                    action=MergeAction.UPDATE,
                    set={name: f"s.{name}" for name in sets},
                )
            )
        elif when == "delete":
            clauses.append("WHEN MATCHED THEN DELETE")
            ours.append(MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE))
        if has_insert:
            listed = ", ".join(f"s.{name}" for name in self._shape.types)
            clauses.append(f"WHEN NOT MATCHED THEN INSERT VALUES ({listed})")
            ours.append(MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT))
        return Change(
            text=f"MERGE INTO t USING ({self.select(rows)}) s ON {on} {' '.join(clauses)}",
            job=lambda db: MergeSpec(
                target=f"{db}.t", source=self._source(rows), keys=tuple(keys), clauses=tuple(ours)
            ),
        )

    def _source(self, rows: Sequence[Sequence[str | None]]) -> SourceSpec:
        return SourceSpec(columns=tuple(self._shape.types), values=tuple(map(tuple, rows)))

    def _condition(self, depth: int = 2) -> str:
        if depth and self._dice.random() < 0.4:
            word = self._dice.choice(("AND", "OR"))
            return f"({self._condition(depth - 1)} {word} {self._condition(depth - 1)})"
        every = [*self._shape.types]
        if self._dice.random() < 0.2:
            name = self._dice.choice(every)
            return f"{name} IS {self._dice.choice(('', 'NOT '))}NULL"
        name = self._dice.choice([*COMPARED, *self._shape.partition])
        values = [*VALUES[name][1:], *_FINER.get(name, ())]
        one, two = (self._literal(name, self._dice.choice(values)) for _ in range(2))
        choices = [f"{name} = {one}", f"{name} <> {one}", f"{name} IN ({one}, {two})"]
        if name != "f":
            choices += [f"{name} {sign} {one}" for sign in ("<", "<=", ">", ">=")]
            choices.append(f"{name} BETWEEN {one} AND {two}")
        return self._dice.choice(choices)

    def _literal(self, name: str, value: str | None) -> str:
        kind = self._shape.types[name]
        if value is None:
            return "NULL"
        if kind == "date":
            return f"date '{value}'"
        return _quoted(value) if kind == "string" else value


def _short(error: Exception) -> str:
    """Return the first and the last line of an error's text; the last one has Hive's cause."""
    lines = str(error).splitlines() or [type(error).__name__]
    return "; ".join(line.strip()[:300] for line in dict.fromkeys((lines[0], lines[-1])))


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Triplets:
    """The three databases. Mutable: their rows change and may diverge."""

    def __init__(self, engines: Engines, databases: tuple[str, str], seed: int) -> None:
        """Set the databases of Hive and the worker, which exist and are empty."""
        self._engines = engines
        self._databases = {
            "Hive": databases[0],
            "Spark": engines.lab.db,
            "the worker": databases[1],
        }
        self._dice = random.Random(seed)
        self._changes = _MOST_CHANGES

    def done(self, count: int, say: Callable[[str], None]) -> Iterator[Done]:
        """Yield the results of `count` statements."""
        writer: Writer | None = None
        for number in range(count):
            if writer is None or self._changes >= _MOST_CHANGES:
                writer = self._made_again(number)
            yield self._one(writer.change())
            if number % 20 == 19:
                say(f"{number + 1} of {count} simple statements")

    def _made_again(self, number: int) -> Writer:
        partition, buckets = SHAPES[number % len(SHAPES)]
        shape = Shape(partition=partition, buckets=buckets, version=self._dice.choice((1, 2)))
        writer = Writer(self._dice, shape)
        select = writer.select(writer.rows(_ROWS, FIRST))
        for db in self._databases.values():
            for text in (
                f"use {db}",
                "DROP TABLE IF EXISTS t",
                shape.create_table(),
                f"INSERT INTO t {select}",
            ):
                self._engines.judge.execute(text)
        self._changes = 0
        return writer

    def _one(self, change: Change) -> Done:
        compares_p = re.search(r"\b(WHERE|ON) .*\bp\b", change.text) is not None
        written = Written(
            change.text,
            change.text.split()[0].lower(),
            is_query=False,
            marks=frozenset({NULL_PARTITION} if compares_p else ()),
        )
        failures = self._failures(change)
        self._changes += _MOST_CHANGES if failures else 1
        worker = failures.get("the worker")
        if isinstance(worker, SparkNeededError):
            return Done(written=written, outcome=Outcome.REFUSED_HERE, told=str(worker)[:300])
        if len(failures) == len(self._databases):
            return Done(written=written, outcome=Outcome.EQUAL, told=f"all fail: {worker}"[:300])
        if failures and set(failures) != {"Hive"}:
            told = "; ".join(f"{n} fails: {_short(error)}" for n, error in failures.items())
            return Done(written=written, outcome=Outcome.DIFFERENT, told=told)
        rows = {n: self._engines.judge.rows(f"{db}.t") for n, db in self._databases.items()}
        # A MERGE of constants sometimes fails in Hive; then our engines are compared.
        first = "Spark" if failures else "Hive"
        told = "; ".join(
            f"{name}: {text}"
            for name in ("Spark", "the worker")
            if (text := difference(rows[name], rows[first]))
        )
        self._changes += _MOST_CHANGES if told else 0
        outcome = Outcome.DIFFERENT if told else Outcome.EQUAL
        if failures and not told:
            outcome, told = Outcome.REFUSED_BY_HIVE, _short(failures["Hive"])
        return Done(written=written, outcome=outcome, told=told)

    def _failures(self, change: Change) -> dict[str, Exception]:
        """Run the change in each database, Hive beside the others; return errors by engine."""
        runs: dict[str, Callable[[str], object]] = {
            "Hive": lambda db: self._in_hive(db, change.text),
            "Spark": lambda db: self._engines.lab.run(change.job(db)),
            "the worker": lambda db: self._in_process(change.job(db)),
        }

        def failure(name: str) -> Exception | None:
            try:
                runs[name](self._databases[name])
            except (HiveAcidError, JudgeError, *SPARK_ERRORS) as error:
                return error
            return None

        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(failure, "Hive")
            found = {name: failure(name) for name in ("Spark", "the worker")}
            found = {"Hive": asked.result(), **found}
        return {name: error for name, error in found.items() if error is not None}

    def _in_hive(self, db: str, text: str) -> None:
        self._engines.judge.execute(f"use {db}")
        self._engines.judge.execute(text)

    def _in_process(self, job: Job) -> Any:  # noqa: ANN401 - a result that is not read
        lab = self._engines.lab
        spec = JobSpec(job_key=f"triplets/{next(lab.keys)}", metastore=lab.endpoint, job=job)
        with connect(lab.endpoint) as client:
            return run_in_process(WritingJob(spec=spec, client=client, terms=JobTerms.of(spec)))

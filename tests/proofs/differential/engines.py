"""The two engines that are asked: Hive 4.0.1's own as a process, and this project.

Many expressions over the table of `rows` go in at a time. Each one's values come out row by row, or
the name of the engine that refused it. Hive evaluates them as a task into an ORC table, like
INSERT .. SELECT. On our side the text goes through the reader, and the source's frame of the job is
evaluated.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from airflow_hiveacid.format.errors import HiveAcidError, SqlTextError
from airflow_hiveacid.jobs.statements import InsertSpec
from airflow_hiveacid.plan.statements.dml import tables_of
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from airflow_hiveacid.spark.reading.source import load_source
from airflow_hiveacid.sql.script import read_script
from tests.judges.engine import HiveJudge
from tests.judges.line_process import JudgeError
from tests.proofs.differential import rows
from tests.proofs.differential.values import BROKEN, Value, of_hive, of_spark
from tests.support.spark_lab import Lab

TABLE: Final = "w"
_SECOND_LINE: Final = 2
_LINE: Final = re.compile(r"[Ll]ine (\d+)(?::| pos )\d+")
_FIELD: Final = re.compile(r"near field: q(\d+)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an expression has no values: `by` is us, Spark or Hive."""

    by: str
    told: str


@dataclass(frozen=True, slots=True)
class Values:
    """The values of an expression by row ID; `kind` is the engine's name of the type."""

    kind: str
    by_row: Mapping[object, Value]


Answer = Values | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The query for expressions: the name of a row, and the text after the table."""

    key: str = "id"
    rest: str = ""
    is_by_row: bool = True

    def select(self, expressions: Sequence[str], table: str) -> str:
        """Return the query with an expression a line, so an error's line identifies one."""
        columns = "".join(f",\n({one}) AS q{number}" for number, one in enumerate(expressions))
        return f"SELECT {self.key} AS q{columns}\nFROM {table} {self.rest}"


ROWS: Final = Form()
WINDOWS: Final = Form(is_by_row=False)
GROUPS: Final = Form(key="g", rest="GROUP BY g", is_by_row=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Both engines, over tables of one metastore; `lab.db` holds the table of all questions."""

    lab: Lab
    judge: HiveJudge

    def prepare(self) -> None:
        """Create the table."""
        self.judge.execute(f"use {self.lab.db}")
        self.judge.execute(rows.create_table(TABLE))
        self.judge.execute(f"INSERT INTO {TABLE} {rows.select_rows()}")

    def ask_hive(self, expressions: Sequence[str], form: Form = ROWS) -> list[Answer]:
        return _halved(expressions, lambda some: self._hive(some, form), "Hive")

    def ask_us(self, expressions: Sequence[str], form: Form = ROWS) -> list[Answer]:
        """Return our answers: the reader's one by one, then the frames of those that it accepts."""
        refused = {number: r for number, one in enumerate(expressions) if (r := refusal(one, form))}
        taken = [number for number in range(len(expressions)) if number not in refused]
        found = _halved(
            [expressions[number] for number in taken], lambda some: self._ours(some, form), "Spark"
        )
        answers: dict[int, Answer] = {**refused, **dict(zip(taken, found, strict=True))}
        return [answers[number] for number in range(len(expressions))]

    def rows_in_hive(self, query: str) -> list[list[Any]]:
        """Return the rows of a query as a task of Hive's in its current database has them."""
        self.judge.execute("DROP TABLE IF EXISTS answered")
        self.judge.execute(f"CREATE TEMPORARY TABLE answered STORED AS ORC AS {query}")
        kinds = [kind.strip() for _, kind, *_ in self.judge.execute("DESCRIBE answered")]
        return [
            [of_hive(value, kind) for value, kind in zip(row, kinds, strict=True)]
            for row in self.judge.execute("SELECT * FROM answered")
        ]

    def rows_here(self, query: str) -> list[list[Any]]:
        """Return the rows of a query in the frame that a job makes of it."""
        frame = self.frame(query)
        kinds = [field.dataType for field in frame.schema.fields]
        return [
            [of_spark(value, kind) for value, kind in zip(row, kinds, strict=True)]
            for row in frame.collect()
        ]

    def _hive(self, expressions: Sequence[str], form: Form) -> list[Answer]:
        self.judge.execute("DROP TABLE IF EXISTS asked")
        query = form.select(expressions, TABLE)
        self.judge.execute(f"CREATE TEMPORARY TABLE asked STORED AS ORC AS\n{query}")
        kinds = [kind.strip() for _, kind, *_ in self.judge.execute("DESCRIBE asked")]
        found = self.judge.execute("SELECT * FROM asked")
        return [
            Values(kinds[n + 1], {row[0]: of_hive(row[n + 1], kinds[n + 1]) for row in found})
            for n in range(len(expressions))
        ]

    def _ours(self, expressions: Sequence[str], form: Form) -> list[Answer]:
        frame = self.frame(form.select(expressions, TABLE))
        return evaluated(frame)

    def frame(self, query: str) -> DataFrame:
        """Return the frame that a job makes of the query of an INSERT."""
        (statement,) = read_script(f"INSERT INTO {self.lab.db}.asked {query}", self.lab.db)
        assert isinstance(statement.job, InsertSpec)
        source = statement.job.source
        tables = {
            view: self.lab.frame(name.rpartition(".")[2])
            for view, name in tables_of(source).items()
        }
        return load_source(self.lab.spark, source, tables)


@functools.cache
def refusal(expression: str, form: Form = ROWS) -> Refusal | None:
    """Return our reader's refusal of an expression, or None."""
    query = form.select([expression], f"db.{TABLE}")
    try:
        read_script(f"INSERT INTO db.asked {query}", "db")
    except SqlTextError as error:
        return Refusal("us", str(error))
    return None


def _halved(
    expressions: Sequence[str], ask: Callable[[Sequence[str]], list[Answer]], by: str
) -> list[Answer]:
    """Ask all at once; after a failure, leave out the one that the error names, or halve."""
    if not expressions:
        return []
    try:
        return ask(expressions)
    except (JudgeError, HiveAcidError, *SPARK_ERRORS) as error:
        told = " ".join(str(error).split())[:300]
        if len(expressions) == 1:
            return [Refusal(by, told)]
        named = _named(str(error), by)
        if 0 <= named < len(expressions):
            before, after = expressions[:named], expressions[named + 1 :]
            # The line may be wrong, so the omitted one is asked alone.
            alone = _halved(expressions[named : named + 1], ask, by)
            rest = _halved([*before, *after], ask, by)
            return [*rest[:named], *alone, *rest[named:]]
        middle = len(expressions) // 2
        return [
            *_halved(expressions[:middle], ask, by),
            *_halved(expressions[middle:], ask, by),
        ]


def _named(told: str, by: str) -> int:
    """Return the number of the expression at an error's line or column; -1 if it has none."""
    if field := _FIELD.search(told):
        return int(field.group(1))
    line = _LINE.search(told)
    shift = _SECOND_LINE + (by == "Hive")  # CREATE TABLE has a separate line
    return int(line.group(1)) - shift if line else -1


def evaluated(frame: DataFrame) -> list[Answer]:
    """Return the values of a frame's columns after the first, which names the row.

    An error of one value affects only that value: Spark's own `TryEval` evaluates each within
    a struct that distinguishes it from NULL.
    """
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    plan = frame._jdf.queryExecution().analyzed()
    fields = frame.schema.fields[1:]
    if plan.nodeName() == "Project":
        frame = _tried(frame, jvm, plan)
        found = {
            row[0]: [BROKEN if v is None else v[0] for v in row[1:]] for row in frame.collect()
        }
    else:
        texts = [
            f"cast({field.name} AS {kind})" if (kind := collectable(field.dataType)) else field.name
            for field in fields
        ]
        found = {row[0]: list(row)[1:] for row in frame.selectExpr("q", *texts).collect()}
    return [
        Values(
            field.dataType.simpleString(),
            {key: of_spark(values[n], field.dataType) for key, values in found.items()},
        )
        for n, field in enumerate(fields)
    ]


_TIME: Final = re.compile(r"\b(date|timestamp|timestamp_ntz)\b(?!:)")


def collectable(kind: DataType) -> str | None:
    """Return the type with text for times, because Python has no year 0; None without times.

    Example:
        >>> from pyspark.sql.types import ArrayType, StructField, StructType, TimestampType
        >>> collectable(ArrayType(StructType([StructField("date", TimestampType())])))
        'array<struct<date:string>>'
    """
    name = kind.simpleString()
    text = _TIME.sub("string", name)
    return None if text == name else text


def _tried(frame: DataFrame, jvm: Any, plan: Any) -> DataFrame:  # noqa: ANN401 - Java's
    from pyspark.sql import DataFrame as Frame  # noqa: PLC0415

    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    functions = jvm.org.apache.spark.sql.functions
    names = plan.projectList()
    wanted = [columns.column(names.apply(0))]
    for number, field in enumerate(frame.schema.fields[1:]):
        value = columns.column(names.apply(number + 1))
        if (kind := collectable(field.dataType)) is not None:
            value = value.cast(kind)
        one = functions.struct(_sequence(jvm, [value.alias("v")]))
        wanted.append(columns.column(catalyst.TryEval(columns.expression(one))).alias(field.name))
    below = jvm.org.apache.spark.sql.classic.Dataset.ofRows(
        frame.sparkSession._jsparkSession,
        plan.child(),
    )
    return Frame(below.select(_sequence(jvm, wanted)), frame.sparkSession)


def _sequence(jvm: Any, items: Sequence[Any]) -> Any:  # noqa: ANN401
    return jvm.PythonUtils.toSeq(items)

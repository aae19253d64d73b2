"""What SQL text may call, and Hive 4.0.1: the same answers, row for row, for all arguments.

Hive runs each question as a task, as it runs INSERT ... SELECT: its fetches answer otherwise in
places. Spark gets what our reader writes of the same text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import PySparkException

from airflow_hiveacid.sql import expressions
from airflow_hiveacid.sql.expressions import functions, queries
from airflow_hiveacid.sql.text import statements_of
from airflow_hiveacid.sql.text.views import Views
from tests.judges.engine import HiveJudge
from tests.judges.line_process import JudgeError
from tests.support.spark_lab import Lab
from tests.support.sql_files import sql_lines, sql_paragraphs

_NAMES: Final = expressions.NameScope(qualifiers={"w": "t"}, sides=frozenset("t"))
_AT_ONCE: Final = 20
_FOLDER: Final = Path(__file__).with_name("functions")
# Rows with NULL, empty texts, negative numbers, blanks and more, and calls over them: every
# function that SQL text may call is in a call or a query.
_COLUMNS: Final = dict(line.split() for line in sql_lines(_FOLDER / "columns.txt"))
_ROWS: Final = (_FOLDER / "rows.sql").read_text(encoding="utf-8")
_CALLS: Final = sql_lines(_FOLDER / "calls.sql")
# The first call of each function, and every third one after it.
_SOME_CALLS: Final = [
    call for calls in sql_paragraphs(_FOLDER / "calls.sql") for call in calls.splitlines()[::3]
]
_QUERIES: Final = sql_lines(_FOLDER / "queries.sql")


@pytest.fixture
def tasks(hive_judge: HiveJudge) -> Iterator[HiveJudge]:
    """Hive's engine, which answers every question by a task."""
    hive_judge.execute("set hive.fetch.task.conversion=none")
    yield hive_judge
    hive_judge.execute("set hive.fetch.task.conversion=more")


def test_each_allowed_function_is_compared_with_hive() -> None:
    called = {
        (token.name or "").lower()
        for text in _CALLS + _QUERIES
        for token in statements_of(text)[0].tokens
        if token.name
    }
    assert functions.COMPARED - called == set()


@pytest.mark.parametrize(
    "calls", [_SOME_CALLS, pytest.param(_CALLS, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_functions_return_the_same_values_as_in_hives_tasks(
    lab4: Lab, tasks: HiveJudge, calls: list[str]
) -> None:
    lab4.table("w", _COLUMNS)
    tasks.execute(f"insert into {lab4.db}.w {_ROWS}")
    frame = lab4.frame("w").alias("t").cache()
    different: list[object] = []

    def compare(some: list[str]) -> None:
        written = [expressions.expression(statements_of(text)[0], _NAMES) for text in some]
        try:
            asked = f"select id, {', '.join(some)} from {lab4.db}.w"
            with ThreadPoolExecutor(1) as beside:
                answer = beside.submit(tasks.execute, asked)
                ours = sorted(frame.selectExpr("id", *written).collect(), key=lambda row: row[0])
                hive = sorted(answer.result(), key=lambda row: row[0])
        except (JudgeError, PySparkException) as error:
            if len(some) == 1:
                different.append((some[0], str(error)[:200]))
                return
            compare(some[: len(some) // 2])
            compare(some[len(some) // 2 :])
            return
        for index, text in enumerate(some, start=1):
            pairs = [(o[index], t[index]) for o, t in zip(ours, hive, strict=True)]
            different.extend((text, o, t) for o, t in pairs if not same(o, t))

    for at in range(0, len(calls), _AT_ONCE):
        compare(calls[at : at + _AT_ONCE])
    frame.unpersist()
    assert different == []


@pytest.mark.long
def test_queries_return_the_same_rows_as_in_hives_tasks(lab4: Lab, tasks: HiveJudge) -> None:
    lab4.table("w", _COLUMNS)
    tasks.execute(f"insert into {lab4.db}.w {_ROWS}")
    different: list[object] = []
    for text in _QUERIES:
        source = queries.source_of(statements_of(text)[0], Views(lab4.db))
        lab4.frame("w").createOrReplaceTempView("__hiveacid_1")
        try:
            found = lab4.spark.sql(source.query or "").collect()
        except PySparkException as error:
            different.append((text, str(error), None))
            continue
        hive = tasks.execute(re.sub(r"\b(FROM|JOIN) w\b", rf"\1 {lab4.db}.w", text))
        ours = sorted(([plain(value) for value in row] for row in found), key=str)
        theirs = sorted(([plain(value) for value in row] for row in hive), key=str)
        if not same(ours, theirs):
            different.append((text, ours, theirs))
    lab4.spark.catalog.dropTempView("__hiveacid_1")
    assert different == []


def plain(value: object) -> object:
    """A value by which rows are put in order alike."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{float(value):.9g}"
    try:
        return f"{float(str(value)):.9g}"
    except ValueError:
        return value


def same(ours: object, theirs: object) -> bool:
    """Whether two values are one, whatever the engines' servers print numbers and times as."""
    if ours is None or theirs is None or isinstance(ours, bool):
        return ours is theirs
    if isinstance(ours, dict):
        return same(sorted([key, value] for key, value in ours.items()), theirs)
    if isinstance(ours, tuple | list):
        return _same_elements(ours, list(theirs.values()) if isinstance(theirs, dict) else theirs)
    if isinstance(ours, int | float | Decimal):
        return _same_number(float(ours), theirs)
    text = bytes(ours).hex() if isinstance(ours, bytes | bytearray) else str(ours)
    return text == str(theirs) or _time(text) == _time(str(theirs))


def _same_elements(ours: Sequence[object], theirs: object) -> bool:
    if list(ours) == [""] and theirs == []:
        return True  # so the judge prints it
    return (
        isinstance(theirs, list)
        and len(ours) == len(theirs)
        and all(same(o, t) for o, t in zip(ours, theirs, strict=True))
    )


def _same_number(ours: float, theirs: object) -> bool:
    try:
        number = float(str(theirs))
    except ValueError:
        return False
    both_nan = math.isnan(ours) and math.isnan(number)
    return both_nan or math.isclose(ours, number, rel_tol=1e-13)


def _time(text: str) -> str:
    """A time without zeros at the end of its fraction."""
    return text.rstrip("0").rstrip(".") if re.search(r":[0-9]{2}\.[0-9]+$", text) else text

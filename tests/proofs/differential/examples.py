"""The examples of the known differences, asked of Hive's engine and of us.

docs/evidence/differences.json gives for each example the answers of both engines. A table of
differences is a promise, so an answer that is not the documented one is as wrong as a difference
without a name.

An example is an expression over the table of `rows`, or a query over tables of its own (`tables`),
which Hive makes. Examples without a `statement` change no table, so both engines read the same one,
which examples of equal tables share. If the example has a `statement`, each engine runs it in its
own database, and Hive answers the query over both results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from tests.judges.line_process import JudgeError
from tests.proofs.differential.engines import GROUPS, ROWS, Answer, Engines, Refusal
from tests.proofs.differential.known import Entry, Example, entries
from tests.proofs.differential.values import BROKEN, Value

ERROR = "an error"
_TABLES = ("e", "s")


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of both engines to an example, as docs/evidence/differences.json has them."""

    hive: str
    ours: str


def all_of(entry: Entry) -> Sequence[Example]:
    return entry.examples


def one_of_its_tables(entry: Entry) -> Sequence[Example]:
    """Return the examples over the table of `rows`, and the first one over tables of its own."""
    first = next((one for one in entry.examples if one.tables), None)
    return [one for one in entry.examples if one is first or not one.tables]


def missed(
    engines: Engines, choose: Callable[[Entry], Sequence[Example]] = all_of
) -> Iterator[str]:
    """Yield a line for each example that has other answers than the documented ones."""
    examples = [(entry.id, example) for entry in entries() for example in choose(entry)]
    found = answers(engines, [example for _, example in examples])
    for (name, example), both in zip(examples, found, strict=True):
        if both != Answers(example.hive, example.ours):
            yield (
                f"example of {name}: {example.sql} is {both.hive} in Hive and {both.ours} here,"
                f" documented as {example.hive} and {example.ours}"
            )


def answers(engines: Engines, examples: Sequence[Example]) -> list[Answers]:
    found: dict[int, Answers] = {}
    for is_grouped, form in ((False, ROWS), (True, GROUPS)):
        chosen = [
            number
            for number, one in enumerate(examples)
            if not one.tables and one.grouped is is_grouped
        ]
        texts = [examples[number].sql for number in chosen]
        both = zip(engines.ask_hive(texts, form), engines.ask_us(texts, form), strict=True)
        for number, (theirs, ours) in zip(chosen, both, strict=True):
            found[number] = Answers(_first(theirs), _first(ours))
    with _second_database(engines) as database:
        made: Sequence[str] = ()
        # In an order in which equal tables follow each other.
        for number, one in sorted(enumerate(examples), key=lambda pair: list(pair[1].tables)):
            if one.statement:
                _make_tables(engines, one.tables, engines.lab.db, database)
                found[number] = Answers(_hives(engines, database, one), _ours(engines, one))
            elif one.tables:
                if one.tables != made:
                    _make_tables(engines, one.tables, engines.lab.db)
                found[number] = Answers(_hives(engines, engines.lab.db, one), _ours(engines, one))
            made = () if one.statement else one.tables
    return [found[number] for number in range(len(examples))]


def _first(answer: Answer) -> str:
    """Return an answer's value in the first row or group."""
    if isinstance(answer, Refusal):
        return ERROR
    keys = [key for key in answer.by_row if isinstance(key, int)]
    value = answer.by_row[min(keys)]
    return ERROR if value is BROKEN else _shown(value)


def _shown(value: Value) -> str:
    """Return a value as text; a decimal without the zeros at its end, which only one engine has."""
    if isinstance(value, Decimal):
        with localcontext(prec=38):  # no digit is rounded
            return f"{value.normalize():f}"
    return "NULL" if value is None else str(value)


@contextmanager
def _second_database(engines: Engines) -> Iterator[str]:
    name = f"{engines.lab.db}_examples"
    engines.judge.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
    yield name
    engines.judge.execute(f"use {engines.lab.db}")
    engines.judge.execute(f"DROP DATABASE {name} CASCADE")


def _make_tables(engines: Engines, texts: Sequence[str], *databases: str) -> None:
    for db in databases:
        engines.judge.execute(f"use {db}")
        for table in _TABLES:
            engines.judge.execute(f"DROP TABLE IF EXISTS {table}")
        for text in texts:
            engines.judge.execute(text)


def _hives(engines: Engines, db: str, example: Example) -> str:
    engines.judge.execute(f"use {db}")
    try:
        if example.statement:
            engines.judge.execute(example.statement)
        return _text(engines.rows_in_hive(example.sql))
    except JudgeError:
        return ERROR


def _ours(engines: Engines, example: Example) -> str:
    try:
        if not example.statement:
            return _text(engines.rows_here(example.sql))
        engines.lab.script(example.statement)
    except (HiveAcidError, *SPARK_ERRORS):
        return ERROR
    engines.judge.execute(f"use {engines.lab.db}")
    return _text(engines.rows_in_hive(example.sql))


def _text(rows: list[list[Any]]) -> str:
    """Return rows as sorted texts, such as `1 NULL; 2 x`; `no row` without rows."""
    lines = (" ".join(map(_shown, row)) for row in rows)
    return "; ".join(sorted(lines)) or "no row"

"""Statements run by Hive's engine in its database and by our jobs in ours, then compared.

Both start with the same rows, which Hive's engine writes. When the two differ, the tables are
created again; a query is compared by its rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from airflow_hiveacid.format import errors
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from airflow_hiveacid.sql.script import read_script
from tests.judges.line_process import JudgeError
from tests.proofs.differential import statements
from tests.proofs.differential.cases import Outcome, Seen
from tests.proofs.differential.engines import Engines
from tests.proofs.differential.known import statement_names
from tests.proofs.differential.statements import TOTALS, Written
from tests.proofs.differential.values import same, sort_key

_MOST_CHANGES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a statement."""

    written: Written
    outcome: Outcome
    told: str = ""
    names: tuple[str, ...] = ()
    seen: tuple[Seen, ...] = ()


class Twins:
    """The two databases. Mutable: their rows change and may diverge."""

    def __init__(self, engines: Engines, theirs: str, seed: int) -> None:
        """Set the engines and the seed; `theirs` is Hive's database, which exists and is empty."""
        self._engines = engines
        self._theirs = theirs
        self._seed = seed
        self._changes = _MOST_CHANGES

    def done(self, count: int, say: Callable[[str], None]) -> Iterator[Done]:
        """Yield the results of `count` statements."""
        writer = statements.Writer(random.Random(self._seed))
        for number in range(count):
            if self._changes >= _MOST_CHANGES:
                self._make_again(number)
            yield self._one(writer.statement())
            if number % 20 == 19:
                say(f"{number + 1} of {count} statements")

    def _make_again(self, number: int) -> None:
        execute = self._engines.judge.execute
        for db in (self._engines.lab.db, self._theirs):
            execute(f"use {db}")
            dice = random.Random(self._seed + number)
            for table in statements.TABLES:
                execute(f"DROP TABLE IF EXISTS {table}")
                execute(statements.create_table(table))
                execute(f"INSERT INTO {table} {statements.select_rows(dice)}")
        self._changes = 0

    def _one(self, written: Written) -> Done:
        text = f"INSERT INTO r {written.text}" if written.is_query else written.text
        try:
            (statement,) = read_script(text, self._engines.lab.db)
        except errors.SqlTextError as error:
            return Done(written=written, outcome=Outcome.REFUSED_HERE, told=str(error)[:300])
        self._engines.judge.execute(f"use {self._theirs}")
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(self._hive, written)
            ours: list[Any] | Exception
            try:
                if written.is_query:
                    ours = self._engines.rows_here(written.text)
                else:
                    self._engines.lab.run(statement.job)  # type: ignore[arg-type]
                    ours = []
            except (errors.HiveAcidError, *SPARK_ERRORS) as error:
                ours = error
            theirs = asked.result()
        return self._compared(written, ours, theirs)

    def _hive(self, written: Written) -> list[Any] | JudgeError:
        try:
            if written.is_query:
                return self._engines.rows_in_hive(written.text)
            self._engines.judge.execute(written.text)
        except JudgeError as error:
            return error
        return []

    def _compared(
        self, written: Written, ours: list[Any] | Exception, theirs: list[Any] | JudgeError
    ) -> Done:
        failed = isinstance(ours, Exception) or isinstance(theirs, JudgeError)
        if not written.is_query:
            self._changes += _MOST_CHANGES if failed else 1
        if isinstance(theirs, JudgeError):
            both = isinstance(ours, Exception)
            told = f"both fail: {ours}" if both else str(theirs)
            outcome = Outcome.EQUAL if both else Outcome.REFUSED_BY_HIVE
            return Done(written=written, outcome=outcome, told=told[:300])
        if isinstance(ours, Exception):
            wrong = isinstance(ours, errors.SourceUnreadableError | errors.ExpressionError)
            outcome = Outcome.REFUSED_BY_SPARK if wrong else Outcome.ERROR
            return Done(
                written=written, outcome=outcome, told=f"{type(ours).__name__}: {ours}"[:300]
            )
        if not written.is_query:
            judge = self._engines.judge
            ours = judge.rows(f"{self._engines.lab.db}.t")
            theirs = judge.rows(f"{self._theirs}.t")
        told = difference(ours, theirs)
        if not told:
            return Done(written=written, outcome=Outcome.EQUAL)
        self._changes += 0 if written.is_query else _MOST_CHANGES
        # Without rows, only Hive has totals.
        names = tuple(statement_names(written.all_marks - ({TOTALS} if ours else set())))
        outcome = Outcome.KNOWN if names else Outcome.DIFFERENT
        return Done(written=written, outcome=outcome, told=told, names=names)


def difference(ours: list[Any], theirs: list[Any]) -> str:
    """Return the difference of two sets of rows in words; empty if they are equal."""
    one, two = sorted(ours, key=sort_key), sorted(theirs, key=sort_key)
    if len(one) == len(two) and all(map(same, one, two)):
        return ""
    left = [row for row in one if not any(same(row, other) for other in two)]
    right = [row for row in two if not any(same(row, other) for other in one)]
    return f"{len(one)} rows here, {len(two)} in Hive; only here {left[:3]}; only there {right[:3]}"

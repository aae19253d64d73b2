from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from airflow_hiveacid.format.errors import HiveAcidError
from tests.judges.line_process import JudgeError
from tests.proofs.differential.cases import Outcome
from tests.proofs.differential.engines import Engines
from tests.proofs.differential.stores import SOURCES, stored
from tests.proofs.differential.twins import Twins


class Judge:
    """Hive's engine, pretended: tables of answers by their names."""

    def __init__(self, tables: dict[str, list[list[Any]]]) -> None:
        self.tables = tables
        self.asked: list[str] = []

    def execute(self, sql: str) -> list[list[Any]]:
        self.asked.append(sql)
        if sql.startswith(("MERGE", "UPDATE", "DELETE")) and "fail" in self.tables:
            raise JudgeError("no")
        if sql.startswith("DESCRIBE"):
            return [["q0", "int    ", None]]
        table = sql.rpartition("FROM ")[2]
        return self.tables.get(table, []) if sql.startswith("SELECT") else []

    def rows(self, table: str) -> list[list[Any]]:
        return self.tables[table]


def outcomes(judge: Judge, run: Callable[[object], None], seed: int = 3) -> set[Outcome]:
    lab = SimpleNamespace(db="ours", run=run)
    engines: Any = SimpleNamespace(lab=lab, judge=judge, frame=lambda _query: Frame())
    engines.rows_here = partial(Engines.rows_here, engines)
    engines.rows_in_hive = partial(Engines.rows_in_hive, engines)
    done = Twins(engines, "theirs", seed).done(60, print)  # type: ignore[arg-type]
    return {one.outcome for one in done if not one.written.is_query and not one.written.all_marks}


class Frame:
    schema = SimpleNamespace(fields=[])

    def collect(self) -> list[Any]:
        return []


def refusing(_job: object) -> None:
    raise HiveAcidError("no")


def test_different_tables_are_reported_and_created_again() -> None:
    alike = Judge({"ours.t": [[1]], "theirs.t": [[1]]})
    assert outcomes(alike, lambda _job: None) == {Outcome.EQUAL}
    apart = Judge({"ours.t": [[1]], "theirs.t": [[2]]})
    assert outcomes(apart, lambda _job: None) == {Outcome.DIFFERENT}
    made = [sum(sql.startswith("CREATE TABLE t ") for sql in j.asked) for j in (alike, apart)]
    assert made[1] > made[0]


def test_the_outcome_of_a_statement_depends_on_which_engine_failed() -> None:
    rows: list[list[Any]] = [[1]]
    assert outcomes(Judge({"ours.t": rows, "theirs.t": rows}), refusing) == {Outcome.ERROR}
    both = Judge({"ours.t": rows, "theirs.t": rows, "fail": []})
    assert Outcome.EQUAL in outcomes(both, refusing)
    assert Outcome.REFUSED_BY_HIVE in outcomes(both, lambda _job: None)


def test_types_that_cannot_be_stored_are_found_and_the_other_types_are_compared() -> None:
    def script(text: str) -> None:
        if "c_s," in text or "c_s)" in text:
            raise HiveAcidError("column 'c_s': string is not bigint; cast the value")
        if "c_d," in text or "c_d)" in text:
            raise HiveAcidError("an overflow, and no column is named")

    ours = [[1, *([7] * len(SOURCES))]]
    theirs = [[1, 8, *([7] * (len(SOURCES) - 1))]]
    judge = Judge({})
    for rows in ("all", "tame"):
        judge.tables |= {f"stored_0_{rows}": ours, f"stored_0_{rows}_h": theirs}
    judge.tables["w"] = [[1, *([None] * len(SOURCES))]]
    lab = SimpleNamespace(db="ours", script=script)
    engines = SimpleNamespace(lab=lab, judge=judge)
    done = list(stored(engines, ["bigint"]))  # type: ignore[arg-type]
    found = {re.sub(r" into .*", "", one.written.text): one.outcome for one in done}
    assert found.pop("tinyint") is Outcome.DIFFERENT
    assert found.pop("string") is Outcome.REFUSED_HERE
    assert found.pop("double") is Outcome.ERROR
    assert set(found.values()) == {Outcome.EQUAL}

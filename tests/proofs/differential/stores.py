"""Every type into a column of every type, by INSERT .. SELECT: 15 by 15.

A statement stores all columns of `rows.TABLE` as one type. An error or refusal of ours names its
column, which the next try leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from tests.judges.line_process import JudgeError
from tests.proofs.differential import known, statements, values
from tests.proofs.differential.cases import Outcome, Seen
from tests.proofs.differential.engines import Engines
from tests.proofs.differential.rows import COLUMNS
from tests.proofs.differential.twins import Done

_STORED: Final = (
    "ti",
    "si",
    "i",
    "b",
    "f",
    "d",
    "de",
    "dx",
    "s",
    "vc",
    "cc",
    "dt",
    "ts",
    "bo",
    "xb",
)
SOURCES: Final = {column: COLUMNS[column] for column in _STORED}
_NAMED: Final = re.compile(r"\bc_([a-z]+)\b")
_TAME: Final = " WHERE id IN (1, 6)"
"""Rows that fit everywhere: small numbers, and NULL."""


def stored(engines: Engines, targets: Sequence[str]) -> Iterator[Done]:
    """Yield the result of each type of source in columns of these types."""
    for number, target in enumerate(targets):
        for rows in ("", _TAME):
            yield from _into(engines, target, f"stored_{number}_{'tame' if rows else 'all'}", rows)


def _into(engines: Engines, target: str, name: str, rows: str) -> Iterator[Done]:
    execute = engines.judge.execute
    db = engines.lab.db
    execute(f"use {db}")
    for table in (name, f"{name}_alone", f"{name}_h"):
        _create(engines, table, target)
    with ThreadPoolExecutor(1) as beside:
        hives = beside.submit(_refused_by_hive, engines, f"{name}_h", rows)
        gone = _stored_here(engines, f"{db}.{name}", rows)
        refused = hives.result()
    yield from _compared(engines, (target, name, rows), gone, refused)


def _refused_by_hive(engines: Engines, table: str, rows: str) -> dict[str, str]:
    """Store what can be stored; return Hive's error messages for the rest, by source."""
    execute, refused = engines.judge.execute, {}
    for source in SOURCES:
        try:
            execute(f"EXPLAIN {_statement(table, [source], rows)}")
        except JudgeError as error:
            refused[source] = str(error)
    taken = [source for source in SOURCES if source not in refused]
    try:
        execute(_statement(table, taken, rows))
    except JudgeError as error:
        return dict.fromkeys(SOURCES, str(error))
    return refused


def _stored_here(engines: Engines, table: str, rows: str) -> dict[str, str]:
    """Store what can be stored; return our error messages for the rest, by source."""
    left, gone = list(SOURCES), {}
    while left and (told := _failure(engines, table, left, rows)) is not None:
        named = next((column for column in _NAMED.findall(told) if column in left), None)
        if named is None:
            break
        gone[named] = told
        left.remove(named)
    else:
        return gone
    # The error concerns a value and names no column, so each is tried alone in another table.
    alone = f"{table}_alone"
    found = {source: _failure(engines, alone, [source], rows) for source in left}
    gone |= {source: told for source, told in found.items() if told is not None}
    left = [source for source in left if source not in gone]
    if left and (told := _failure(engines, table, left, rows)) is not None:
        gone |= dict.fromkeys(left, told)
    return gone


def _create(engines: Engines, table: str, target: str) -> None:
    columns = ", ".join(f"c_{source} {target}" for source in SOURCES)
    engines.judge.execute(
        f"CREATE TABLE {table} (id int, {columns}) STORED AS ORC"
        " TBLPROPERTIES ('transactional'='true')"
    )


def _failure(engines: Engines, table: str, sources: Sequence[str], rows: str) -> str | None:
    try:
        engines.lab.script(_statement(table, sources, rows))
    except (HiveAcidError, *SPARK_ERRORS) as error:
        return " ".join(str(error).split())
    return None


def _statement(table: str, sources: Sequence[str], rows: str) -> str:
    columns = ", ".join(f"c_{source}" for source in sources)
    return f"INSERT INTO {table} (id, {columns}) SELECT id, {', '.join(sources)} FROM w{rows}"


def _compared(
    engines: Engines, place: tuple[str, str, str], gone: dict[str, str], refused: dict[str, str]
) -> Iterator[Done]:
    target, name, rows = place
    names = ", ".join(f"c_{source}" for source in SOURCES)
    ours, theirs = (
        {row[0]: row[1:] for row in engines.judge.execute(f"SELECT id, {names} FROM {table}")}
        for table in (name, f"{name}_h")
    )
    before = {
        row[0]: row[1:] for row in engines.judge.execute(f"SELECT id, {', '.join(SOURCES)} FROM w")
    }
    for number, (source, kind) in enumerate(SOURCES.items()):
        text = f"{kind} into {target}{' (tame rows)' if rows else ''}"
        written = statements.Written(text, "store", is_query=False, marks=frozenset())
        if source in gone:
            both = source in refused
            at_once = "cast the value" in gone[source]
            outcome = Outcome.REFUSED_HERE if at_once and not both else Outcome.ERROR
            yield Done(
                written=written, outcome=Outcome.EQUAL if both else outcome, told=gone[source][:200]
            )
            continue
        if source in refused:
            yield Done(written=written, outcome=Outcome.REFUSED_BY_HIVE, told=refused[source][:200])
            continue
        seen = [
            Seen(
                name="store",
                text=text,
                row=key,
                ours=values.of_hive(ours[key][number], target) if key in ours else "no row",
                theirs=values.of_hive(theirs[key][number], target) if key in theirs else "no row",
                kinds=(kind,),
                arguments=((values.of_hive(before[key][number], kind),),),
                our_kind=target,
                their_kind=target,
            )
            for key in sorted({*ours, *theirs})
        ]
        different = [one for one in seen if not values.same(one.ours, one.theirs)]
        named = [known.names_of(one) for one in different]
        outcome = Outcome.EQUAL
        if different:
            outcome = Outcome.KNOWN if all(named) else Outcome.DIFFERENT
        yield Done(
            written=written,
            outcome=outcome,
            told="; ".join(
                f"row {s.row}: {s.ours!r} here, {s.theirs!r} in Hive" for s in different
            ),
            names=tuple(dict.fromkeys(n[0] for n in named if n)),
            seen=tuple(different),
        )

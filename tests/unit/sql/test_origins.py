"""Source columns of queries; an origin must never be wrong, and may be unknown.

In the cases, `o.a` is a copied column, `~o.a` is part of an expression, `#o.a` is aggregated, and
`?o.a` is a condition. `-` is a constant, `!` is unknown, and a name of Spark's own is `_`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage

from airflow_hiveacid.jobs.statements import SOURCE_VIEW, Parameter, Value, ValueType
from airflow_hiveacid.sql.origins import Origins, Relation, Tracer, Use
from airflow_hiveacid.sql.script import read_script
from tests.support.cases import changes_of

_COLUMNS: Final = {
    "o": ["id", "price", "day", "customer", "items", "extra", "notes"],
    "c": ["id", "name", "Country"],
    "u": ["id", "name"],
    "days": ["day", "month", "current_date"],
    "s": ["s", "id"],
}
_VIEWS: Final = {
    **{name: Relation.of_table(name, columns) for name, columns in _COLUMNS.items()},
    "files": Relation(open_table="files"),
}
_SIGNS: Final = {
    Use.IDENTITY: "",
    Use.TRANSFORMATION: "~",
    Use.AGGREGATION: "#",
    Use.CONDITIONAL: "?",
}

_CASES: Final = changes_of(Path(__file__).parent / "cases" / "origins.txt")


def _said(origins: Origins) -> str:
    if origins is None:
        return "!"
    return ",".join(sorted(f"{_SIGNS[o.use]}{o.table}.{o.column}" for o in origins)) or "-"


def _traced(query: str) -> str | None:
    found = Tracer().query(query, _VIEWS)
    if found is None:
        return None
    return " ".join(f"{name or '_'}={_said(origins)}" for name, origins in found.columns)


@pytest.mark.parametrize(("query", "expected"), _CASES, ids=[query for query, _ in _CASES])
def test_each_column_of_a_query_is_traced_to_its_source_columns(
    query: str, expected: str | None
) -> None:
    assert _traced(query) == expected


def _of_sqlglot(query: str) -> dict[str, set[str]]:
    """The source columns that sqlglot's own lineage finds, which may be too many."""
    schema = {name: dict.fromkeys(columns, "unknown") for name, columns in _COLUMNS.items()}
    return {
        name: {leaf.name.lower() for leaf in node.walk() if not leaf.downstream}
        for name, node in lineage(None, query, schema, dialect="spark").items()
    }


# sqlglot has no such tables, names columns by their aliases, or loses columns.
_UNFIT: Final = ("files", "(a, b)", "FROM days", "percentile(", "time_diff(")


def test_sqlglots_own_lineage_contains_all_traced_source_columns() -> None:
    compared = 0
    for query, expected in _CASES:
        if expected is None or any(part in query for part in _UNFIT):
            continue
        try:
            theirs = _of_sqlglot(query)
        except SqlglotError:
            continue  # it cannot analyse the query
        found = Tracer().query(query, _VIEWS)
        for name, origins in () if found is None else found.by_name.items():
            # The leaves have the alias of their table.
            columns = {leaf.rpartition(".")[2].strip('"') for leaf in theirs.get(name, ())}
            assert {one.column for one in origins or ()} <= columns or not name, query
            compared += bool(origins and name)
    assert compared > 50


# ---- expressions ---------------------------------------------------------------------------------


def _value(expression: str, *sides: str) -> str:
    tables = {"t": _VIEWS["o"], "s": _VIEWS["c"]}
    found = Tracer().values({"x": expression}, {side: tables[side] for side in sides})
    return _said(found["x"])


@pytest.mark.parametrize(
    ("expression", "sides", "expected"),
    [
        ("s.`Name`", "ts", "c.name"),
        ("t.price + s.id", "ts", "~c.id,~o.price"),
        ("country", "ts", "c.country"),
        ("id", "ts", "!"),
        ("id", "t", "o.id"),
        ("s.name", "t", "!"),
        ("coalesce(s.name, 'x') || :day", "s", "~c.name"),
        ("NULL", "ts", "-"),
        ("(SELECT max(x) FROM v)", "ts", "!"),
        ("t.id AS x", "ts", "!"),
        ("t.id, t.day", "ts", "!"),
        ("t.id +", "ts", "!"),
    ],
)
def test_an_expression_is_traced_to_its_source_columns(
    expression: str, sides: str, expected: str
) -> None:
    assert _value(expression, *sides) == expected


# ---- limits --------------------------------------------------------------------------------------

_HUGE: Final = {
    "stars": "WITH q0 AS (SELECT * FROM u)"
    + "".join(f", q{n} AS (SELECT *, * FROM q{n - 1})" for n in range(1, 60))
    + " SELECT * FROM q59",
    "repeated stars": f"SELECT {'*, ' * 9_000}* FROM o",
    "sums": "WITH q0 AS (SELECT id AS x FROM u)"
    + "".join(
        f", q{n} AS (SELECT {' + '.join(['x'] * 99)} AS x FROM q{n - 1})" for n in range(1, 99)
    )
    + " SELECT x FROM q98",
    "nested": f"SELECT {'(' * 900}id{')' * 900} AS x FROM u",
    "long": f"SELECT id, '{'x' * 60_000}' AS x FROM u",
    "joins": "SELECT " + "1, " * 999 + "2 FROM " + ", ".join(f"o o{n}" for n in range(999)),
    "functions": f"SELECT {'f(' * 900}id{')' * 900} AS x FROM u",
    "cases": f"SELECT {'CASE WHEN 1 THEN ' * 400}id{' END' * 400} AS x FROM u",
    "queries": f"SELECT id FROM {'(SELECT id FROM ' * 400}u{')' * 400}",
    "types": f"SELECT cast(id AS {'array<' * 900}int{'>' * 900}) AS x FROM u",
    "unions": " UNION ALL ".join(["SELECT id FROM u"] * 1_500),
}


@pytest.mark.parametrize("query", _HUGE.values(), ids=_HUGE)
@pytest.mark.timeout(20)
def test_a_huge_query_is_not_traced(query: str) -> None:
    assert Tracer().query(query, _VIEWS) is None


def test_the_queries_of_a_task_share_one_tracing_limit() -> None:
    query = "SELECT id FROM u"
    tracer = Tracer(effort=3 * len(query))
    found = [tracer.query(query, _VIEWS) for _ in range(4)]
    assert [one is not None for one in found] == [True, True, False, False]
    assert tracer.values({"x": "t.id"}, {"t": _VIEWS["u"]}) == {"x": None}


# ---- SQL text ------------------------------------------------------------------------------------

_DAY: Final = Parameter(values=(Value(type=ValueType.DATE, text="2026-01-31"),))
_STATEMENTS: Final = [
    ("INSERT INTO db.t SELECT x.ID, upper(x.Name) FROM db.u x", "id=u.id _=~u.name"),
    ("INSERT INTO db.t SELECT * FROM db.u FOR VERSION AS OF 12", "id=u.id name=u.name"),
    ("INSERT INTO db.t SELECT a.id, b.name FROM db.u FOR VERSION AS OF 12 a JOIN db.c b",
     "id=u.id name=c.name"),
    ("INSERT INTO db.t SELECT id FROM db.u FOR TIMESTAMP AS OF '2026-01-31T00:00:00Z'", "id=u.id"),
    ("INSERT INTO db.t SELECT id, :day FROM db.o WHERE day = :day", "id=o.id _=-"),
    ("INSERT INTO db.t WITH q AS (SELECT id FROM db.o) SELECT q.id FROM q", "id=o.id"),
    ("INSERT INTO db.t SELECT i FROM db.o LATERAL VIEW explode(items) x AS i", "i=~o.items"),
    ("INSERT INTO db.t SELECT cast(price AS bigint) FROM db.o", "_=~o.price"),
    ("INSERT INTO db.t SELECT greatest(id, price) x, pmod(id, 8) FROM db.o",
     "x=~o.id,~o.price _=~o.id"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), _STATEMENTS)
def test_a_query_in_hives_dialect_is_traced_to_its_source_columns(text: str, expected: str) -> None:
    (statement,) = read_script(text, None, {"day": _DAY})
    source = statement.job.source
    tables = {SOURCE_VIEW: source.table} if source.table else source.tables
    views = {view: _VIEWS[name.removeprefix("db.")] for view, name in tables.items()}
    found = Tracer().query(source.query, views) if source.query else views[SOURCE_VIEW]
    assert found is not None
    assert " ".join(f"{n or '_'}={_said(o)}" for n, o in found.columns) == expected

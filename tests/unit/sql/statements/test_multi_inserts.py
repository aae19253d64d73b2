"""FROM ... INSERT ... INSERT ...: each INSERT is read like a single one; queries are shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.sql.script import read_script
from tests.support.cases import refusals_of

CASES = Path(__file__).parents[1] / "cases"


def multi(text: str, database: str | None = None) -> statements.MultiInsertSpec:
    (statement,) = read_script(text, database)
    assert isinstance(statement.job, statements.TransactionSpec)
    (found,) = statement.job.statements
    assert isinstance(found, statements.MultiInsertSpec)
    return found


def queries(text: str) -> list[str | None]:
    return [insert.source.query for insert in multi(text).inserts]


def inserted(target: str, query: str, tables: dict[str, str], **more: Any) -> statements.InsertSpec:  # noqa: ANN401
    source = statements.SourceSpec(query=query, tables=tables)
    return statements.InsertSpec(
        target=target, source=source, match=statements.ColumnMatch.POSITION, **more
    )


def test_each_insert_of_a_from_clause_is_read_like_a_single_insert() -> None:
    found = multi(
        "from s x JOIN other.r ON x.a = r.a"
        " INSERT INTO t PARTITION (d = 1, e) SELECT x.a, CASE WHEN r.b = 1 THEN 'from' END"
        " WHERE x.a > 1 GROUP BY x.a -- insert\n"
        " INSERT OVERWRITE TABLE t2 (p, q) SELECT DISTINCT a IS DISTINCT FROM b, c"
        " LATERAL VIEW explode(m) e AS k WHERE x.b IN (SELECT z.b FROM u z)"
        " INSERT INTO t SELECT *",
        "db",
    )
    from_ = "FROM `__hiveacid_1` x JOIN `__hiveacid_2` AS `r` ON x.a = r.a"
    two = {"__hiveacid_1": "db.s", "__hiveacid_2": "other.r"}
    three = {**two, "__hiveacid_3": "db.u"}
    assert found.inserts == (
        inserted(
            "db.t",
            f"SELECT x.a, CASE WHEN r.b = 1 THEN 'from' END {from_.replace('FROM', 'from')}"
            " WHERE x.a > 1 GROUP BY x.a",
            two,
            partition={"d": "1"},
            dynamic_partition=("e",),
        ),
        inserted(
            "db.t2",
            f"SELECT DISTINCT a IS DISTINCT FROM b, c {from_.replace('FROM', 'from')}"
            " LATERAL VIEW explode(m) e AS k WHERE x.b IN (SELECT z.b FROM `__hiveacid_3` z)",
            three,
            mode=statements.InsertMode.OVERWRITE,
            columns=("p", "q"),
        ),
        inserted("db.t", f"SELECT * {from_.replace('FROM', 'from')}", three),
    )
    assert (found.shared, found.tables) == ({}, three)


def test_a_from_clause_with_one_insert_is_read_as_a_single_insert() -> None:
    (statement,) = read_script("WITH q AS (SELECT 1 a) FROM q INSERT INTO db.t SELECT a")
    query = "WITH q AS (SELECT 1 a) SELECT a FROM q"
    assert statement.job == inserted("db.t", query, {})
    (statement,) = read_script("FROM db.s INSERT INTO db.t SELECT *")
    assert statement.job == statements.InsertSpec(
        target="db.t",
        source=statements.SourceSpec(table="db.s"),
        match=statements.ColumnMatch.POSITION,
    )


def test_queries_in_with_and_from_are_shared_by_all_inserts() -> None:
    found = multi(
        "WITH a(x, `y z`) AS (SELECT id, v FROM db.a), b AS (SELECT rand() r, x FROM a)"
        " FROM (SELECT q.* FROM b q WHERE q.r > rand()) y JOIN b ON y.x = b.x"
        " LEFT JOIN (SELECT max(v) m FROM db.a LIMIT 1) z ON z.m = y.x"
        " INSERT INTO db.t SELECT y.r INSERT INTO db.u SELECT b.r"
        " WHERE b.x IN (SELECT x FROM a) AND b.x NOT IN (SELECT w.id FROM db.w w)"
    )
    assert found.shared == {
        "__hiveacid_shared_1": "SELECT * FROM (SELECT id, v FROM `__hiveacid_1` AS `a`)"
        " AS q(`x`, `y z`)",
        "__hiveacid_shared_2": "SELECT rand() r, x FROM `__hiveacid_shared_1` AS `a`",
        "__hiveacid_shared_3": "SELECT q.* FROM `__hiveacid_shared_2` q WHERE q.r > rand()",
        "__hiveacid_shared_4": "SELECT max(v) m FROM `__hiveacid_1` AS `a` LIMIT 1",
    }
    from_ = (
        "FROM `__hiveacid_shared_3` y JOIN `__hiveacid_shared_2` AS `b` ON y.x = b.x"
        " LEFT JOIN `__hiveacid_shared_4` z ON z.m = y.x"
    )
    assert [one.source.query for one in found.inserts] == [
        f"SELECT y.r {from_}",
        (
            f"SELECT b.r {from_} WHERE b.x IN (SELECT x FROM `__hiveacid_shared_1` AS `a`)"
            " AND b.x NOT IN (SELECT w.id FROM `__hiveacid_2` w)"
        ),
    ]
    assert found.tables == {"__hiveacid_1": "db.a", "__hiveacid_2": "db.w"}


def test_a_name_refers_to_the_nearest_with_query() -> None:
    found = multi(
        "WITH c AS (SELECT 1 a) FROM (WITH c AS (SELECT 2 a) SELECT a FROM c) y"
        " CROSS JOIN (SELECT a AS b FROM c) z JOIN db.c ON c.a = y.a"
        " INSERT INTO db.t SELECT y.a INSERT INTO db.u SELECT z.b"
    )
    assert list(found.shared.values()) == [
        "SELECT 1 a",
        "WITH c AS (SELECT 2 a) SELECT a FROM c",
        "SELECT a AS b FROM `__hiveacid_shared_1` AS `c`",
    ]
    assert found.tables == {"__hiveacid_1": "db.c"}


def test_a_union_in_from_and_windows_in_inserts_are_read() -> None:
    assert queries(
        "FROM (SELECT a FROM db.s UNION ALL SELECT b FROM db.r) x"
        " INSERT INTO db.t SELECT a, row_number() OVER w WINDOW w AS"
        " (PARTITION BY a ORDER BY a NULLS LAST)"
        " INSERT INTO db.u SELECT count(*) HAVING count(*) > 1"
    ) == [
        (
            "SELECT a, row_number() OVER w FROM `__hiveacid_shared_1` x WINDOW w AS"
            " (PARTITION BY a ORDER BY a NULLS LAST)"
        ),
        "SELECT count(*) FROM `__hiveacid_shared_1` x HAVING count(*) > 1",
    ]


@pytest.mark.parametrize(
    ("text", "column", "message"), refusals_of(CASES / "refused_multi_inserts.txt")
)
def test_an_unsupported_multi_insert_is_refused_with_its_line_and_column(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read_script(text)
    assert message in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, column)

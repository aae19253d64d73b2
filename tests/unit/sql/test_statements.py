from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.statements import InsertSpec, MergeSpec
from airflow_hiveacid.sql.expressions import NameScope
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.sql.statements.update_delete import agreed
from airflow_hiveacid.sql.text import statements_of
from airflow_hiveacid.sql.text.names import NamedTable
from airflow_hiveacid.sql.text.nodes import check_table
from tests.support.cases import jobs_of, refusals_of

CASES = Path(__file__).parent / "cases"


def job(text: str, database: str | None = None) -> Job:
    (statement,) = read_script(text, database)
    return statement.job


@pytest.mark.parametrize(("text", "expected"), jobs_of(CASES / "jobs.txt"))
def test_a_statement_is_read_as_the_equivalent_job(text: str, expected: Job) -> None:
    assert job(text, "db") == expected


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t WHERE a = 1",
        "UPDATE t SET a = 1",
        "INSERT INTO t SELECT * FROM s",
        "INSERT INTO t SELECT a FROM s JOIN other.s x ON s.a = x.a",
        "WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c, d",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "LOAD DATA INPATH '/a' INTO TABLE t",
        "ALTER TABLE t COMPACT 'major'",
    ],
)
def test_a_table_without_a_database_is_refused_unless_a_default_database_is_given(
    text: str,
) -> None:
    with pytest.raises(SqlTextError, match="is not the name of a table"):
        job(text)
    found = job(text, "DB")
    assert found.target == "db.t"
    if isinstance(found, InsertSpec | MergeSpec):
        tables = found.source.tables or {"": found.source.table}
        assert {str(name).partition(".")[0] for name in tables.values()} <= {"db", "other"}
        assert "c" not in {str(name).partition(".")[2] for name in tables.values()}


def test_more_than_500_rows_are_refused_if_any_contains_an_expression() -> None:
    rows = "(1), " * 499
    assert isinstance(job(f"INSERT INTO db.t VALUES {rows}(1 + 1)"), InsertSpec)
    assert isinstance(job(f"INSERT INTO db.t VALUES {rows}(1), (2)"), InsertSpec)
    with pytest.raises(SqlTextError, match="put the rows into a table"):
        job(f"INSERT INTO db.t VALUES {rows}(1), (1 + 1)")


def test_a_negative_zero_is_read_as_zero() -> None:
    found = job("INSERT INTO db.t VALUES (-0.0, -0)")
    assert isinstance(found, InsertSpec)
    assert repr(found.source.values) == "((0, 0),)"


def test_a_part_that_parses_differently_within_its_statement_is_refused() -> None:
    names = NameScope(qualifiers={}, sides=frozenset("t"))
    (alone,), (other,) = statements_of("a = 1"), statements_of("a = 1 AND b = 2")
    tree = alone.parsed(exp.Condition)
    assert agreed(alone, tree, names) == "a = 1"
    for node in (other.parsed(exp.Condition), None):
        with pytest.raises(SqlTextError, match="not clear where this ends"):
            agreed(alone, node, names)


def test_a_table_that_the_parser_reads_as_a_different_table_is_refused() -> None:
    (span,) = statements_of("DELETE FROM db.t x")
    node = span.parsed().this
    check_table(span, node, NamedTable(ref=TableRef("db", "t"), alias="x"))
    for ref, alias in ((("db", "s"), "x"), (("d", "t"), "x"), (("db", "t"), None)):
        with pytest.raises(SqlTextError, match="not clear which table"):
            check_table(span, node, NamedTable(ref=TableRef(*ref), alias=alias))


def test_each_statement_has_its_number_line_and_column() -> None:
    found = read_script("DELETE FROM db.t;\n\n  ;  UPDATE db.t\nSET a = 1\n; -- end\n")
    assert [(s.number, s.line, s.column) for s in found] == [(1, 1, 1), (2, 3, 6)]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        *refusals_of(CASES / "refused_statements.txt"),
        *refusals_of(CASES / "refused_multi_inserts.txt"),
    ],
)
def test_an_unsupported_statement_is_refused_with_its_line_and_column(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read_script(text)
    assert message in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, column)

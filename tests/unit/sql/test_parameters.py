"""Parameter markers in Hive's dialect: they remain in the text, and are checked like literals."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.metastore_statements import DropPartitions
from airflow_hiveacid.jobs.statements import ValueType
from airflow_hiveacid.plan.statements.dml import sql_string
from airflow_hiveacid.plan.statements.parameters import read_parameters, stand_ins
from airflow_hiveacid.sql.script import read_script
from tests.support.cases import cases_of

CASES = Path(__file__).parent / "cases"
HOSTILE = "zz' OR '1'='1"


def job_of(text: str, **values: object) -> Any:  # noqa: ANN401 - of any kind
    (statement,) = read_script(text, "db", read_parameters(values))
    assert statement.parameters == set(values)
    return statement.job


def test_a_condition_keeps_its_markers_and_gets_their_values() -> None:
    job = job_of(
        "DELETE FROM t x WHERE x.date < :date AND x.id IN (:ids, 5) AND x.v LIKE :from",
        date=dt.date(2026, 1, 1), ids=[1, 2], **{"from": HOSTILE},
    )  # fmt: skip
    assert isinstance(job, statements.DeleteSpec)
    assert job.where == "t.date < :date AND t.id IN (:ids, 5) AND t.v LIKE :from"
    assert job.parameters["from"].said == f"string {HOSTILE!r}"
    assert set(job.parameters) == {"date", "ids", "from"}


def test_each_statement_of_a_script_gets_only_the_parameters_that_it_uses() -> None:
    given = read_parameters({"a": 1, "b": "x"})
    text = "UPDATE t SET v = :b WHERE id = :a; DELETE FROM t WHERE id = :a"
    first, second = read_script(text, "db", given)
    assert isinstance(first.job, statements.UpdateSpec)
    assert isinstance(second.job, statements.DeleteSpec)
    assert (set(first.job.parameters), set(second.job.parameters)) == ({"a", "b"}, {"a"})


def test_merge_create_as_and_multi_insert_accept_parameters() -> None:
    job = job_of(
        "MERGE INTO t USING (SELECT id, :x AS v FROM s WHERE d = :d) s ON t.id = s.id"
        " WHEN MATCHED AND t.v = :y THEN UPDATE SET v = concat(s.v, :z)"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, :z)",
        x=1, d=dt.date(2026, 1, 1), y=HOSTILE, z=None,
    )  # fmt: skip
    assert isinstance(job, statements.MergeSpec)
    assert set(job.source.parameters) == {"x", "d"}
    assert set(job.parameters) == {"y", "z"}
    made = job_of("CREATE TABLE n STORED AS ORC AS SELECT a FROM s WHERE a = :a", a=1)
    assert isinstance(made, statements.CreateAsSpec)
    assert set(made.source.parameters) == {"a"}
    several = job_of(
        "FROM (SELECT id FROM s WHERE id > :a) q INSERT INTO t SELECT id WHERE id = :b"
        " INSERT INTO u SELECT id, :c",
        a=1, b=2, c=3,
    )  # fmt: skip
    assert isinstance(several, statements.TransactionSpec)


def test_parameters_in_values_and_partitions_become_plain_values() -> None:
    job = job_of(
        "INSERT INTO t PARTITION (p = :p) VALUES (:a, :b, :c), (2, :b, NULL)",
        p=dt.date(2026, 1, 31), a=1, b=HOSTILE, c=Decimal("1.50"),
    )  # fmt: skip
    assert isinstance(job, statements.InsertSpec)
    assert job.source.values == ((1, HOSTILE, 1.5), (2, HOSTILE, None))
    assert job.partition == {"p": "2026-01-31"}
    job = job_of("TRUNCATE TABLE t PARTITION (p = :p)", p="x")
    assert job == statements.TruncateSpec(target="db.t", partition={"p": "x"})
    job = job_of("ALTER TABLE t DROP PARTITION (p = :p)", p=7)
    assert isinstance(job, DropPartitions)
    assert job.partitions == ((("p", "7"),),)


def test_rows_with_expressions_never_contain_a_parameter_value_in_the_sql_text() -> None:
    job = job_of("INSERT INTO t VALUES (:a, upper(:b)), (2, 'x')", a=HOSTILE, b=HOSTILE)
    assert isinstance(job, statements.InsertSpec)
    assert job.source.values is None
    assert "zz" not in (job.source.query or "")
    assert {one.said for one in job.source.parameters.values()} == {f"string {HOSTILE!r}"}


def test_in_rows_with_expressions_each_value_keeps_its_row_and_column() -> None:
    job = job_of(
        "INSERT INTO t VALUES (1, :a, upper('x')), (:b, 2, upper('y'))", a="first", b="second"
    )
    assert isinstance(job, statements.InsertSpec)
    assert written(job)[1] == (
        "SELECT '1', 'first', upper('x') UNION ALL SELECT 'second', '2', upper('y')"
    )


MOMENT = {"type": "timestamp with local time zone", "value": "2026-01-31T02:00:00Z"}


def written(job: statements.InsertSpec) -> tuple[object, ...]:
    """What a job gives, with its texts where their markers are."""
    query = job.source.query
    for name, one in job.source.parameters.items():
        (value,) = one.values
        text = "NULL" if value.type is ValueType.NULL else sql_string(value.text)
        query = re.sub(rf":{name}\b", lambda _, text=text: text, query or "")
    return (job.source.values, query, job.text_at, job.default_where, job.partition)


@pytest.mark.parametrize(("marked", "expected"), cases_of(CASES / "markers.txt"))
def test_a_marker_gives_the_same_insert_as_its_literal(marked: str, expected: str) -> None:
    literal, value = expected.splitlines()
    job = job_of(f"INSERT INTO t {marked}", x=json.loads(value))
    assert written(job) == written(job_of(f"INSERT INTO t {literal}"))


@pytest.mark.parametrize(("marked", "expected"), cases_of(CASES / "refused_markers.txt"))
def test_a_marker_in_an_insert_is_refused_with_the_same_error_as_its_literal(
    marked: str, expected: str
) -> None:
    literal, value = expected.splitlines()
    found = []
    for text, values in ((marked, {"x": json.loads(value)}), (literal, {})):
        with pytest.raises(SqlTextError) as refused:
            job_of(f"INSERT INTO t {text}", **values)
        found.append(refused.value.problem)
    assert found[0] == found[1]
    assert "in Hive" in found[0] or not marked.startswith("SELECT")


@pytest.mark.parametrize("given", [1.5, MOMENT])
def test_a_double_or_zoned_timestamp_is_passed_as_a_query_parameter(given: object) -> None:
    job = job_of("INSERT INTO t VALUES (:x, 1), (NULL, 2)", x=given)
    assert isinstance(job, statements.InsertSpec)
    assert job.source.query == "SELECT :x, '1' UNION ALL SELECT NULL, '2'"
    assert job.source.parameters == read_parameters({"x": given})
    assert job.text_at == (1,)
    with pytest.raises(SqlTextError, match="not a valid partition value; give a string"):
        job_of("TRUNCATE TABLE t PARTITION (p = :x)", x=given)


@pytest.mark.parametrize(
    "number", ["2L", "2S", "1.5e0", "1.5D", "1.50BD", "(.5)", "((2))", "-(-2)"]
)
def test_numbers_and_strings_in_one_column_of_values_are_refused(number: str) -> None:
    beside = "strings and numbers in one column become strings in Hive"
    with pytest.raises(SqlTextError, match=beside):
        job_of(f"INSERT INTO t VALUES ('007'), ({number}), (upper('a'))")
    with pytest.raises(SqlTextError, match=beside):
        job_of(f"INSERT INTO t VALUES ('007', 1), ({number}, 2)")
    alone = job_of(f"INSERT INTO t VALUES ('007', 1), (NULL, {number})")
    assert isinstance(alone, statements.InsertSpec)


def test_a_value_with_a_template_is_not_checked_before_it_is_rendered() -> None:
    given = stand_ins({"x": {"type": "int", "value": "{{ x }}"}, "y": "{{ y }}"})
    for text in (
        "VALUES ('a'), (:x), (upper('a'))",
        "VALUES (1.5), (DEFAULT), (:y)",
        "PARTITION (p = :x) VALUES (:y)",
    ):
        read_script(f"INSERT INTO t {text}", "db", given)


def test_field_names_in_a_struct_type_are_not_markers() -> None:
    text = "UPDATE t SET s = CAST(x AS struct<a :int,b:array<int>>) WHERE id = :id"
    job = job_of(text, id=1)
    assert isinstance(job, statements.UpdateSpec)
    assert set(job.parameters) == {"id"}


def test_colons_in_strings_comments_and_quoted_names_are_not_markers() -> None:
    job = job_of("DELETE FROM t WHERE v = ':a' -- :b\n AND `w:c` = :d", d=1)
    assert isinstance(job, statements.DeleteSpec)
    assert set(job.parameters) == {"d"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("DELETE FROM t WHERE id = :nope", r"column 26: there is no value for :nope"),
        ("TRUNCATE TABLE t PARTITION (p = :ids)", "a list is not a single value"),
        ("INSERT INTO t VALUES (:ids)", "a list is not a single value"),
        ("TRUNCATE TABLE t PARTITION (p = :none)", "NULL as a static partition"),
        ("DELETE FROM :ids WHERE true", "line 1"),
        ("DELETE FROM t WHERE id : nope = 1", "cannot be read at ':'"),
        (
            "DELETE FROM t WHERE reflect('a.B', 'c') = 'x'",
            "accesses Java or files, not only tables",
        ),
        (
            "DELETE FROM t WHERE `Java_Method`('a.B', 'c') = 'x'",
            "accesses Java or files, not only tables",
        ),
        (
            "INSERT INTO t SELECT input_file_name() FROM s",
            "accesses Java or files, not only tables",
        ),
        ("INSERT INTO t SELECT TRANSFORM(a) USING 'cat' AS (b) FROM s", "not supported"),
        ("DELETE FROM t WHERE v IN (SELECT value FROM text.`/etc/passwd`)", "line 1"),
    ],
)
def test_invalid_markers_and_unsafe_functions_are_refused(text: str, problem: str) -> None:
    with pytest.raises(SqlTextError, match=problem):
        read_script(text, "db", read_parameters({"ids": [1, 2], "none": None}))


def test_a_column_with_the_name_of_an_unsafe_function_is_not_a_call() -> None:
    job = job_of("DELETE FROM t WHERE reflect = upper('reflect')")
    assert isinstance(job, statements.DeleteSpec)
    assert job.where == "reflect = upper('reflect')"


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("d = :x", "NaN", "NaN equals itself"),
        ("p = :x", "__HIVE_DEFAULT_PARTITION__", "the partition of NULL"),
        ("p IN (:x)", ["a", "__HIVE_DEFAULT_PARTITION__"], "the partition of NULL"),
        ("s LIKE :x", r"\d", "in a LIKE pattern, a backslash that does not precede % or _"),
        ("substr(s, 1, :x) = 'a'", -1, r"substr\(\)"),
    ],
)
def test_a_parameter_value_is_refused_where_hive_and_spark_read_it_differently(
    text: str, value: object, problem: str
) -> None:
    with pytest.raises(SqlTextError, match=problem):
        job_of(f"DELETE FROM t WHERE {text}", x=value)


def test_a_parameter_value_that_hive_and_spark_read_alike_is_accepted() -> None:
    assert job_of("DELETE FROM t WHERE s LIKE :x", x=r"10\%").where == "s LIKE :x"
    assert job_of("DELETE FROM t WHERE substr(s, 1, :x) = 'a'", x=1) is not None

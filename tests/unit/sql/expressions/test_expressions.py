from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs.statements import MultiInsertSpec, TransactionSpec
from airflow_hiveacid.plan.statements.parameters import read_parameters, stand_ins
from airflow_hiveacid.sql.expressions import NameScope, expression
from airflow_hiveacid.sql.expressions.queries import parsed_query, source_of
from airflow_hiveacid.sql.statements.inserts import multi_insert_of
from airflow_hiveacid.sql.text import statements_of
from airflow_hiveacid.sql.text.bare_names import column_changes
from airflow_hiveacid.sql.text.views import Views
from tests.support.cases import cases_of, changes_of, refusals_of

CASES = Path(__file__).parents[1] / "cases"
ONE = NameScope(qualifiers={"c": "t", "db.c": "t"}, sides=frozenset("t"))
# The user calls the source as we call the target, and the reverse.
TWO = NameScope(qualifiers={"s": "t", "t": "s"}, sides=frozenset("ts"))


def read(text: str, names: NameScope = ONE) -> str:
    (span,) = statements_of(text)
    return expression(span, names)


@pytest.mark.parametrize("text", dict(cases_of(CASES / "kept_expressions.txt")))
def test_expressions_with_the_same_meaning_in_spark_are_kept_unchanged(text: str) -> None:
    assert read(text) == text.replace(" /* b */", "")


@pytest.mark.parametrize(("text", "written"), changes_of(CASES / "rewritten_expressions.txt"))
def test_expressions_with_a_different_result_in_spark_are_rewritten_to_hives_result(
    text: str, written: str | None
) -> None:
    expected = written or re.sub(r"\b([a-z_]+)\(", r"__hiveacid_\1(", text)
    assert read(text) == expected


def test_sqlglots_warning_about_an_unreadable_json_path_is_suppressed(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read("get_json_object(a, '$.') = 'x'") == "__hiveacid_get_json_object(a, '$.') = 'x'"
    assert (caplog.text, capsys.readouterr().err) == ("", "")


@pytest.mark.parametrize(("text", "written"), changes_of(CASES / "names_of_the_target.txt"))
def test_names_of_the_target_are_replaced_by_the_internal_alias(text: str, written: str) -> None:
    assert read(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP '2020-01-01 10:00:00.123456000' = a",
        "cast('2020-01-01 10:00:00.5' AS timestamp) = a",
        "a = '2020-01-01 10:00:00.1234560'",
        "a = concat('2020-01-01 10:00:00.123456', '7')",
        "concat('2020-01-01 10:00:00.1234567', a) = 'at 10:00:00.1234567'",
        "if(a, '2020-01-01 10:00:00.1234567', b) = c",
    ],
)
def test_timestamps_of_six_significant_digits_and_other_strings_are_accepted(text: str) -> None:
    assert read(text) == text


def test_swapped_aliases_of_target_and_source_are_replaced_simultaneously() -> None:
    assert read("t.a = s.t AND s.s = 't.a'", TWO) == "s.a = t.t AND t.s = 't.a'"


@pytest.mark.parametrize(
    ("text", "column", "problem"), refusals_of(CASES / "refused_expressions.txt")
)
def test_an_unsupported_expression_is_refused_with_its_line_and_column(
    text: str, column: int, problem: str
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read(text)
    assert problem in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "column"),
    [case[:2] for case in refusals_of(CASES / "mixed_operators.txt")],
)
def test_operators_with_a_different_precedence_in_spark_need_parentheses(
    text: str, column: int
) -> None:
    with pytest.raises(SqlTextError, match="parentheses") as raised:
        read(text)
    assert raised.value.column == column


@pytest.mark.parametrize(
    ("text", "column"),
    [case[:2] for case in refusals_of(CASES / "different_expressions.txt")],
)
def test_functions_and_constants_with_a_different_meaning_in_spark_are_refused(
    text: str, column: int
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read(text)
    assert raised.value.column == column
    assert raised.value.remedy


def test_an_ambiguous_column_in_backticks_needs_its_tables_alias() -> None:
    names = NameScope(qualifiers={"a": "t", "b": "s"}, sides=frozenset("ts"))
    with pytest.raises(SqlTextError, match="may be a column of either table"):
        read("`user` = b.y", names)
    assert read("a.`user` = b.session_user", names) == "t.`user` = s.session_user"


@pytest.mark.parametrize(("query", "written"), changes_of(CASES / "columns_in_backticks.txt"))
def test_a_column_in_backticks_gets_the_alias_of_its_table(query: str, written: str | None) -> None:
    (span,) = statements_of(query)
    tree = parsed_query(span)
    if written is None:
        with pytest.raises(SqlTextError, match="write the table's alias before it"):
            column_changes(span, tree)
    else:
        assert span.written(column_changes(span, tree)) == written


def test_columns_in_backticks_get_an_alias_in_single_and_multiple_inserts() -> None:
    (span,) = statements_of("SELECT `user` FROM db.s")
    assert source_of(span, Views(None)).query == "SELECT `s`.`user` FROM `__hiveacid_1` AS `s`"
    text = (
        "FROM (SELECT `user` FROM db.s) q INSERT INTO db.t SELECT `user` INSERT INTO db.u SELECT 1"
    )
    job = multi_insert_of(statements_of(text)[0], None)
    assert isinstance(job, TransactionSpec)
    (several,) = job.statements
    assert isinstance(several, MultiInsertSpec)
    assert list(several.shared.values()) == ["SELECT `s`.`user` FROM `__hiveacid_1` AS `s`"]
    assert several.inserts[0].source.query == "SELECT `q`.`user` FROM `__hiveacid_shared_1` q"


def test_a_parameter_for_a_length_or_base_is_checked_like_a_literal() -> None:
    def reads(text: str, value: object) -> str:
        (span,) = statements_of(text, read_parameters({"n": value}))
        return expression(span, NameScope(qualifiers={}, sides=frozenset("t")))

    assert reads("sha2(a, :n) = b", 512) == "sha2(a, :n) = b"
    assert reads("conv(a, :n, 10) = b", 36) == "conv(a, :n, 10) = b"
    for text, value in (
        ("sha2(a, :n) = b", 1),
        ("conv(a, 10, :n) = b", -1),
        ("sha2(a, :n) = b", "256"),
    ):
        with pytest.raises(SqlTextError, match="write"):
            reads(text, value)
    (span,) = statements_of("sha2(a, :n) = b", stand_ins({"n": "{{ n }}"}))
    assert expression(span, NameScope(qualifiers={}, sides=frozenset("t"))) == "sha2(a, :n) = b"


@pytest.mark.parametrize(("text", "value"), changes_of(CASES / "refused_values.txt"))
def test_a_marker_is_refused_wherever_its_literal_would_be(text: str, value: str) -> None:
    (span,) = statements_of(text, read_parameters({"x": json.loads(value)}))
    with pytest.raises(SqlTextError, match=r"in Hive|Hive 4\.0\.1") as refused:
        expression(span, ONE)
    assert refused.value.remedy


def test_a_marker_with_a_valid_length_or_a_template_is_accepted() -> None:
    for value, text in ((5, "substr(a, 1, :x - 3) = b"), ("{{ x }}", "substr(a, 1, (:x)) = b")):
        given = read_parameters({"x": value}) if value == 5 else stand_ins({"x": value})
        assert expression(statements_of(text, given)[0], ONE) == text


@pytest.mark.parametrize(
    "text", ["a || '1'", "concat(a, b)", "a", "(a + 1)", "CASE b WHEN 1 THEN a END"]
)
def test_a_cast_of_a_string_to_a_number_is_rewritten_to_raise_if_it_has_blanks(text: str) -> None:
    assert "raise_error('Hive tasks do not read a string with blanks" in read(
        f"cast({text} AS int) = b"
    )


@pytest.mark.parametrize("name", ["tinyint", "smallint", "int", "bigint", "`Int`"])
def test_a_type_function_such_as_int_is_rewritten_like_a_cast(name: str) -> None:
    type_ = name.strip("`").lower()
    as_cast = read(f"cast(c.a AS {type_}) = b")
    assert read(f"{name}(c.a) = b") == as_cast.replace("array(t.a )", "array(t.a)")


def test_an_ambiguous_struct_needs_its_tables_alias() -> None:
    names = NameScope(qualifiers={"a": "t", "b": "s"}, sides=frozenset("ts"))
    with pytest.raises(SqlTextError, match="may be a column of either table"):
        read("t.x = b.y", names)
    assert read("a.t.x = b.s.y", names) == "t.t.x = s.s.y"


def test_a_name_that_is_both_a_table_and_a_database_is_refused() -> None:
    names = NameScope(qualifiers={"c": "t", "c.c": "t"}, sides=frozenset("t"))
    with pytest.raises(SqlTextError, match="is both a table and a database"):
        read("c.c.x = 1", names)

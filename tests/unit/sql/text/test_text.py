from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.sql.text import statements_of
from tests.support.cases import changes_of

CASES = Path(__file__).parents[1] / "cases"


def refused(text: str) -> SqlTextError:
    with pytest.raises(SqlTextError) as raised:
        statements_of(text)
    return raised.value


@pytest.mark.parametrize(("text", "statements"), changes_of(CASES / "scripts.txt"))
def test_a_script_is_split_at_semicolons_and_its_comments_are_removed(
    text: str, statements: str
) -> None:
    assert [span.text for span in statements_of(text)] == json.loads(statements)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        *changes_of(CASES / "refused_texts.txt"),
        ("", "1 1 1 no statement"),
        (" ;\n; -- x", "1 1 1 no statement"),
        ("/* a /* b */ c; /* d */ */ e", "1 1 1 nested comment"),
        ("(" * 101 + ")" * 101, "1 1 101 nested too deeply"),
        ("a = '\x00'", "1 1 6 character is not allowed"),
        ("a = '\ud83d'", "1 1 6 character is not allowed"),
    ],
)
def test_invalid_or_ambiguous_sql_text_is_refused_with_its_statement_line_and_column(
    text: str, refusal: str
) -> None:
    error = refused(text)
    *place, problem = refusal.split(" ", 3)
    assert [error.statement, error.line, error.column] == list(map(int, place))
    assert problem in error.problem
    assert str(error) == (
        f"statement {error.statement}, line {error.line}, column {error.column}:"
        f" {error.problem}; {error.remedy}"
    )


def test_sql_text_of_more_than_a_million_characters_is_refused() -> None:
    assert "more than 1000000" in str(refused("a" * 1_000_001))


@pytest.mark.parametrize(
    ("text", "word", "parts"),
    [
        ("a, b(c, d), [e, f]", ",", ["a", "b(c, d)", "[e, f]"]),
        ("a AND b BETWEEN 1 AND 2 AND c", "AND", ["a", "b BETWEEN 1 AND 2", "c"]),
        ("a NOT BETWEEN 1 AND 2", "AND", ["a NOT BETWEEN 1 AND 2"]),
        ("CASE WHEN a AND b THEN c END AND d", "AND", ["CASE WHEN a AND b THEN c END", "d"]),
        ("(a AND b) AND c", "AND", ["(a AND b)", "c"]),
        ("a = 'x AND y' AND `b AND c`", "AND", ["a = 'x AND y'", "`b AND c`"]),
        ("a", ",", ["a"]),
    ],
)
def test_a_statement_is_split_only_outside_parentheses_strings_and_case_expressions(
    text: str, word: str, parts: list[str]
) -> None:
    (span,) = statements_of(text)
    assert [part.text for part in span.split(word)] == parts

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import Column, Constraints, TableInfo, TableRef
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec, UpdateSpec
from airflow_hiveacid.plan.statements.constraints import checks_of, value_or_default
from airflow_hiveacid.plan.statements.dml import columns_of_texts, resolve_insert, resolve_update


def table(default: str | None = None, check: str | None = None) -> TableInfo:
    return TableInfo(
        ref=TableRef("d", "t"),
        location="/d/t",
        columns=(
            Column(name="a", type="int"),
            Column(name="b", type="date"),
            Column(name="s", type="string"),
            Column(name="f", type="float"),
        ),
        partition_columns=(Column(name="p", type="int"),),
        constraints=Constraints(
            defaults={} if default is None else {"a": default, "s": default},
            checks={} if check is None else {"ck": check},
        ),
    )


@pytest.mark.parametrize(
    ("default", "of_int", "of_text"),
    [
        ("7", "7", "7"),
        ("-1.5", "- 1.5", "- 1.5"),
        ("'7'", "CAST('7' AS int)", "'7'"),
        (r"'it\'s\n'", r"CAST('it\'s\n' AS int)", r"'it\'s\n'"),
        ('"x y"', 'CAST("x y" AS int)', '"x y"'),
        ("NULL", "NULL", "NULL"),
        ("(TRUE)", "( TRUE )", "( TRUE )"),
        ("cast(7 as bigint)", "CAST(7 AS bigint)", "CAST(7 AS bigint)"),
        (
            "cast(cast('x' as string) as char(2))",
            "substr(CAST(CAST('x' AS string) AS string), 1, 2)",
            "substr(CAST(CAST('x' AS string) AS string), 1, 2)",
        ),
        (
            "cast(1.25 as decimal(5, 1))",
            "CAST(1.25 AS decimal ( 5 , 1 ))",
            "CAST(1.25 AS decimal ( 5 , 1 ))",
        ),
        ("cast('True' as boolean)", "CAST('True' AS boolean)", "CAST('True' AS boolean)"),
        ("cast(0 as BOOLEAN)", "CAST(0 AS BOOLEAN)", "CAST(0 AS BOOLEAN)"),
        ("cast(1.5 as string)", "CAST(1.5 AS string)", "CAST(1.5 AS string)"),
        ("DATE '2020-01-01'", "DATE '2020-01-01'", "DATE '2020-01-01'"),
        ("CURRENT_TIMESTAMP()", "CURRENT_TIMESTAMP ( )", "CURRENT_TIMESTAMP ( )"),
        ("current_date", "current_date", "current_date"),
    ],
)
def test_defaults_may_be_constants_casts_or_the_current_time(
    default: str, of_int: str, of_text: str
) -> None:
    found = table(default)
    assert value_or_default(found, "a", None) == of_int
    assert value_or_default(found, "s", "DEFAULT") == of_text
    assert value_or_default(found, "a", "1 + 1") == "1 + 1"
    assert value_or_default(found, "b", "DEFAULT") == "NULL"


@pytest.mark.parametrize(
    "default",
    [
        "upper('x')",
        "current_user()",
        "1 + 1",
        r"'a\%b'",
        r"'a\'",
        "'a''b'",
        "",
        "()",
        "cast(a as int)",
        "`a`",
        "1x",
        "now()",
        "-'x'",
        "date x",
        "TIMESTAMP'2020-01-01 10:00:00.000000001'",
        "cast('n' as boolean)",
        "cast(true as string)",
        "cast(1.50 as varchar(9))",
        "current_date(1)",
    ],
)
def test_an_unsupported_default_is_refused_only_where_a_column_needs_it(default: str) -> None:
    found = table(default)
    assert value_or_default(found, "a", "3") == "3"
    with pytest.raises(UnsupportedTableError, match="for column a, which only Hive can evaluate"):
        value_or_default(found, "a", None)


def test_columns_without_a_value_or_set_to_default_get_their_default() -> None:
    spec = InsertSpec(target="d.t", source=SourceSpec(), columns=("b", "a", "p"), default_at=(1,))
    assert resolve_insert(table("7"), spec, ["x", "y"]) == {
        "a": "7",
        "b": "`x`",
        "s": "7",
        "f": "NULL",
        "p": "`y`",
    }
    update = UpdateSpec(target="d.t", set={"A": "DEFAULT", "b": "DEFAULT", "s": "`DEFAULT`"})
    assert resolve_update(table("7"), update).assignments == {
        "a": "7",
        "b": "NULL",
        "s": "`DEFAULT`",
    }


@pytest.mark.parametrize(
    ("source", "more", "a", "s"),
    [
        (SourceSpec(values=((1,),)), {}, "CAST(7 AS string)", "CAST(7 AS string)"),
        (SourceSpec(tables={}, query="q"), {}, "7", "7"),
        (SourceSpec(tables={}, query="q"), {"text_at": (1,)}, "7", "CAST(7 AS string)"),
    ],
)
def test_marker_columns_of_the_source_select_the_rows_that_get_a_default(
    source: SourceSpec, more: dict[str, tuple[int, ...]], a: str, s: str
) -> None:
    spec = InsertSpec(
        target="d.t", source=source, columns=("a", "s", "f"), default_where=(0, 1), **more
    )
    found = resolve_insert(table("7"), spec, ["x", "y", "z", "in_a", "in_s"])
    assert found == {
        "a": f"CASE WHEN `in_a` = 'true' THEN {a} ELSE `x` END",
        "s": f"CASE WHEN `in_s` = 'true' THEN {s} ELSE `y` END",
        "f": "`z`",
        "b": "NULL",
        "p": "NULL",
    }


def test_values_static_partitions_and_marked_columns_are_cast_from_text() -> None:
    rows = SourceSpec(values=((1,),))
    query = SourceSpec(tables={}, query="q")
    names = table().column_names
    assert columns_of_texts(table(), InsertSpec(target="d.t", source=rows), ["a"]) == set(names)
    by = InsertSpec(target="d.t", source=query, columns=("f", "b"), partition={"P": "1"})
    assert columns_of_texts(table(), by, ["x", "y"]) == {"p"}
    assert columns_of_texts(table(), replace(by, text_at=(1,)), ["x", "y"]) == {"p", "b"}


@pytest.mark.parametrize(
    ("check", "text", "columns"),
    [
        ("a > 0", "`a` > 0", "a"),
        ("(A>0)and `S` in ('x', \"y\")", "( `a` > 0 ) AND `s` IN ( 'x' , \"y\" )", "as"),
        (
            "a + p * 2 <= -1 OR not (b is null)",
            "`a` + `p` * 2 <= - 1 OR NOT ( `b` IS NULL )",
            "apb",
        ),
        (
            "a BETWEEN -1 AND 2 AND s <> 'x'",
            "( `a` >= - 1 AND `a` <= 2 ) AND `s` <> 'x'",
            "as",
        ),
        (
            "s = 'AND' OR NOT (a + (p)) not between (a) AND (p * (2)) or p BETWEEN 1 AND 2",
            (
                "`s` = 'AND' OR NOT NOT ( ( `a` + ( `p` ) ) >= ( `a` ) AND ( `a` + ( `p` ) ) <="
                " ( `p` * ( 2 ) ) ) OR ( `p` >= 1 AND `p` <= 2 )"
            ),
            "asp",
        ),
        (
            "(a > 0 AND (a BETWEEN p AND 9)) and not a BETWEEN 3 AND 4",
            "( `a` > 0 AND ( ( `a` >= `p` AND `a` <= 9 ) ) ) AND NOT ( `a` >= 3 AND `a` <= 4 )",
            "ap",
        ),
        ("s not like 'x%' and b is not null", "`s` NOT LIKE 'x%' AND `b` IS NOT NULL", "sb"),
    ],
)
def test_a_check_may_compare_columns_and_constants(check: str, text: str, columns: str) -> None:
    (found,) = checks_of(table(check=check))
    assert (found.name, found.text, found.columns) == ("ck", text, frozenset(columns))


@pytest.mark.parametrize(
    "check",
    [
        "a + 1 IS NULL",
        "a = b = s",
        "a BETWEEN 1 AND 2 = p",
        "upper(s) = 'X'",
        "(a, p) IN (1)",
        "z > 1",
        "a > 0)",
        "(a > 0",
        "s RLIKE 'x'",
        r"s LIKE '\\%'",
        r"s = 'it\'s'",
        "a > 0; b",
        "a || s = 'x'",
        "",
        "f > 1.5",
        "a / 2 > 1",
        "a = 1 IS NULL",
        "t.a > 1",
    ],
)
def test_unsupported_checks_are_refused(check: str) -> None:
    with pytest.raises(UnsupportedTableError, match="ck CHECK"):
        checks_of(table(check=check))

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import Column, Constraints, TableInfo, TableRef
from airflow_hiveacid.jobs.specs import InsertSpec, SourceSpec, UpdateSpec
from airflow_hiveacid.plan.constraints import checks_of, value_or_default
from airflow_hiveacid.plan.statements import resolve_insert, resolve_update


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
        ('"x y"', 'CAST("x y" AS int)', '"x y"'),
        ("NULL", "NULL", "NULL"),
        ("(TRUE)", "( TRUE )", "( TRUE )"),
        ("cast(7 as bigint)", "cast ( 7 as bigint )", "cast ( 7 as bigint )"),
        (
            "cast(cast('x' as string) as char(2))",
            "cast ( cast ( 'x' as string ) as char ( 2 ) )",
            "cast ( cast ( 'x' as string ) as char ( 2 ) )",
        ),
        ("DATE '2020-01-01'", "DATE '2020-01-01'", "DATE '2020-01-01'"),
        ("CURRENT_TIMESTAMP()", "CURRENT_TIMESTAMP ( )", "CURRENT_TIMESTAMP ( )"),
        ("current_date", "current_date", "current_date"),
    ],
)
def test_a_default_is_a_constant_or_the_time(default: str, of_int: str, of_text: str) -> None:
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
        r"'a\'b'",
        "'a''b'",
        "",
        "()",
        "cast(a as int)",
        "`a`",
        "1x",
        "now()",
        "-'x'",
        "date x",
        "current_date(1)",
    ],
)
def test_another_default_is_refused_where_it_is_needed(default: str) -> None:
    found = table(default)
    assert value_or_default(found, "a", "3") == "3"
    with pytest.raises(UnsupportedTableError, match="for column a, which only Hive can evaluate"):
        value_or_default(found, "a", None)


def test_statements_put_defaults_where_they_give_no_value() -> None:
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
    ("check", "text", "columns"),
    [
        ("a > 0", "`a` > 0", "a"),
        ("(A>0)and `S` in ('x', \"y\")", "( `a` > 0 ) AND `s` IN ( 'x' , \"y\" )", "as"),
        (
            "a + p * 2 <= -1 OR not (b is null)",
            "`a` + `p` * 2 <= - 1 OR NOT ( `b` IS NULL )",
            "apb",
        ),
        ("a BETWEEN -1 AND 2 AND s <> 'x'", "`a` BETWEEN - 1 AND 2 AND `s` <> 'x'", "as"),
        ("s not like 'x%' and b is not null", "`s` NOT LIKE 'x%' AND `b` IS NOT NULL", "sb"),
    ],
)
def test_a_check_is_comparisons_of_columns_and_constants(
    check: str, text: str, columns: str
) -> None:
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
        "a > 0; b",
        "a || s = 'x'",
        "",
        "f > 1.5",
        "a / 2 > 1",
        "a = 1 IS NULL",
        "t.a > 1",
    ],
)
def test_another_check_is_refused(check: str) -> None:
    with pytest.raises(UnsupportedTableError, match="ck CHECK"):
        checks_of(table(check=check))

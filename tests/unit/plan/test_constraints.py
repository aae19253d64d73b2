from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import Column, Constraints, TableInfo, TableRef
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec, UpdateSpec
from airflow_hiveacid.plan.statements.constraints import checks_of, value_or_default
from airflow_hiveacid.plan.statements.dml import columns_of_texts, resolve_insert, resolve_update
from tests.support.cases import results_of


def cases(name: str) -> list[tuple[str, ...]]:
    return results_of(Path(__file__).parent / "cases" / f"{name}.txt")


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


@pytest.mark.parametrize(("default", "of_int", "of_text"), cases("defaults"))
def test_defaults_may_be_constants_casts_or_the_current_time(
    default: str, of_int: str, of_text: str
) -> None:
    found = table(default)
    assert value_or_default(found, "a", None) == of_int
    assert value_or_default(found, "s", "DEFAULT") == of_text
    assert value_or_default(found, "a", "1 + 1") == "1 + 1"
    assert value_or_default(found, "b", "DEFAULT") == "NULL"


@pytest.mark.parametrize("default", ["", *(text for (text,) in cases("unsupported_defaults"))])
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


@pytest.mark.parametrize(("check", "text", "columns"), cases("checks"))
def test_a_check_may_compare_columns_and_constants(check: str, text: str, columns: str) -> None:
    (found,) = checks_of(table(check=check))
    assert (found.name, found.text, found.columns) == ("ck", text, frozenset(columns))


@pytest.mark.parametrize("check", ["", *(text for (text,) in cases("unsupported_checks"))])
def test_unsupported_checks_are_refused(check: str) -> None:
    with pytest.raises(UnsupportedTableError, match="ck CHECK"):
        checks_of(table(check=check))

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format import types
from airflow_hiveacid.format.errors import InvalidNameError
from tests.support.cases import cases_of

_REFUSED = Path(__file__).parent / "cases" / "refused_types.txt"
INT, STRING = types.PrimitiveType("int"), types.PrimitiveType("string")


@pytest.mark.parametrize("name", sorted(types.PRIMITIVE_NAMES))
def test_primitive_types_are_parsed_and_formatted_unchanged(name: str) -> None:
    assert types.parse_type(name) == types.PrimitiveType(name)
    assert str(types.PrimitiveType(name)) == name


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("decimal(10,2)", types.DecimalType(10, 2)),
        ("char(3)", types.CharType(3)),
        ("varchar(65535)", types.VarcharType(65535)),
        ("array<int>", types.ArrayType(INT)),
        ("map<string,int>", types.MapType(STRING, INT)),
        ("struct<a:int,b:string>", types.StructType((("a", INT), ("b", STRING)))),
        ("uniontype<int,string>", types.UnionType((INT, STRING))),
        (
            "map<string,array<struct<x:decimal(38,18),y:map<int,char(2)>>>>",
            types.MapType(
                STRING,
                types.ArrayType(
                    types.StructType(
                        (
                            ("x", types.DecimalType(38, 18)),
                            ("y", types.MapType(INT, types.CharType(2))),
                        )
                    )
                ),
            ),
        ),
        (
            "struct<at:timestamp with local time zone>",
            types.StructType((("at", types.PrimitiveType("timestamp with local time zone")),)),
        ),
    ],
)
def test_types_with_parameters_are_parsed_and_formatted_unchanged(
    text: str, parsed: types.HiveType
) -> None:
    assert types.parse_type(text) == parsed
    assert str(parsed) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("INTEGER", "int"),
        ("Double  Precision", "double"),
        ("timestamplocaltz", "timestamp with local time zone"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("dec(5,1)", "decimal(5,1)"),
        (" Map < String , Array<INT> > ", "map<string,array<int>>"),
        ("struct< a : int , `b` : char( 2 ) >", "struct<a:int,b:char(2)>"),
        ("struct<Name:int>", "struct<Name:int>"),
    ],
)
def test_types_are_parsed_with_aliases_and_in_any_case_and_spacing(
    text: str, canonical: str
) -> None:
    assert str(types.parse_type(text)) == canonical


@pytest.mark.parametrize("text", ["", *dict(cases_of(_REFUSED))])
def test_invalid_column_types_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="Hive type"):
        types.parse_type(text)


def test_an_unknown_primitive_type_is_refused() -> None:
    with pytest.raises(InvalidNameError, match="primitive"):
        types.PrimitiveType("int32")


def test_a_union_type_without_options_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        types.UnionType(())

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedTableError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.acid import acid_schema, check_row_type, type_tree
from airflow_hiveacid.storage.values.column_types import arrow_type, row_type
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE
from tests.support.cases import tables_of

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="l", type="array<struct<x:int,m:map<string,char(3)>>>"),
    Column(name="t", type="timestamp"),
)


@pytest.mark.parametrize(("text", "expected"), tables_of(__file__)["arrow types"])
def test_every_hive_type_has_an_arrow_type(text: str, expected: str) -> None:
    assert str(arrow_type(parse_type(text))) == expected


def test_a_union_is_refused_at_any_depth() -> None:
    with pytest.raises(UnsupportedTableError, match="uniontype<int,string>"):
        acid_schema([Column(name="u", type="array<uniontype<int,string>>")])


def test_the_root_columns_are_those_of_hive() -> None:
    schema = acid_schema(COLUMNS)
    assert schema.names == [
        "operation",
        "originalTransaction",
        "bucket",
        "rowId",
        "currentTransaction",
        "row",
    ]
    assert schema.types[:5] == [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]
    assert [field.name for field in schema.field("row").type] == ["id", "l", "t"]


def test_column_ids_are_numbered_depth_first_from_seven() -> None:
    ids = {node.name: node.column_id for top in type_tree(COLUMNS) for node in top.walk()}
    assert ids == {
        "id": 7,
        "l": 8,
        "l.[]": 9,
        "l.[].x": 10,
        "l.[].m": 11,
        "l.[].m.[key]": 12,
        "l.[].m.[value]": 13,
        "t": 14,
    }


@pytest.mark.parametrize(
    "timestamp", [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), PAIR_TYPE]
)
def test_timestamps_may_have_any_exact_form(timestamp: pa.DataType) -> None:
    wanted = row_type(COLUMNS)
    check_row_type("db.t", COLUMNS, pa.struct([*list(wanted)[:2], ("t", timestamp)]))


def test_nullability_and_names_of_list_items_do_not_matter() -> None:
    columns = [Column(name="a", type="array<int>"), Column(name="b", type="struct<x:int>")]
    actual = pa.struct(
        [
            pa.field("a", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("b", pa.struct([pa.field("x", pa.int32(), nullable=False)])),
        ]
    )
    check_row_type("db.t", columns, actual)


@pytest.mark.parametrize(
    ("text", "actual"),
    [
        ("int", pa.int64()),
        ("timestamp", pa.timestamp("ns", tz="UTC")),
        ("timestamp with local time zone", pa.timestamp("ns")),
        ("decimal(10,2)", pa.decimal128(10, 3)),
        ("string", pa.large_string()),
        ("array<int>", pa.list_(pa.int64())),
        ("struct<x:int>", pa.struct([("y", pa.int32())])),
        ("map<string,int>", pa.map_(pa.string(), pa.string())),
    ],
)
def test_a_column_of_a_different_type_is_refused(text: str, actual: pa.DataType) -> None:
    with pytest.raises(TypeMismatchError, match=r"db\.t.*'c'"):
        check_row_type("db.t", [Column(name="c", type=text)], pa.struct([("c", actual)]))


def test_columns_in_a_different_order_are_refused() -> None:
    columns = [Column(name="a", type="int"), Column(name="b", type="int")]
    actual = pa.struct([("b", pa.int32()), ("a", pa.int32())])
    with pytest.raises(TypeMismatchError):
        check_row_type("db.t", columns, actual)

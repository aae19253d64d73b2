"""JSON of rows holds every value, as Hive prints it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.hive_text import json_lines
from airflow_hiveacid.storage.values.timestamps import TimestampForm

NAN, INF = float("nan"), float("inf")


def line_of(type_text: str, value: Any) -> str:  # noqa: ANN401
    hive_type = parse_type(type_text)
    array = pa.array([value], read_type(hive_type, TimestampForm.PAIR))
    (line,) = json_lines(pa.RecordBatch.from_arrays([array], names=["c"]), [hive_type])
    return line


@pytest.mark.parametrize(
    ("type_text", "value", "text"),
    [
        ("int", 7, "[7]"),
        ("bigint", -(1 << 63), "[-9223372036854775808]"),
        ("boolean", True, "[true]"),
        ("string", None, "[null]"),
        ("string", 'ä"\n\U0001f600', r'["\u00e4\"\n\ud83d\ude00"]'),
        ("char(3)", "a  ", '["a  "]'),
        ("varchar(3)", "a", '["a"]'),
        ("binary", b"\x00\xff", '["00ff"]'),
        ("binary", b"", '[""]'),
        ("float", 1.1, "[1.1]"),
        ("float", NAN, '["NaN"]'),
        ("double", 0.1, "[0.1]"),
        ("double", -INF, '["-Infinity"]'),
        ("double", INF, '["Infinity"]'),
        ("decimal(10,2)", Decimal("1.50"), '["1.5"]'),
        ("decimal(38,18)", Decimal("1E-18"), '["0.000000000000000001"]'),
        ("date", dt.date(1, 1, 1), '["0001-01-01"]'),
        ("timestamp", {"seconds": 0, "nanos": 120}, '["1970-01-01 00:00:00.00000012"]'),
        (
            "timestamp with local time zone",
            {"seconds": 0, "nanos": 0},
            '["1970-01-01 00:00:00.0 UTC"]',
        ),
        ("array<double>", [1.0, None, NAN], '[[1.0, null, "NaN"]]'),
        ("array<int>", [], "[[]]"),
        ("array<int>", None, "[null]"),
        ("map<string,int>", [("b", 1), ("a", None)], '[[["a", null], ["b", 1]]]'),
        ("map<int,binary>", [(10, b"\x01"), (2, None)], '[[[10, "01"], [2, null]]]'),
        ("struct<x:int,Y:date>", {"x": 1, "Y": None}, '[{"x": 1, "Y": null}]'),
        ("struct<x:int>", None, "[null]"),
        (
            "uniontype<int,string>",
            {"tag": 1, "value0": None, "value1": "x"},
            '[{"tag": 1, "value": "x"}]',
        ),
        ("uniontype<int,string>", None, "[null]"),
        (
            "array<struct<m:map<string,decimal(3,1)>>>",
            [{"m": [("k", Decimal("1.0"))]}, None],
            '[[{"m": [["k", "1"]]}, null]]',
        ),
    ],
)
def test_a_value_is_printed_as_hive_prints_it(type_text: str, value: object, text: str) -> None:
    assert line_of(type_text, value) == text
    json.loads(text)


def test_invalid_utf8_is_shown_as_replacement_characters() -> None:
    raw = pa.array([b"a\xffb", None]).cast(pa.binary())
    array = pa.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2], raw.buffers()[0])
    batch = pa.RecordBatch.from_arrays([array], names=["c"])
    assert list(json_lines(batch, [parse_type("string")])) == [r'["a\ufffdb"]', "[null]"]


def test_only_the_rows_of_a_sliced_batch_are_printed() -> None:
    types = [parse_type(t) for t in ("array<int>", "struct<x:int>", "map<string,int>", "date")]
    values = [
        [[0], {"x": 0}, [("k", 0)], dt.date(2020, 1, 1)],
        [[1, 1], {"x": 1}, [("k", 1)], dt.date(2020, 1, 2)],
        [[2], {"x": 2}, [("k", 2)], dt.date(2020, 1, 3)],
    ]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([row[i] for row in values], read_type(t, TimestampForm.PAIR))
            for i, t in enumerate(types)
        ],
        names=list("abcd"),
    )
    whole = list(json_lines(batch, types))
    assert list(json_lines(batch.slice(1, 2), types)) == whole[1:]
    assert list(json_lines(batch.slice(1, 1), types)) == whole[1:2]

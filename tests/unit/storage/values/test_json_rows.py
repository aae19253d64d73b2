"""JSON of rows holds every value, as Hive prints it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.values.hive_text import json_lines
from tests.support.cases import tables_of
from tests.support.writer_cases import array_of


@pytest.mark.parametrize(("type_text", "value", "printed"), tables_of(__file__)["printed"])
def test_a_value_is_printed_as_hive_prints_it(
    type_text: str, value: object, printed: object
) -> None:
    batch = pa.RecordBatch.from_arrays([array_of(type_text, [value])], names=["c"])
    assert list(json_lines(batch, [parse_type(type_text)])) == [json.dumps([printed])]


def test_invalid_utf8_is_shown_as_replacement_characters() -> None:
    raw = pa.array([b"a\xffb", None]).cast(pa.binary())
    array = pa.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2], raw.buffers()[0])
    batch = pa.RecordBatch.from_arrays([array], names=["c"])
    assert list(json_lines(batch, [parse_type("string")])) == [r'["a\ufffdb"]', "[null]"]


def test_only_the_rows_of_a_sliced_batch_are_printed() -> None:
    columns = {
        "array<int>": [[0], [1, 1], [2]],
        "struct<x:int>": [{"x": 0}, {"x": 1}, {"x": 2}],
        "map<string,int>": [[("k", 0)], [("k", 1)], [("k", 2)]],
        "date": ["2020-01-01", "2020-01-02", "2020-01-03"],
    }
    types = [parse_type(text) for text in columns]
    arrays = [array_of(text, values) for text, values in columns.items()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list("abcd"))
    whole = list(json_lines(batch, types))
    assert list(json_lines(batch.slice(1, 2), types)) == whole[1:]
    assert list(json_lines(batch.slice(1, 1), types)) == whole[1:2]

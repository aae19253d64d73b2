from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import type_tree
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.limits import FittedRows, fit_rows
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, seconds_and_nanos
from tests.support.writer_cases import NANOSECONDS, nanoseconds

LOST = nanoseconds("1969-12-31 23:59:59.001")
LAST_KEPT = nanoseconds("1969-12-31 23:59:59.000999999")
EARLY = nanoseconds("1950-01-01 00:00:00.5")


def fitted(text: str, values: pa.Array) -> FittedRows:
    nodes = type_tree([Column(name="c", type=text)])
    return fit_rows(pa.StructArray.from_arrays([values], names=["c"]), nodes, table="db.t")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_seconds_are_rounded_down_in_every_unit(unit: str) -> None:
    array = pa.array([-1, 0, None, 1], pa.timestamp(unit))
    seconds, nanos = seconds_and_nanos(array)
    step = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    assert (seconds * 10**9 + nanos).tolist() == [-step, 0, 0, step]
    assert (nanos >= 0).all()


def test_rows_that_need_no_change_are_not_copied() -> None:
    nodes = type_tree([Column(name="c", type="array<struct<x:char(2),t:timestamp>>")])
    rows = pa.StructArray.from_arrays(
        [
            pa.array(
                [[{"x": "ab", "t": 5}], None], row_type_of("array<struct<x:char(2),t:timestamp>>")
            )
        ],
        names=["c"],
    )
    found = fit_rows(rows, nodes, table="db.t")
    assert found.rows is rows
    assert not found.needs_rows
    assert not found.nul_column_ids


def row_type_of(text: str) -> pa.DataType:
    return row_type([Column(name="c", type=text)]).field(0).type


def test_early_fractional_timestamps_are_detected_at_every_depth() -> None:
    for text, value in (
        ("timestamp", EARLY),
        ("array<timestamp>", [EARLY]),
        ("map<string,timestamp>", [("k", EARLY)]),
        ("struct<s:struct<t:timestamp>>", {"s": {"t": EARLY}}),
    ):
        array = pa.array([None, value], row_type_of(text))
        assert fitted(text, array).needs_rows, text
        assert not fitted(text, array.slice(0, 1)).needs_rows, text


def test_in_the_last_second_before_1970_only_the_first_millisecond_is_accepted() -> None:
    assert fitted("timestamp", pa.array([LAST_KEPT], NANOSECONDS)).needs_rows
    for lost in (LOST, -1, LAST_KEPT + 1):
        with pytest.raises(TypeMismatchError, match=r"ORC cannot store.*; round it to a"):
            fitted("timestamp", pa.array([lost], NANOSECONDS))
    with pytest.raises(TypeMismatchError, match=r"23:59:59\.500000000"):
        fitted("timestamp", pa.array([{"seconds": -1, "nanos": 500_000_000}], PAIR_TYPE))


def test_values_hidden_by_null_are_not_checked() -> None:
    lost = pa.array([LOST, 5], NANOSECONDS)
    hidden = pa.StructArray.from_arrays([lost], names=["t"], mask=pa.array([True, False]))
    assert not fitted("struct<t:timestamp>", hidden).needs_rows
    long = pa.array(["too long", "ok"])
    hidden = pa.StructArray.from_arrays([long], names=["c"], mask=pa.array([True, False]))
    assert fitted("struct<c:varchar(2)>", hidden).rows.to_pylist() == [
        {"c": None},
        {"c": {"c": "ok"}},
    ]


def test_values_outside_a_slice_are_not_checked() -> None:
    lists = pa.array([[LOST], [5], [LOST]], pa.list_(NANOSECONDS))
    assert not fitted("array<timestamp>", lists.slice(1, 1)).needs_rows
    texts = pa.array(["a\0", "b", "c\0"])
    assert not fitted("string", texts.slice(1, 1)).nul_column_ids
    assert fitted("string", texts.slice(1, 2)).nul_column_ids == {7}


def test_an_empty_list_array_has_no_items_even_with_an_invalid_offset() -> None:
    columns = (Column(name="a", type="array<array<int>>"),)
    odd = pa.py_buffer((-7).to_bytes(4, "little", signed=True))
    numbers = pa.array([], pa.int32())
    inner = pa.ListArray.from_buffers(pa.list_(pa.int32()), 0, [None, odd], children=[numbers])
    outer = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), inner)
    rows = pa.StructArray.from_arrays([outer], names=["a"])
    fitted = fit_rows(rows, type_tree(columns), table="db.t")
    assert fitted.rows.to_pylist() == [{"a": []}, {"a": []}]


def test_timestamp_pairs_become_nanoseconds_if_all_values_fit() -> None:
    near = pa.array([{"seconds": -5, "nanos": 0}, None], PAIR_TYPE)
    found = fitted("timestamp", near)
    assert found.rows.field("c").type == NANOSECONDS
    assert not found.needs_rows
    far = pa.array([{"seconds": 253402300799, "nanos": 1}, None], PAIR_TYPE)
    found = fitted("timestamp", far)
    assert found.rows.field("c").type == PAIR_TYPE
    assert found.needs_rows


def test_chars_are_padded_to_their_length_in_characters_at_every_depth() -> None:
    array = pa.array([["é", None], None, ["ab "]], pa.list_(pa.string()))
    found = fitted("array<char(3)>", array).rows.field("c")
    assert found.to_pylist() == [["é  ", None], None, ["ab "]]
    keys = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))
    found = fitted("map<char(2),int>", keys).rows.field("c")
    assert found.to_pylist() == [[("a ", 1)], None]

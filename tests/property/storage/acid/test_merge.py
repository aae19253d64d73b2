"""Merging and subtracting agree with lists and sets, however the rows are cut into batches."""

from __future__ import annotations

import itertools
import unittest.mock
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, strategies as st

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.storage.acid import merge

NAMES = ["originalTransaction", "bucket", "rowId", "currentTransaction"]
TYPES = [pa.int64(), pa.int32(), pa.int64(), pa.int64()]
Row = tuple[int, int, int, int]

ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([536870912, 536870913]),
        st.integers(0, 4),
        st.integers(0, 5),
    ),
    max_size=25,
).map(lambda rows: sorted(rows, key=lambda r: r[:3]))
CUTS = st.lists(st.integers(0, 25), max_size=6)


def stream(rows: list[Row], cuts: list[int]) -> Iterator[pa.RecordBatch]:
    borders = [0, *sorted(cuts), len(rows)]
    for start, stop in itertools.pairwise(borders):
        columns = list(zip(*rows[start:stop], strict=True)) or [()] * 4
        arrays = [pa.array(c, t) for c, t in zip(columns, TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=NAMES)


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    return [row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def check_merged(merged: list[Row], inputs: list[tuple[list[Row], list[int]]]) -> None:
    assert [r[:3] for r in merged] == sorted(r[:3] for r in merged)
    assert sorted(merged) == sorted(r for rows, _ in inputs for r in rows)


@given(st.lists(st.tuples(ROWS, CUTS), max_size=5))
def test_merged_streams_contain_every_row_in_order(
    inputs: list[tuple[list[Row], list[int]]],
) -> None:
    check_merged(rows_of(merge.merge_sorted([stream(rows, cuts) for rows, cuts in inputs])), inputs)


@given(st.lists(st.tuples(ROWS, CUTS), max_size=5))
def test_lower_bounds_of_streams_do_not_change_the_merged_rows(
    inputs: list[tuple[list[Row], list[int]]],
) -> None:
    bounds = [min((r[:3] for r in rows), default=(9, 0, 0)) for rows, _ in inputs]
    check_merged(rows_of(merge.merge_sorted([stream(*one) for one in inputs], bounds)), inputs)


@given(st.lists(st.tuples(ROWS, CUTS), max_size=9), st.integers(1, 6), st.integers(2, 4))
def test_the_numbers_of_open_streams_and_buffered_rows_do_not_change_the_merged_rows(
    inputs: list[tuple[list[Row], list[int]]], short: int, at_once: int
) -> None:
    bounds = [min((r[:3] for r in rows), default=(0, 0, 0)) for rows, _ in inputs]
    with (
        unittest.mock.patch.object(merge, "_SHORT_ROWS", short),
        unittest.mock.patch.object(merge, "_MOST_AT_ONCE", at_once),
    ):
        merged = rows_of(merge.merge_sorted([stream(*one) for one in inputs], bounds))
    check_merged(merged, inputs)


@given(ROWS, CUTS, ROWS, CUTS)
def test_subtracting_deletes_is_a_set_difference_by_row_id(
    inserts: list[Row], cuts: list[int], deletes: list[Row], other_cuts: list[int]
) -> None:
    kept = rows_of(merge.subtract_deletes(stream(inserts, cuts), stream(deletes, other_cuts)))
    gone = {r[:3] for r in deletes}
    assert kept == [r for r in inserts if r[:3] not in gone]


@given(ROWS, CUTS)
def test_unique_deletes_are_the_oldest_delete_events_of_each_row_id(
    deletes: list[Row], cuts: list[int]
) -> None:
    oldest: dict[tuple[int, ...], int] = {}
    for *identity, current in deletes:
        key = tuple(identity)
        oldest[key] = min(current, oldest.get(key, current))
    unique = rows_of(merge.unique_deletes(stream(deletes, cuts)))
    assert unique == [(*key, current) for key, current in sorted(oldest.items())]


@given(ROWS, CUTS, st.integers(0, 6), st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_visible_events_are_exactly_the_rows_with_a_visible_write_id(
    rows: list[Row], cuts: list[int], high: int, opened: set[int], aborted: set[int]
) -> None:
    write_ids = ValidWriteIdList.parse(
        f"db.t:{high}:{min(opened, default=9223372036854775807)}:"
        f"{','.join(map(str, opened))}:{','.join(map(str, aborted - opened))}"
    )
    seen = rows_of(merge.visible_events(stream(rows, cuts), write_ids))
    assert seen == [r for r in rows if write_ids.is_visible(r[3])]

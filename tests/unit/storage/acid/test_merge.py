"""Merging, subtracting and hiding events of sorted streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.storage.acid import merge
from airflow_hiveacid.storage.acid.merge import (
    exceptions,
    merge_sorted,
    subtract_deletes,
    unique_deletes,
    visible_events,
    visible_mask,
)
from tests.unit.storage.orc_tables import B0, B1, ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

NAMES = ["originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
TYPES = [pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.struct([("v", pa.string())])]
Row = tuple[int, int, int, int, Any]


def row(original: int, number: int, bucket: int = B0, current: int = 0, v: str = "") -> Row:
    return (original, bucket, number, current or original, {"v": v})


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t) for c, t in zip(columns, TYPES, strict=True)], names=NAMES
    )


def stream(*batches: list[Row]) -> Iterator[pa.RecordBatch]:
    return iter([batch(rows) for rows in batches])


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [
        tuple(values)
        for one in batches
        for values in zip(*(column.to_pylist() for column in one.columns), strict=True)
    ]


def test_streams_that_interleave_come_out_sorted() -> None:
    odd = stream([row(1, 1), row(1, 3)], [], [row(1, 5), row(2, 1)])
    even = stream([row(1, 0), row(1, 2), row(1, 4)], [row(1, 6, B1), row(3, 0)])
    merged = rows_of(merge_sorted([odd, even]))
    assert [r[:3] for r in merged] == sorted(r[:3] for r in merged)
    assert len(merged) == 9


def test_columns_travel_with_their_rows_whatever_their_type() -> None:
    first = stream([row(1, 0, v="a"), row(1, 2, v="c")])
    second = stream([row(1, 1, v="b"), row(1, 3, v="d")])
    assert [r[4]["v"] for r in rows_of(merge_sorted([first, second]))] == ["a", "b", "c", "d"]


def test_equal_rows_all_come_through() -> None:
    streams = [stream([row(1, 0, v=str(i))], [row(1, 0, v=str(i)), row(1, 1)]) for i in range(3)]
    merged = rows_of(merge_sorted(streams))
    assert sorted(r[4]["v"] for r in merged if r[2] == 0) == ["0", "0", "1", "1", "2", "2"]
    assert [r[2] for r in merged] == [0] * 6 + [1] * 3


def test_no_streams_and_empty_streams_merge_to_nothing() -> None:
    assert rows_of(merge_sorted([])) == []
    assert rows_of(merge_sorted([stream(), stream([], [])])) == []


def test_a_stretch_of_one_stream_passes_through_untouched() -> None:
    alone = batch([row(1, 0), row(1, 1)])
    merged = list(merge_sorted([iter([alone]), stream([row(2, 0)])]))
    assert (
        merged[0].column("rowId").buffers()[1].address == alone.column("rowId").buffers()[1].address
    )


def test_a_stream_is_not_opened_before_the_merge_comes_to_its_lower_bound() -> None:
    opened: list[str] = []

    def lazily(name: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        opened.append(name)
        yield batch(rows)

    merged = merge_sorted(
        [lazily("late", [row(7, 0)]), lazily("early", [row(1, 0)]), lazily("middle", [row(3, 0)])],
        [(5, 0, 0), (0, 0, 0), (2, 0, 0)],
    )
    seen = [(rows_of([one])[0][0], list(opened)) for one in merged]
    assert seen == [
        (1, ["early"]),
        (3, ["early", "middle"]),
        (7, ["early", "middle", "late"]),
    ]


def test_streams_whose_ranges_overlap_are_opened_in_time() -> None:
    merged = merge_sorted(
        [stream([row(1, 0), row(5, 0)]), stream([row(3, 0)])], [(0, 0, 0), (3, 0, 0)]
    )
    assert [r[0] for r in rows_of(merged)] == [1, 3, 5]


def test_a_thousand_short_streams_are_sorted_once_not_step_by_step() -> None:
    streams = [stream([row(1, i + 1000 * j) for j in range(3)]) for i in range(1000)]
    merged = list(merge_sorted(streams))
    assert [r[2] for r in rows_of(merged)] == list(range(3000))
    assert len(merged) < 50


def test_many_long_streams_are_merged_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_SHORT_ROWS", 2)
    monkeypatch.setattr(merge, "_MOST_AT_ONCE", 8)
    widths: list[int] = []
    together = merge._sorted_together

    def watched(parts: list[Any]) -> Any:  # noqa: ANN401
        widths.append(len(parts))
        return together(parts)

    monkeypatch.setattr(merge, "_sorted_together", watched)
    streams = [stream(*[[row(1, i + 100 * j)] * 2 for j in range(4)]) for i in range(100)]
    merged = [r[2] for r in rows_of(merge_sorted(streams))]
    assert merged == sorted([i + 100 * j for i in range(100) for j in range(4)] * 2)
    assert max(widths) <= 8


def test_a_short_stream_does_not_wait_for_one_that_begins_later() -> None:
    opened: list[str] = []

    def lazily(name: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        opened.append(name)
        yield batch(rows)

    merged = merge_sorted(
        [lazily("first", [row(1, 0), row(3, 0)]), lazily("second", [row(3, 1)])],
        [(1, 0, 0), (3, B0, 1)],
    )
    assert [r[0] for r in rows_of([next(merged)])] == [1, 3]
    assert opened == ["first"]
    assert [r[2] for r in rows_of(merged)] == [1]


# ---- deletes -------------------------------------------------------------------------------------


def test_a_delete_event_removes_exactly_its_row() -> None:
    inserts = stream([row(1, 0), row(1, 1), row(1, 1, B1)], [row(2, 1), row(2, 2)])
    deletes = stream([row(0, 1), row(1, 1)], [row(1, 2), row(2, 2), row(9, 9)])
    kept = rows_of(subtract_deletes(inserts, deletes))
    assert [r[:3] for r in kept] == [(1, B0, 0), (1, B1, 1), (2, B0, 1)]


def test_delete_events_in_one_batch_reach_rows_in_many() -> None:
    inserts = stream(*[[row(1, i)] for i in range(6)])
    deletes = stream([row(1, i) for i in (0, 2, 5)])
    assert [r[2] for r in rows_of(subtract_deletes(inserts, deletes))] == [1, 3, 4]


def test_delete_events_in_many_batches_reach_rows_in_one() -> None:
    inserts = stream([row(1, i) for i in range(6)])
    deletes = stream(*[[row(1, i)] for i in (0, 2, 5, 7)])
    assert [r[2] for r in rows_of(subtract_deletes(inserts, deletes))] == [1, 3, 4]


def test_every_row_of_an_identity_goes_even_across_batches() -> None:
    inserts = stream([row(1, 0), row(1, 1)], [row(1, 1), row(1, 2)])
    assert [r[2] for r in rows_of(subtract_deletes(inserts, stream([row(1, 1)])))] == [0, 2]


def test_nothing_to_delete_leaves_batches_as_they_are() -> None:
    alone = batch([row(1, 0)])
    (kept,) = subtract_deletes(iter([alone]), stream())
    assert kept is alone


def test_one_delete_event_is_kept_of_each_row_and_it_is_the_oldest() -> None:
    deletes = stream(
        [row(1, 0, current=9), row(1, 0, current=5), row(1, 1, current=6)],
        [row(1, 1, current=4)],
        [row(1, 1, current=8), row(1, 2, current=7)],
    )
    unique = rows_of(unique_deletes(deletes))
    assert [(r[2], r[3]) for r in unique] == [(0, 5), (1, 4), (2, 7)]


# ---- visibility ----------------------------------------------------------------------------------


def test_events_are_visible_by_their_own_write_id_not_that_of_their_row() -> None:
    events = [row(1, i, current=c) for i, c in enumerate((1, 2, 3, 4, 5, 6))]
    seen = rows_of(visible_events(stream(events[:3], events[3:]), ids(5, opened="3", aborted="2")))
    assert [r[3] for r in seen] == [1, 4, 5]


def test_a_batch_that_is_visible_throughout_stays_as_it_is() -> None:
    alone = batch([row(1, 0)])
    (seen,) = visible_events(iter([alone]), ids(1))
    assert seen is alone
    assert list(visible_events(iter([alone]), ids(0))) == []


def test_whether_a_write_is_visible_does_not_depend_on_the_others_asked_about() -> None:
    lists = ids(90, opened="7,50", aborted=",".join(map(str, range(10, 40, 3))))
    numbers = np.arange(100)
    expected = [lists.is_visible(WriteId(number)) for number in range(100)]
    assert visible_mask(numbers, lists).tolist() == expected
    for start, stop in ((0, 0), (8, 9), (8, 10), (41, 49), (60, 100), (0, 11)):
        assert visible_mask(numbers[start:stop], lists).tolist() == expected[start:stop]
    backwards = visible_mask(numbers[::-1], lists)
    assert backwards.tolist() == expected[::-1]


def test_a_million_aborted_writes_are_counted_out_once_for_all_batches() -> None:
    lists = ids(9, aborted="3,5")
    assert exceptions(lists).tolist() == [3, 5]
    assert exceptions(lists) is exceptions(lists)
    # Not by how the list looks, which would take as long.
    assert exceptions(ids(9, aborted="3,5")) is not exceptions(lists)
    assert exceptions(ids(9, opened="4", aborted="3,5")).tolist() == [3, 4, 5]

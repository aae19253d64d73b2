"""Merging, subtracting and hiding events of sorted streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.storage.acid import merge
from tests.unit.storage.orc_tables import B0, B1, ids

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


def lazily(opened: list[str], name: str, *rows: Row) -> Iterator[pa.RecordBatch]:
    """A stream that notes when it is opened."""
    opened.append(name)
    yield batch([*rows])


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return [
        tuple(values)
        for one in batches
        for values in zip(*(column.to_pylist() for column in one.columns), strict=True)
    ]


def test_interleaved_streams_are_merged_in_order() -> None:
    odd = stream([row(1, 1), row(1, 3)], [], [row(1, 5), row(2, 1)])
    even = stream([row(1, 0), row(1, 2), row(1, 4)], [row(1, 6, B1), row(3, 0)])
    merged = rows_of(merge.merge_sorted([odd, even]))
    assert [r[:3] for r in merged] == sorted(r[:3] for r in merged)
    assert len(merged) == 9


def test_a_merge_keeps_the_columns_of_each_row_together() -> None:
    first = stream([row(1, 0, v="a"), row(1, 2, v="c")])
    second = stream([row(1, 1, v="b"), row(1, 3, v="d")])
    assert [r[4]["v"] for r in rows_of(merge.merge_sorted([first, second]))] == ["a", "b", "c", "d"]


def test_a_merge_keeps_all_equal_rows() -> None:
    streams = [stream([row(1, 0, v=str(i))], [row(1, 0, v=str(i)), row(1, 1)]) for i in range(3)]
    merged = rows_of(merge.merge_sorted(streams))
    assert sorted(r[4]["v"] for r in merged if r[2] == 0) == ["0", "0", "1", "1", "2", "2"]
    assert [r[2] for r in merged] == [0] * 6 + [1] * 3


def test_no_streams_and_empty_streams_merge_to_nothing() -> None:
    assert rows_of(merge.merge_sorted([])) == []
    assert rows_of(merge.merge_sorted([stream(), stream([], [])])) == []


def test_a_run_of_rows_from_one_stream_is_not_copied() -> None:
    alone = batch([row(1, 0), row(1, 1)])
    merged = list(merge.merge_sorted([iter([alone]), stream([row(2, 0)])]))
    assert (
        merged[0].column("rowId").buffers()[1].address == alone.column("rowId").buffers()[1].address
    )


def test_a_stream_is_opened_only_when_the_merge_reaches_its_lower_bound() -> None:
    opened: list[str] = []
    starts = {"late": 7, "early": 1, "middle": 3}
    streams = [lazily(opened, name, row(start, 0)) for name, start in starts.items()]
    merged = merge.merge_sorted(streams, [(5, 0, 0), (0, 0, 0), (2, 0, 0)])
    seen = [(rows_of([one])[0][0], list(opened)) for one in merged]
    assert seen == [
        (1, ["early"]),
        (3, ["early", "middle"]),
        (7, ["early", "middle", "late"]),
    ]


def test_streams_with_overlapping_ranges_are_merged_in_order() -> None:
    merged = merge.merge_sorted(
        [stream([row(1, 0), row(5, 0)]), stream([row(3, 0)])], [(0, 0, 0), (3, 0, 0)]
    )
    assert [r[0] for r in rows_of(merged)] == [1, 3, 5]


def test_a_thousand_short_streams_are_merged_into_a_few_large_batches() -> None:
    streams = [stream([row(1, i + 1000 * j) for j in range(3)]) for i in range(1000)]
    merged = list(merge.merge_sorted(streams))
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
    merged = [r[2] for r in rows_of(merge.merge_sorted(streams))]
    assert merged == sorted([i + 100 * j for i in range(100) for j in range(4)] * 2)
    assert max(widths) <= 8


def test_a_merge_returns_rows_of_a_stream_before_it_opens_a_later_stream() -> None:
    opened: list[str] = []
    first, second = (
        lazily(opened, "first", row(1, 0), row(3, 0)),
        lazily(opened, "second", row(3, 1)),
    )
    merged = merge.merge_sorted([first, second], [(1, 0, 0), (3, B0, 1)])
    assert [r[0] for r in rows_of([next(merged)])] == [1, 3]
    assert opened == ["first"]
    assert [r[2] for r in rows_of(merged)] == [1]


# ---- deletes -------------------------------------------------------------------------------------


def test_a_delete_event_removes_exactly_its_row() -> None:
    inserts = stream([row(1, 0), row(1, 1), row(1, 1, B1)], [row(2, 1), row(2, 2)])
    deletes = stream([row(0, 1), row(1, 1)], [row(1, 2), row(2, 2), row(9, 9)])
    kept = rows_of(merge.subtract_deletes(inserts, deletes))
    assert [r[:3] for r in kept] == [(1, B0, 0), (1, B1, 1), (2, B0, 1)]


def test_one_batch_of_delete_events_removes_rows_from_many_batches() -> None:
    inserts = stream(*[[row(1, i)] for i in range(6)])
    deletes = stream([row(1, i) for i in (0, 2, 5)])
    assert [r[2] for r in rows_of(merge.subtract_deletes(inserts, deletes))] == [1, 3, 4]


def test_many_batches_of_delete_events_remove_rows_from_one_batch() -> None:
    inserts = stream([row(1, i) for i in range(6)])
    deletes = stream(*[[row(1, i)] for i in (0, 2, 5, 7)])
    assert [r[2] for r in rows_of(merge.subtract_deletes(inserts, deletes))] == [1, 3, 4]


def test_a_delete_event_removes_every_row_of_its_identity_across_batches() -> None:
    inserts = stream([row(1, 0), row(1, 1)], [row(1, 1), row(1, 2)])
    assert [r[2] for r in rows_of(merge.subtract_deletes(inserts, stream([row(1, 1)])))] == [0, 2]


def test_batches_without_deleted_rows_are_not_copied() -> None:
    alone = batch([row(1, 0)])
    (kept,) = merge.subtract_deletes(iter([alone]), stream())
    assert kept is alone


def test_only_the_oldest_delete_event_of_each_row_is_kept() -> None:
    deletes = stream(
        [row(1, 0, current=9), row(1, 0, current=5), row(1, 1, current=6)],
        [row(1, 1, current=4)],
        [row(1, 1, current=8), row(1, 2, current=7)],
    )
    unique = rows_of(merge.unique_deletes(deletes))
    assert [(r[2], r[3]) for r in unique] == [(0, 5), (1, 4), (2, 7)]


# ---- visibility ----------------------------------------------------------------------------------


def test_visibility_depends_on_the_current_write_id_and_not_on_the_original_one() -> None:
    events = [row(1, i, current=c) for i, c in enumerate((1, 2, 3, 4, 5, 6))]
    seen = rows_of(
        merge.visible_events(stream(events[:3], events[3:]), ids(5, opened="3", aborted="2"))
    )
    assert [r[3] for r in seen] == [1, 4, 5]


def test_a_completely_visible_batch_is_not_copied() -> None:
    alone = batch([row(1, 0)])
    (seen,) = merge.visible_events(iter([alone]), ids(1))
    assert seen is alone
    assert list(merge.visible_events(iter([alone]), ids(0))) == []


def test_the_visibility_of_a_write_does_not_depend_on_other_writes_in_the_same_batch() -> None:
    lists = ids(90, opened="7,50", aborted=",".join(map(str, range(10, 40, 3))))
    numbers = np.arange(100)
    expected = [lists.is_visible(WriteId(number)) for number in range(100)]
    assert merge.visible_mask(numbers, lists).tolist() == expected
    for start, stop in ((0, 0), (8, 9), (8, 10), (41, 49), (60, 100), (0, 11)):
        assert merge.visible_mask(numbers[start:stop], lists).tolist() == expected[start:stop]
    backwards = merge.visible_mask(numbers[::-1], lists)
    assert backwards.tolist() == expected[::-1]


def test_the_exceptions_of_a_write_id_list_are_computed_once_per_list() -> None:
    lists = ids(9, aborted="3,5")
    assert merge.exceptions(lists).tolist() == [3, 5]
    assert merge.exceptions(lists) is merge.exceptions(lists)
    # Not by how the list looks, which would take as long.
    assert merge.exceptions(ids(9, aborted="3,5")) is not merge.exceptions(lists)
    assert merge.exceptions(ids(9, opened="4", aborted="3,5")).tolist() == [3, 4, 5]

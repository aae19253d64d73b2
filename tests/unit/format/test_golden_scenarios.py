"""Known histories of tables, and what each snapshot of them reads.

B0, B1, B2 are the bucket properties of buckets 0 to 2, B0S1 that of bucket 0 in a second statement.
"""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import BucketId, StatementId, encode
from airflow_hiveacid.format.names import OriginalFileName, parse_file_name
from airflow_hiveacid.format.snapshot import (
    RangeVisibility,
)
from tests.unit.format.listings import ids, live, read, texts
from tests.unit.format.rows import Event, Identity, visible

B0, B1 = encode(BucketId(0)), encode(BucketId(1))
B0S1 = encode(BucketId(0), StatementId(1))

# Three inserts, an update of the second row, a delete of the third.
SINGLES = (
    "delta_0000001_0000001_0000 delete_delta_0000002_0000002_0000 delta_0000002_0000002_0000"
    " delete_delta_0000003_0000003_0000"
)
EVENTS: dict[str, list[Event]] = {
    "delta_0000001_0000001_0000": [((1, B0, 0), 1), ((1, B0, 1), 1), ((1, B0, 2), 1)],
    "delete_delta_0000002_0000002_0000": [((1, B0, 1), 2)],
    "delta_0000002_0000002_0000": [((2, B0, 0), 2)],
    "delete_delta_0000003_0000003_0000": [((1, B0, 2), 3)],
    "delta_0000001_0000003": [
        ((1, B0, 0), 1),
        ((1, B0, 1), 1),
        ((1, B0, 2), 1),
        ((2, B0, 0), 2),
    ],
    "delete_delta_0000001_0000003": [((1, B0, 1), 2), ((1, B0, 2), 3)],
    "base_0000003": [((1, B0, 0), 1), ((2, B0, 0), 2)],
}
ALL_THREE = [(1, B0, 0), (1, B0, 1), (1, B0, 2)]
UPDATED = [(1, B0, 0), (2, B0, 0)]


def rows(state: AcidState, snap: str) -> list[Identity]:
    return visible(state, ids(snap), EVENTS)


@pytest.mark.parametrize(
    ("snap", "expected"),
    [
        ("3:MAX::", UPDATED),
        ("1:MAX::", ALL_THREE),
        ("3:3:3:", [(1, B0, 0), (1, B0, 2), (2, B0, 0)]),
        ("3:MAX::2", [(1, B0, 0), (1, B0, 1)]),
    ],
)
def test_uncompacted_deltas_are_read_as_each_snapshot_allows(
    snap: str, expected: list[Identity]
) -> None:
    assert rows(read(SINGLES, snap), snap) == expected


@pytest.mark.promise("F6")
def test_a_minor_compaction_replaces_the_deltas_in_its_range() -> None:
    state = read(f"{SINGLES} delta_0000001_0000003 delete_delta_0000001_0000003", "3:MAX::")
    assert live(state) == ["delete_delta_0000001_0000003", "delta_0000001_0000003"]
    assert texts(state.obsolete) == sorted(SINGLES.split())
    assert rows(state, "3:MAX::") == UPDATED


@pytest.mark.parametrize(
    ("snap", "expected"),
    [
        ("1:MAX::", ALL_THREE),
        ("2:MAX::", [(1, B0, 0), (1, B0, 2), (2, B0, 0)]),
        ("3:3:3:", [(1, B0, 0), (1, B0, 2), (2, B0, 0)]),
    ],
)
def test_an_older_snapshot_filters_the_rows_of_a_minor_compaction(
    snap: str, expected: list[Identity]
) -> None:
    state = read(f"{SINGLES} delta_0000001_0000003 delete_delta_0000001_0000003", snap)
    assert {d.visibility for d in state.live} == {RangeVisibility.SOME}
    assert rows(state, snap) == expected


def test_a_major_compaction_replaces_every_older_directory() -> None:
    state = read(f"{SINGLES} base_0000003", "3:MAX::", compacted=["base_0000003"])
    assert live(state) == ["base_0000003"]
    assert texts(state.obsolete) == sorted(SINGLES.split())
    assert rows(state, "3:MAX::") == UPDATED


@pytest.mark.parametrize("names", ["base_0000003", f"{SINGLES} base_0000003"])
def test_a_snapshot_older_than_a_major_compaction_raises_an_error(names: str) -> None:
    with pytest.raises(NotEnoughHistoryError, match="base_0000003"):
        read(names, "3:2:2:", compacted=["base_0000003"])


OPEN_MIDDLE = "base_20 delta_0000021_0000022 delta_0000023_0000025 delta_0000026_0000027"


OVERWRITTEN = "delta_0000001_0000001_0000 base_0000002 delta_0000003_0000003_0000"


@pytest.mark.promise("F5")
def test_an_overwrite_replaces_every_older_delta() -> None:
    state = read(OVERWRITTEN, "3:MAX::")
    assert live(state) == ["base_0000002", "delta_0000003_0000003_0000"]
    assert texts(state.obsolete) == ["delta_0000001_0000001_0000"]


def test_in_each_bucket_nested_original_files_follow_those_of_the_root() -> None:
    state = read(
        "HIVE_UNION_SUBDIR_16/000001_0 HIVE_UNION_SUBDIR_16/000000_0 HIVE_UNION_SUBDIR_15/000000_0"
        " 000002_0 000001_0 000000_0_copy_1 000000_0",
        "1:MAX::",
    )
    by_bucket: dict[int, list[str]] = {}
    for file in state.originals:
        name = parse_file_name(file.name)
        assert isinstance(name, OriginalFileName)
        by_bucket.setdefault(name.bucket_id, []).append(file.path)
    assert by_bucket == {
        0: [
            "000000_0",
            "000000_0_copy_1",
            "HIVE_UNION_SUBDIR_15/000000_0",
            "HIVE_UNION_SUBDIR_16/000000_0",
        ],
        1: ["000001_0", "HIVE_UNION_SUBDIR_16/000001_0"],
        2: ["000002_0"],
    }


COMPACTING = "delta_0000001_0000001_0000 delta_0000002_0000002_0000 base_0000002_v0000011"


def test_loaded_files_may_be_raw_until_they_are_compacted() -> None:
    loaded = read(
        "delta_0000001_0000001_0000/bucket_00000_0 delta_0000002_0000002_0000/000000_0", "2:MAX::"
    )
    assert [d.may_be_raw for d in loaded.deltas] == [False, True]
    minor = read(
        "delta_0000001_0000002_v0000026/bucket_00000 delta_0000002_0000002_0000/000000_0",
        "2:MAX::",
        "30:MAX::",
    )
    assert live(minor) == ["delta_0000001_0000002_v0000026"]
    assert not minor.deltas[0].may_be_raw
    overwritten = read(
        "base_0000003_v0000031/bucket_00000 base_0000004/000000_0 delta_0000005_0000005_0000",
        "5:MAX::",
        "40:MAX::",
    )
    assert live(overwritten) == ["base_0000004", "delta_0000005_0000005_0000"]
    assert overwritten.base is not None
    assert overwritten.base.may_be_raw


def test_the_side_file_of_a_streaming_delta_is_not_a_data_file() -> None:
    state = read(
        "delta_0000001_0000010/bucket_00000 delta_0000001_0000010/bucket_00000_flush_length",
        "10:7:7,8,9,10:",
    )
    (delta,) = state.deltas
    assert texts(delta.files) == ["delta_0000001_0000010/bucket_00000"]
    assert texts(delta.side_files) == ["delta_0000001_0000010/bucket_00000_flush_length"]
    assert delta.visibility is RangeVisibility.SOME
    assert not delta.is_resolved


def test_the_bucket_files_of_a_rebalanced_base_are_all_read() -> None:
    files = " ".join(f"base_0000007_v0000020/bucket_0000{n}" for n in range(4))
    state = read(f"{files} delta_0000007_0000007_0000", "7:MAX::", "20:MAX::")
    assert state.base is not None
    assert [f.name for f in state.base.files] == [f"bucket_0000{n}" for n in range(4)]
    assert texts(state.obsolete) == ["delta_0000007_0000007_0000"]


def test_the_new_row_of_an_update_contains_the_statement_id_in_its_row_id() -> None:
    events: dict[str, list[Event]] = {
        "delta_1_1_0": [((1, B0, 0), 1), ((1, B0, 1), 1)],
        "delete_delta_2_2_0": [((1, B0, 1), 2)],
        "delta_2_2_1": [((2, B0S1, 0), 2)],
    }
    state = read(" ".join(events), "2:MAX::")
    assert visible(state, ids("2:MAX::"), events) == [(1, B0, 0), (2, B0S1, 0)]


def test_a_delete_event_only_removes_the_row_of_its_bucket() -> None:
    events: dict[str, list[Event]] = {
        "delta_1_1_0": [((1, B0, 0), 1), ((1, B1, 0), 1)],
        "delete_delta_2_2_0": [((1, B1, 0), 2)],
    }
    state = read(" ".join(events), "2:MAX::")
    assert visible(state, ids("2:MAX::"), events) == [(1, B0, 0)]

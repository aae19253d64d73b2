"""Known histories of tables, and what each snapshot of them reads.

B0, B1, B2 are the bucket properties of buckets 0 to 2, B0S1 that of bucket 0 in a second statement.
"""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import BucketId, StatementId, encode
from airflow_hiveacid.format.names import OriginalFileName, parse_file_name
from airflow_hiveacid.format.snapshot import (
    CompactorWriteIdList,
    RangeVisibility,
)
from tests.unit.format.listings import ids, listing, live, read, texts
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


def test_a_compaction_stops_below_the_first_open_write_id() -> None:
    own = CompactorWriteIdList.of(ids("27:23:23:"))
    state = resolve(listing(OPEN_MIDDLE, compacted=["base_20"]), own, None)
    assert own.high_watermark == 22
    assert live(state) == ["base_20", "delta_0000021_0000022"]
    assert state.delta_count == 1
    assert not state.obsolete


@pytest.mark.parametrize(
    ("base", "transactions"), [("base_0000022", None), ("base_0000022_v0000028", "30:MAX::")]
)
def test_a_reader_uses_a_new_base_and_the_deltas_with_the_open_write_id(
    base: str, transactions: str | None
) -> None:
    compacted = ["base_20", base] if transactions is None else ["base_20"]
    state = read(f"{OPEN_MIDDLE} {base}", "27:23:23:", transactions, compacted=compacted)
    assert live(state) == [base, "delta_0000023_0000025", "delta_0000026_0000027"]
    assert [d.visibility for d in state.deltas] == [RangeVisibility.SOME, RangeVisibility.ALL]
    assert texts(state.obsolete) == ["base_20", "delta_0000021_0000022"]


@pytest.mark.parametrize("suffix", ["", "_v0000028"])
def test_aborted_write_ids_inside_a_delta_do_not_stop_a_compaction(suffix: str) -> None:
    own = CompactorWriteIdList.of(ids("27:MAX::24,25"))
    before = resolve(listing(OPEN_MIDDLE, compacted=["base_20"]), own, None)
    assert own.high_watermark == 27
    assert before.delta_count == 3
    minor = f"delta_0000021_0000027{suffix} delete_delta_0000021_0000027{suffix}"
    names = f"{OPEN_MIDDLE} {minor}"
    state = read(names, "27:MAX::24,25", "30:MAX::", compacted=["base_20"])
    assert len(state.directories) == 6
    assert live(state) == ["base_20", *sorted(minor.split())]


def test_a_major_compaction_replaces_deltas_that_contain_aborted_write_ids() -> None:
    state = read(
        f"{OPEN_MIDDLE} base_0000027_v0000028", "27:MAX::24,25", "30:MAX::", compacted=["base_20"]
    )
    assert len(state.directories) == 5
    assert live(state) == ["base_0000027_v0000028"]
    assert len(state.obsolete) == 4


OVERWRITTEN = "delta_0000001_0000001_0000 base_0000002 delta_0000003_0000003_0000"


@pytest.mark.promise("F5")
def test_an_overwrite_replaces_every_older_delta() -> None:
    state = read(OVERWRITTEN, "3:MAX::")
    assert live(state) == ["base_0000002", "delta_0000003_0000003_0000"]
    assert texts(state.obsolete) == ["delta_0000001_0000001_0000"]


def test_an_aborted_overwrite_replaces_nothing() -> None:
    state = read(OVERWRITTEN, "3:MAX::2")
    assert live(state) == ["delta_0000001_0000001_0000", "delta_0000003_0000003_0000"]
    assert texts(state.aborted) == ["base_0000002"]


def test_an_open_overwrite_replaces_nothing() -> None:
    state = read(OVERWRITTEN, "3:2:2:")
    assert live(state) == ["delta_0000001_0000001_0000", "delta_0000003_0000003_0000"]
    assert texts(state.invisible) == ["base_0000002"]


def test_the_empty_base_of_hive_4s_truncate_hides_older_rows() -> None:
    truncated = listing("delta_0000001_0000001_0000", metadata={"base_0000002": "truncated"})
    assert live(resolve(truncated, ids("2:MAX::"), None)) == ["base_0000002"]
    assert live(resolve(truncated, ids("1:MAX::"), None)) == ["delta_0000001_0000001_0000"]


def test_copies_of_an_original_file_are_read_after_it_and_become_obsolete_with_it() -> None:
    state = read(
        "000001_0_copy_1 000001_0 delta_10000001_10000001_0000/bucket_00001_0", "9999999999:MAX::"
    )
    assert texts(state.originals) == ["000001_0", "000001_0_copy_1"]
    assert live(state) == ["delta_10000001_10000001_0000"]
    major = read(
        "000001_0_copy_1 000001_0 delta_10000001_10000001_0000 base_10000001_v0000021",
        "9999999999:MAX::",
        "30:MAX::",
    )
    assert live(major) == ["base_10000001_v0000021"]
    assert texts(major.obsolete_originals) == ["000001_0", "000001_0_copy_1"]


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


def test_a_wide_delta_replaces_the_deltas_in_its_range_but_not_later_deltas() -> None:
    state = read(
        "base_50 delta_40_60 delta_052_55 delta_058_58 delta_0060_60_1 delta_0060_60_4"
        " delta_0060_60_7 delta_00061_61_0 delta_000062_62_0 delta_000062_62_3 delta_0000063_63_0",
        "100:MAX::",
    )
    assert live(state) == [
        "base_50",
        "delta_40_60",
        "delta_00061_61_0",
        "delta_000062_62_0",
        "delta_000062_62_3",
        "delta_0000063_63_0",
    ]
    assert texts(state.obsolete) == [
        "delta_0060_60_1",
        "delta_0060_60_4",
        "delta_0060_60_7",
        "delta_052_55",
        "delta_058_58",
    ]


@pytest.mark.parametrize(
    ("names", "used", "lost"),
    [
        ("delta_40_60 delete_delta_50_50", "delta_40_60", "delete_delta_50_50"),
        (
            "delta_0000001_0000005 delete_delta_0000002_0000004",
            "delta_0000001_0000005",
            "delete_delta_0000002_0000004",
        ),
    ],
)
def test_a_wider_delta_replaces_a_delete_delta_in_its_range(
    names: str, used: str, lost: str
) -> None:
    state = read(names, "100:MAX::")
    assert live(state) == [used]
    assert texts(state.obsolete) == [lost]


COMPACTING = "delta_0000001_0000001_0000 delta_0000002_0000002_0000 base_0000002_v0000011"


@pytest.mark.parametrize(
    ("transactions", "used", "elsewhere"),
    [
        ("10:MAX::", COMPACTING.split()[:2], "invisible"),
        ("12:11:11:", COMPACTING.split()[:2], "invisible"),
        ("12:MAX::", COMPACTING.split()[2:], "live"),
        ("12:MAX::11", COMPACTING.split()[:2], "aborted"),
    ],
)
def test_a_compacted_base_is_live_only_if_its_transaction_is_committed(
    transactions: str, used: list[str], elsewhere: str
) -> None:
    state = read(COMPACTING, "2:MAX::", transactions)
    assert live(state) == used
    base = next(d for d in state.directories if d.is_base)
    assert base.status.value == elsewhere
    assert texts(state.obsolete) == ([] if elsewhere != "live" else COMPACTING.split()[:2])


def test_only_the_last_of_two_minor_compactions_of_a_range_is_read() -> None:
    # Hive 4 reads both, so every row twice (HIVE-29210)
    state = read(
        "delta_1_1_0 delta_2_2_0 delta_3_3_0 delta_0000001_0000003_v0000007"
        " delta_0000001_0000003_v0000009",
        "3:MAX::",
        "9:MAX::",
    )
    assert live(state) == ["delta_0000001_0000003_v0000009"]
    assert len(state.obsolete) == 4


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


def test_a_minor_compaction_above_an_overwrite_leaves_its_base_live() -> None:
    singles = (
        "delete_delta_0000002_0000002_0000 delete_delta_0000003_0000003_0000"
        " delta_0000004_0000004_0000 delta_0000005_0000005_0000 delta_0000006_0000006_0000"
    )
    before = read(f"base_0000001 {singles}", "6:MAX::")
    assert live(before) == ["base_0000001", *singles.split()]
    pair = "delete_delta_0000002_0000006_v0000009 delta_0000002_0000006_v0000009"
    after = read(f"base_0000001 {singles} {pair}", "6:MAX::", "9:MAX::")
    assert live(after) == ["base_0000001", *pair.split()]
    assert texts(after.obsolete) == sorted(singles.split())
    major = read(f"base_0000001 {pair} base_0000006_v0000024", "6:MAX::", "30:MAX::")
    assert live(major) == ["base_0000006_v0000024"]


def test_a_minor_compaction_with_only_deletes_replaces_their_delete_deltas() -> None:
    state = read(
        "base_0000001 delete_delta_2_2_0 delete_delta_3_3_0 delete_delta_0000002_0000003_v0000005",
        "3:MAX::",
        "9:MAX::",
    )
    assert live(state) == ["base_0000001", "delete_delta_0000002_0000003_v0000005"]


def test_a_minor_compaction_replaces_streaming_deltas_around_an_aborted_delta() -> None:
    state = read(
        "delta_0000001_0000002 delta_0000003_0000004 delta_0000005_0000006"
        " delta_0000001_0000006_v0000009",
        "6:MAX::3,4",
        "9:MAX::",
    )
    assert live(state) == ["delta_0000001_0000006_v0000009"]
    assert texts(state.aborted) == ["delta_0000003_0000004"]
    assert texts(state.obsolete) == ["delta_0000001_0000002", "delta_0000005_0000006"]


@pytest.mark.parametrize("base", ["base_0000002_v0000009/", "base_0000002/bucket_00000"])
def test_a_compacted_base_without_rows_replaces_older_deltas(base: str) -> None:
    name = base.partition("/")[0]
    compacted = [name] if "_v" not in name else []
    state = read(
        f"delta_0000001_0000001_0000 delete_delta_0000002_0000002_0000 {base}",
        "2:MAX::",
        "9:MAX::",
        compacted=compacted,
    )
    assert live(state) == [name]
    assert len(state.obsolete) == 2


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

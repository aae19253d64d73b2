"""Cases that Hive's own tests of its directory selection pin, and those where ours differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import DirectoryStatus
from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, RangeVisibility
from tests.support.cases import cases_of
from tests.unit.format.listings import ids, listing, live, read, texts, txns


@pytest.mark.parametrize(("names", "expected"), cases_of(Path(__file__).parent / "selections.txt"))
def test_the_selected_directories_are_those_of_hive(names: str, expected: str) -> None:
    snap, used, obsolete = map(str.strip, expected.splitlines())
    state = read(names, snap)
    assert " ".join(["live", *live(state)]) == used
    assert " ".join(["obsolete", *texts(state.obsolete)]) == obsolete


@pytest.mark.parametrize(
    ("names", "hwm"),
    [
        ("delta_1_1 delta_2_5", "4:MAX::"),
        ("delta_1_1 delta_2_5 delta_6_10", "3:MAX::"),
        ("delta_1_1 delta_2_5 delete_delta_2_5 delta_6_10 delete_delta_7_7", "4:MAX::"),
        ("delta_1_1 delta_2_5 delta_6_10", "12:3:3:"),
    ],
)
def test_a_compaction_excludes_every_delta_with_an_open_write_id(names: str, hwm: str) -> None:
    state = resolve(listing(names), CompactorWriteIdList.of(ids(hwm)), None)
    assert live(state) == ["delta_1_1"]
    assert not state.obsolete


def test_a_compaction_includes_deltas_with_some_aborted_write_ids() -> None:
    state = resolve(
        listing("delta_1_3 delta_4_4 delta_5_5"), CompactorWriteIdList.of(ids("9:MAX::2,4")), None
    )
    assert live(state) == ["delta_1_3", "delta_5_5"]
    assert texts(state.aborted) == ["delta_4_4"]
    assert state.deltas[0].visibility is RangeVisibility.SOME
    assert state.deltas[1].visibility is RangeVisibility.ALL


@pytest.mark.promise("T5")
def test_a_reader_does_not_see_an_open_delta() -> None:
    state = read("delta_1_1_0 delta_2_2_0 delete_delta_2_2_0 delta_3_3_0", "3:2:2:")
    assert live(state) == ["delta_1_1_0", "delta_3_3_0"]
    assert texts(state.invisible) == ["delete_delta_2_2_0", "delta_2_2_0"]
    assert {d.why for d in state.invisible} == {"invisible: write ID 2 is open"}


@pytest.mark.promise("T6")
def test_a_reader_skips_an_aborted_insert_between_two_committed_inserts() -> None:
    state = read("delta_1_1_0 delta_2_2_0 delta_3_3_0", "3:MAX::2")
    assert live(state) == ["delta_1_1_0", "delta_3_3_0"]
    assert [(d.text, d.why) for d in state.aborted] == [("delta_2_2_0", "aborted: write ID 2")]


def test_a_reader_does_not_see_writes_above_its_high_watermark() -> None:
    state = read("delta_1_1_0 delta_2_2_0", "1:MAX::")
    assert live(state) == ["delta_1_1_0"]
    assert state.invisible[0].why == "invisible: write ID 2 is above the high watermark 1"


def test_a_delta_is_aborted_if_all_its_write_ids_are_aborted() -> None:
    state = read("delta_1_3 delta_4_6", "6:MAX::4,5,6")
    assert texts(state.aborted) == ["delta_4_6"]
    assert state.aborted[0].why == "aborted: write IDs 4 to 6"


def test_a_base_with_the_lowest_open_write_id_is_not_read() -> None:
    # Hive 4 would take it: AcidUtils.isValidBase compares with <=
    state = read("delta_1_1_0 base_2", "3:2:2:")
    assert live(state) == ["delta_1_1_0"]
    assert texts(state.invisible) == ["base_2"]
    assert not state.invisible[0].is_resolved


def test_an_uncommitted_overwrite_below_the_base_is_not_obsolete() -> None:
    state = read("base_2 base_4 delta_1_1_0", "4:2:2:")
    assert live(state) == ["base_4"]
    assert texts(state.obsolete) == ["delta_1_1_0"]
    assert texts(state.invisible) == ["base_2"]


def test_a_compacted_base_replaces_the_overwrite_with_the_same_write_id() -> None:
    state = read("base_0000002 base_0000002_v0000007 base_0000002_v0000005", "2:MAX::", "9:MAX::")
    assert live(state) == ["base_0000002_v0000007"]
    assert texts(state.obsolete) == ["base_0000002", "base_0000002_v0000005"]
    assert {d.superseded_by for d in state.obsolete_directories} == {"base_0000002_v0000007"}


def test_a_base_with_a_compaction_metadata_file_replaces_equal_overwrites() -> None:
    state = read("base_0000002 base_02 base_2", "2:MAX::", compacted=["base_02"])
    assert live(state) == ["base_02"]
    assert texts(state.obsolete) == ["base_0000002", "base_2"]


def test_a_compacted_base_may_cover_aborted_but_not_open_write_ids() -> None:
    assert live(read("base_5", "9:MAX::3", compacted=["base_5"])) == ["base_5"]
    with pytest.raises(NotEnoughHistoryError):
        read("base_5", "9:3:3:", compacted=["base_5"])


def test_a_compacted_base_above_the_minimum_open_write_id_is_not_read() -> None:
    state = read("base_2 base_5", "9:4::", compacted=["base_5"])
    assert live(state) == ["base_2"]
    assert state.invisible[0].why == "invisible: a write ID from 4 on is open"


def test_a_compacted_base_with_an_aborted_write_id_is_read() -> None:
    state = read("base_5", "9:MAX::5", compacted=["base_5"])
    assert live(state) == ["base_5"]
    assert state.base is not None
    assert state.base.visibility is RangeVisibility.ALL


@pytest.mark.parametrize("snap", ["9:MAX::", "9:MAX::1", "9:MAX::1,2"])
def test_all_rows_of_a_compacted_base_are_visible_despite_aborted_write_ids(snap: str) -> None:
    base = read("base_2", snap, compacted=["base_2"]).base
    assert base is not None
    assert base.visibility is RangeVisibility.ALL


def test_a_snapshot_older_than_the_oldest_compacted_base_raises_an_error() -> None:
    with pytest.raises(NotEnoughHistoryError, match=r"/t: not enough history .* 3; .* base_5\."):
        read("base_5 delta_6_6_0", "3:MAX::", compacted=["base_5"])
    with pytest.raises(NotEnoughHistoryError, match=r"base_2\."):
        read("base_2 base_5", "1:MAX::", compacted=["base_2"])
    assert live(read("base_2 base_5", "1:MAX::", compacted=["base_5"])) == []


def test_an_invisible_overwrite_is_ignored_by_an_older_snapshot() -> None:
    assert live(read("base_5 delta_1_1_0", "3:MAX::")) == ["delta_1_1_0"]


def test_an_aborted_overwrite_does_not_prevent_a_not_enough_history_error() -> None:
    # Hive 4 asks the oldest base only, and would go on with whatever deltas are left
    with pytest.raises(NotEnoughHistoryError):
        read("base_2 base_5 delta_6_6_0", "4:MAX::2", compacted=["base_5"])


def test_the_base_of_an_uncommitted_compaction_is_ignored() -> None:
    state = read("delta_1_1_0 base_5_v0000011", "3:MAX::", "10:MAX::")
    assert live(state) == ["delta_1_1_0"]


def test_without_a_transaction_list_every_compaction_counts_as_committed() -> None:
    assert live(read("delta_1_1_0 base_1_v0000011", "3:MAX::")) == ["base_1_v0000011"]


@pytest.mark.parametrize(
    ("transactions", "used", "status", "why"),
    [
        (
            "9:8:8:",
            "delta_1_1_0 delta_2_2_0",
            DirectoryStatus.INVISIBLE,
            "invisible: transaction 8 of its compaction is not committed",
        ),
        (
            "9:MAX::8",
            "delta_1_1_0 delta_2_2_0",
            DirectoryStatus.ABORTED,
            "aborted: transaction 8 of its compaction",
        ),
        ("9:MAX::", "delta_1_2_v0000008", DirectoryStatus.LIVE, "live"),
    ],
)
def test_a_minor_compaction_is_live_only_after_its_transaction_committed(
    transactions: str, used: str, status: DirectoryStatus, why: str
) -> None:
    state = read("delta_1_1_0 delta_2_2_0 delta_1_2_v0000008", "2:MAX::", transactions)
    assert live(state) == used.split()
    compacted = next(d for d in state.directories if d.text.endswith("_v0000008"))
    assert (compacted.status, compacted.why) == (status, why)


def test_the_last_compaction_of_a_range_wins_for_deltas_and_delete_deltas_separately() -> None:
    state = read(
        "delta_1_2_v7 delete_delta_1_2_v7 delta_1_2_v9 delta_1_2 delta_3_3_0", "3:MAX::", "9:MAX::"
    )
    assert live(state) == ["delete_delta_1_2_v7", "delta_1_2_v9", "delta_3_3_0"]
    assert [(d.text, d.why) for d in state.obsolete_directories] == [
        ("delta_1_2", "obsolete: compacted again as delta_1_2_v9"),
        ("delta_1_2_v7", "obsolete: compacted again as delta_1_2_v9"),
    ]


def test_an_earlier_compaction_has_the_status_of_the_last_one_of_its_range() -> None:
    state = read("base_2 delta_1_2_v7 delta_1_2_v9 delta_1_3_v4 delta_1_3_v5", "2:MAX::", "9:MAX::")
    assert live(state) == ["base_2"]
    assert texts(state.obsolete) == ["delta_1_2_v7", "delta_1_2_v9"]
    assert {(d.text, d.why) for d in state.invisible} == {
        (name, "invisible: nothing from write ID 3 on is visible")
        for name in ("delta_1_3_v4", "delta_1_3_v5")
    }


def test_two_deltas_whose_names_differ_only_in_padding_are_both_read_as_in_hive() -> None:
    assert live(read("delta_1_1_0 delta_0000001_0000001_0000", "1:MAX::")) == [
        "delta_0000001_0000001_0000",
        "delta_1_1_0",
    ]


def test_an_obsolete_directory_names_the_directory_that_covers_it() -> None:
    state = read("base_2 delta_1_1_0 delta_3_9 delta_4_5", "9:MAX::", compacted=["base_2"])
    assert [(d.text, d.why, d.superseded_by) for d in state.obsolete_directories] == [
        ("delta_1_1_0", "obsolete: covered by base_2", "base_2"),
        ("delta_4_5", "obsolete: covered by delta_3_9", "delta_3_9"),
    ]


def test_an_obsolete_delta_with_an_open_write_id_is_unresolved() -> None:
    # an overwrite does not wait for a streaming batch here; its files are still being written
    state = read("delta_1_4 base_5", "6:3:3:")
    assert texts(state.obsolete) == ["delta_1_4"]
    assert not state.obsolete_directories[0].is_resolved


def test_a_delta_of_write_id_zero_is_invisible() -> None:
    state = read("delta_0_0 delta_1_1_0", "9:MAX::")
    assert live(state) == ["delta_1_1_0"]
    assert [(d.text, d.why) for d in state.invisible] == [
        ("delta_0_0", "invisible: there is no write ID 0")
    ]


def test_the_order_of_the_listing_does_not_matter() -> None:
    names = "base_0000002 base_0000002_v0000007 delta_1_1 delta_3_3_0 delta_3_3_1 delta_3_4_v8"
    states = {
        repr(resolve(listing(" ".join(order)), ids("9:MAX::"), txns("9:MAX::")))
        for order in (names.split(), names.split()[::-1], sorted(names.split(), key=len))
    }
    assert len(states) == 1

"""Cases that Hive's own tests of its directory selection pin, and those where ours differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import named_cases_of
from tests.unit.format.listings import live, read, shown_state, texts


@pytest.mark.parametrize(
    ("case", "expected"), named_cases_of(Path(__file__).parent / "cases" / "selections.txt")
)
def test_the_selected_directories_and_files_are_those_of_hive(case: str, expected: str) -> None:
    assert shown_state(case) == expected


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


@pytest.mark.promise("F6")
def test_a_minor_compaction_replaces_the_deltas_in_its_range() -> None:
    singles = [f"{kind}_{w}_{w}_0" for w in (1, 2) for kind in ("delete_delta", "delta")]
    state = read(f"{' '.join(singles)} delta_1_2 delete_delta_1_2", "2:MAX::")
    assert live(state) == ["delete_delta_1_2", "delta_1_2"]
    assert texts(state.obsolete) == sorted(singles)


@pytest.mark.promise("F5")
def test_an_overwrite_replaces_every_older_delta() -> None:
    state = read("delta_1_1_0 base_2 delta_3_3_0", "3:MAX::")
    assert live(state) == ["base_2", "delta_3_3_0"]
    assert texts(state.obsolete) == ["delta_1_1_0"]

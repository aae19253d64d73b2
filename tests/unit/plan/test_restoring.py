"""How a restore rewrites a partition, and which partitions may differ from a version."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.change_range import ChangeRange
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import up_to
from airflow_hiveacid.plan.restoring import RestoredPartition, Way, may_differ
from tests.unit.format.listings import ids
from tests.unit.plan.states import state_of

NOW = ids("9:MAX::7")


@pytest.mark.parametrize(
    ("come", "go", "stay", "how"),
    [
        (0, 0, 0, Way.NOTHING),
        (0, 0, 9, Way.NOTHING),
        (1, 0, 0, Way.DELTA),
        (0, 1, 0, Way.DELTA),
        (5_000, 5_000, 0, Way.DELTA),
        (0, 10_001, 0, Way.BASE),  # nothing was there then: it is emptied
        (10_001, 0, 0, Way.BASE),
        (50_000, 50_000, 950_000, Way.DELTA),
        (50_000, 50_001, 950_000, Way.BASE),
    ],
)
def test_a_restore_writes_few_changes_as_a_delta_and_many_as_a_base(
    come: int, go: int, stay: int, how: Way
) -> None:
    assert RestoredPartition.of(come=come, go=go, stay=stay, is_plain=False).how is how


def test_a_restore_writes_a_base_if_rows_have_no_unique_row_ids() -> None:
    assert RestoredPartition.of(come=1, go=1, stay=0, is_plain=True).how is Way.BASE
    assert RestoredPartition.of(come=0, go=0, stay=0, is_plain=True).how is Way.NOTHING
    twins = RestoredPartition.of(come=0, go=0, stay=2, is_plain=False, has_twins=True)
    assert twins.how is Way.BASE


@pytest.mark.parametrize(
    ("directories", "since", "differs"),
    [
        (["delta_1_1_0"], 1, False),
        (["delta_1_1_0", "delta_7_7_0"], 1, False),  # aborted
        (["delta_1_1_0", "delete_delta_8_8_0"], 7, True),
        (["delta_1_9"], 5, True),  # merged, and the version sees a part of it
        (["base_5"], 5, False),
        (["base_5", "delta_6_6_0"], 5, True),
        (["base_6_v12"], 5, True),  # perhaps another partition's write: it has to be looked at
        (["base_6"], 5, True),
        ([], 5, False),
    ],
)
def test_directory_names_decide_whether_a_partition_may_differ_from_a_version(
    directories: list[str], since: int, differs: bool
) -> None:
    state = state_of(directories, "9:MAX::7", has_marks=False)
    part = ChangeRange(since=up_to(NOW, WriteId(since)), until=NOW)
    assert may_differ(state, part) is differs


def test_a_base_may_contain_a_lower_write_id_that_was_committed_later() -> None:
    state = state_of(["base_9_v20"], "9:MAX::7", has_marks=False)
    # the state at a moment at which 9 was committed, and 8 was not
    then = ids("9:8:8:7")
    assert may_differ(state, ChangeRange(since=then, until=NOW))

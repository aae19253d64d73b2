from __future__ import annotations

import pytest

from airflow_hiveacid.metastore.compaction_queue import CompactionState


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("initiated", CompactionState.INITIATED),
        ("working", CompactionState.WORKING),
        ("ready for cleaning", CompactionState.READY_FOR_CLEANING),
        ("failed", CompactionState.FAILED),
        ("succeeded", CompactionState.SUCCEEDED),
        ("attempted", CompactionState.ATTEMPTED),
        ("did not initiate", CompactionState.DID_NOT_INITIATE),
        ("refused", CompactionState.REFUSED),
        ("aborted", CompactionState.ABORTED),
        ("a word of tomorrow", CompactionState.UNKNOWN),
    ],
)
def test_every_word_of_the_servers_is_a_state(word: str, expected: CompactionState) -> None:
    assert CompactionState.parse(word) is expected


def test_work_or_cleaning_is_still_to_come_in_three_states() -> None:
    pending = {state for state in CompactionState if state.is_pending}
    assert pending == {
        CompactionState.INITIATED,
        CompactionState.WORKING,
        CompactionState.READY_FOR_CLEANING,
    }

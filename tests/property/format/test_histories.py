"""Whatever was compacted, a snapshot reads what it always read; the cleaner has a file of its own.

The histories and their model are in `histories.py`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import WriteId
from tests.property.format.histories import NEVER, History, histories, now


@pytest.mark.promise("T5")
@pytest.mark.promise("T13")
@given(histories())
@settings(max_examples=settings.default.max_examples * 5 // 2, deadline=None)
def test_a_current_snapshot_reads_each_row_once_after_any_compactions(history: History) -> None:
    for time in (now(history), NEVER * 2):
        assert history.rows(time) == history.expected(time)


@given(histories(), st.integers(1, 12))
@settings(max_examples=settings.default.max_examples * 5 // 2, deadline=None)
def test_an_older_snapshot_reads_the_same_rows_or_raises_not_enough_history(
    history: History, time: int
) -> None:
    time = min(time, now(history))
    write_ids = history.write_ids(time)
    try:
        rows = history.rows(time)
    except NotEnoughHistoryError as error:
        high = int(error.oldest_base.partition("_v")[0].removeprefix("base_"))
        assert not write_ids.is_valid_base(WriteId(high))
    else:
        assert rows == history.expected(time)


@given(histories())
@settings(max_examples=settings.default.max_examples * 2, deadline=None)
def test_every_directory_has_one_status_and_a_reason(history: History) -> None:
    state = history.state(now(history))
    found = Counter(d.text for d in state.directories)
    assert found == Counter(history.contents.keys())
    for directory in state.directories:
        assert directory.why.startswith(directory.status.value)
        assert (directory.superseded_by is not None) == (directory.status.value == "obsolete")
    covers = {d.superseded_by for d in state.obsolete_directories}
    assert covers <= {d.text for d in state.directories}


@given(histories(), st.randoms(use_true_random=False))
@settings(max_examples=settings.default.max_examples, deadline=None)
def test_the_order_of_a_listing_does_not_matter(history: History, random: object) -> None:
    before = history.state(now(history))
    names = list(history.contents)
    random.shuffle(names)  # type: ignore[attr-defined]
    history.contents = {name: history.contents[name] for name in names}
    assert history.state(now(history)) == before

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.plan.thresholds import Firing, can_fire, fires

_LAST = Firing(table_id="1", write_id=10, at_s=1000.0, ended_entry=3)


def test_the_first_poll_above_a_threshold_fires() -> None:
    assert fires(None, _LAST, refire_after_s=60)


@pytest.mark.parametrize(
    ("changes", "fired"),
    [
        ({"at_s": 1000.0}, False),
        ({"at_s": 1059.9}, False),
        ({"at_s": 1060.0}, True),
        ({"at_s": 999.0}, True),  # the clock was set back
        ({"table_id": "2"}, True),  # dropped and created again
        ({"write_id": 11}, False),  # the compaction may still be at work
        ({"ended_entry": 4}, False),  # the table has not changed since
        ({"ended_entry": 4, "write_id": 11}, True),
        ({"ended_entry": 4, "write_id": 11, "is_compacting": True}, False),
        ({"ended_entry": 3, "write_id": 11}, False),  # it had ended before
        ({"ended_entry": None, "write_id": 11}, False),  # the queue could not be read
        ({"ended_entry": None, "at_s": 1060.0}, True),
    ],
)
def test_an_event_repeats_after_an_interval_or_after_a_compaction_and_a_write(
    changes: dict[str, Any], fired: bool
) -> None:
    assert fires(_LAST, replace(_LAST, **changes), refire_after_s=60) is fired


@pytest.mark.parametrize(
    ("changes", "fired"),
    [
        ({}, True),  # it had a lower ID than the newest ended entry
        ({"is_compacting": True}, False),
        ({"write_id": 10}, False),
        ({"ended_entry": None}, False),
    ],
)
def test_a_compaction_that_was_working_at_the_last_event_has_ended_if_none_works_now(
    changes: dict[str, Any], fired: bool
) -> None:
    now = replace(_LAST, **{"write_id": 11, **changes})
    assert fires(replace(_LAST, is_compacting=True), now, refire_after_s=60) is fired


def test_no_event_fires_for_a_write_if_the_last_queue_state_is_unknown() -> None:
    unknown = replace(_LAST, ended_entry=None)
    now = replace(_LAST, write_id=11)
    assert not fires(unknown, now, refire_after_s=60)
    assert not can_fire(unknown, now, refire_after_s=60)


@pytest.mark.parametrize(
    ("changes", "can"),
    [
        ({}, False),  # no write
        ({"write_id": 11}, True),
        ({"write_id": 11, "ended_entry": None, "is_compacting": True}, True),
        ({"at_s": 1060.0}, True),
        ({"table_id": "2"}, True),
    ],
)
def test_an_event_can_fire_after_a_write_an_interval_or_a_new_table(
    changes: dict[str, Any], can: bool
) -> None:
    assert can_fire(_LAST, replace(_LAST, **changes), refire_after_s=60) is can
    assert can_fire(None, replace(_LAST, **changes), refire_after_s=60)

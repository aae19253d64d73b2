from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.plan.firing import Firing, fires

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
    ],
)
def test_an_event_repeats_after_a_time_or_at_the_write_after_a_compaction(
    changes: dict[str, Any], fired: bool
) -> None:
    assert fires(_LAST, replace(_LAST, **changes), refire_after_s=60) is fired

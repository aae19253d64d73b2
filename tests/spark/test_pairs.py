"""Some pairs of real jobs that meet on real metastores; `make conflicts` lets all of them meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.policies import ConflictPolicy, Doing, Meeting
from conflicts.cells import Order, expected, meet

if TYPE_CHECKING:
    from spark_lab import Lab

STRICT, HIVE = ConflictPolicy.STRICT, ConflictPolicy.HIVE
PAIRS = [
    (STRICT, Order.AT_WORK, Doing.INSERT, Doing.INSERT),
    (STRICT, Order.AT_WORK, Doing.CHANGE, Doing.MAJOR),
    (STRICT, Order.LATE, Doing.CHANGE, Doing.OVERWRITE),
    (HIVE, Order.AT_WORK, Doing.INSERT, Doing.CHANGE),
]


@pytest.mark.promise("M1")
@pytest.mark.promise("O2")
@pytest.mark.parametrize(("policy", "order", "earlier", "later"), PAIRS)
def test_two_jobs_that_meet_end_as_their_table_says(
    lab: Lab, policy: ConflictPolicy, order: Order, earlier: Doing, later: Doing
) -> None:
    meeting = Meeting(earlier=earlier, later=later)
    seen = meet(lab, "t", policy, order, meeting)
    wanted, _ = expected((lab.client.generation, policy, order, meeting))
    assert (seen.outcome, seen.trouble) == (wanted, ""), seen.told


@pytest.mark.promise("O3")
def test_inserts_and_a_minor_compaction_do_not_conflict_under_the_strict_policy_either(
    lab4: Lab,
) -> None:
    for earlier, later in ((Doing.INSERT, Doing.MINOR), (Doing.MINOR, Doing.INSERT)):
        meeting = Meeting(earlier=earlier, later=later)
        seen = meet(lab4, earlier.value, STRICT, Order.AT_WORK, meeting)
        wanted, _ = expected((lab4.client.generation, STRICT, Order.AT_WORK, meeting))
        assert (seen.outcome, seen.trouble) == (wanted, ""), seen.told

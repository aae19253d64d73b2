from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.plan.keeping import (
    NO_AUTO_COMPACTION,
    NO_CLEANUP,
    leaves_alone,
    parameters_to_keep,
    set_by_us,
)

V3, V4 = MetastoreGeneration.V3, MetastoreGeneration.V4


@pytest.mark.parametrize(
    ("parameters", "generation", "expected"),
    [
        ({"no_auto_compaction": "true", "no_cleanup": "true"}, V4, True),
        ({"NO_AUTO_COMPACTION": "TRUE", "NO_CLEANUP": "True"}, V4, True),
        ({"NO_AUTO_COMPACTION": "true", "no_cleanup": "true"}, V4, True),
        ({"no_auto_compaction": "", "NO_AUTO_COMPACTION": "true"}, V3, True),
        ({"no_auto_compaction": "false", "NO_AUTO_COMPACTION": "true"}, V3, False),
        ({"NO_AUTO_COMPACTION": "true"}, V3, True),
        ({"NO_AUTO_COMPACTION": "true"}, V4, False),
        ({"NO_CLEANUP": "true"}, V4, False),
        ({"No_Auto_Compaction": "true"}, V3, False),
        ({}, V3, False),
    ],
)
def test_hive_leaves_a_table_alone_if_the_parameters_are_true_in_lower_or_upper_case(
    parameters: dict[str, str], generation: MetastoreGeneration, *, expected: bool
) -> None:
    """Hive's initiator and cleaner look up a name in lower case, then in upper case."""
    assert leaves_alone(parameters, generation) is expected


@pytest.mark.parametrize("removed", [NO_AUTO_COMPACTION, NO_CLEANUP])
def test_a_parameter_of_ours_that_is_set_again_does_not_make_the_other_one_the_owners(
    removed: str,
) -> None:
    """If it did, we would never remove the other one, and no job would compact the table."""
    kept = parameters_to_keep({}, V4)
    rest = {name: value for name, value in kept.items() if name != removed}
    again = rest | parameters_to_keep(rest, V4)
    assert again == kept
    assert set_by_us(again) == {NO_AUTO_COMPACTION, NO_CLEANUP}

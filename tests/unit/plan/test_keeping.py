from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.plan.keeping import leaves_alone

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

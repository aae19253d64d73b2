"""What tests must know of Airflow's minors; `airflow_hiveacid/airflow_names.py` has our own part.

It imports Airflow, so `tests/airflow/conftest.py` must come first.
"""

from __future__ import annotations

from typing import Final

import pytest
from airflow import sdk

from airflow_hiveacid.airflow_names import HAS_RETRY_POLICIES

try:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:  # 3.1
    from airflow.models.dagbag import DagBag  # type: ignore[no-redef]
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

try:
    from airflow.sdk.exceptions import AirflowRescheduleException
except ImportError:  # 3.1
    from airflow.exceptions import AirflowRescheduleException

IS_3_1: Final = not hasattr(sdk, "conf")
IS_3_3: Final = HAS_RETRY_POLICIES
"""Whether Airflow keeps the state of tasks, applies retry policies and gives events keys."""

since_3_3: Final = pytest.mark.skipif(
    not IS_3_3,
    reason="Airflow keeps the state of tasks since 3.3; what is lost below has tests of its own",
)

__all__ = [
    "IS_3_1",
    "IS_3_3",
    "AirflowRescheduleException",
    "DagBag",
    "DagSerialization",
    "since_3_3",
]

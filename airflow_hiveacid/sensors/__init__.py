"""Airflow sensors that wait until tables need compaction or have new data.

Import only from here: the modules below may move. Each name loads its module on first use.

Example:
    from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_hiveacid.sensors.hive_acid import (
        HiveAcidCompactionNeededSensor,
        HiveAcidDeltaCountSensor,
        HiveAcidDeltaRatioSensor,
    )
    from airflow_hiveacid.sensors.new_version import HiveAcidNewVersionSensor
else:  # if mypy saw `__getattr__`, it would accept names that are not exported
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "airflow_hiveacid.sensors.hive_acid": (
                "HiveAcidCompactionNeededSensor",
                "HiveAcidDeltaCountSensor",
                "HiveAcidDeltaRatioSensor",
            ),
            "airflow_hiveacid.sensors.new_version": ("HiveAcidNewVersionSensor",),
        },
    )

__all__ = [
    "HiveAcidCompactionNeededSensor",
    "HiveAcidDeltaCountSensor",
    "HiveAcidDeltaRatioSensor",
    "HiveAcidNewVersionSensor",
]

"""Airflow sensors that wait for a table's health, compaction, locks or new data.

Import these names from this package and not from its modules, because modules may move. The module
that defines a name is imported when the name is first used.

Example:
    from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor
"""

from __future__ import annotations

from airflow_hiveacid.lazy_names import lazy_names

_HOMES = {
    "airflow_hiveacid.sensors.hive_acid": (
        "HiveAcidCompactionNeededSensor",
        "HiveAcidCompactionSensor",
        "HiveAcidDeltaCountSensor",
        "HiveAcidDeltaRatioSensor",
        "HiveAcidHealthSensor",
        "HiveAcidLockFreeSensor",
        "HiveAcidNewVersionSensor",
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)

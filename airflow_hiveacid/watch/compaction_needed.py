"""The trigger for the deferrable sensors that wait until a table needs compaction.

Like the sensors, the trigger calls `hooks.health.look`, which compares the table with the
thresholds. `triggers.watching` polls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.plan import arguments
from airflow_hiveacid.watch.trigger import WatchTrigger, findings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.maintenance.health import Look

__all__ = ["CompactionNeededTrigger", "findings", "hottest_first"]


def hottest_first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the partitions that are due, those with the most deltas first."""
    return sorted(found, key=lambda one: -one["delta_count"])


class CompactionNeededTrigger(WatchTrigger):
    """Fire when a partition reaches a threshold, or when an error shows that waiting is useless.

    Args:
        delta_count: threshold, `off`, or None for the table's own threshold.
        delta_ratio: threshold, `off`, or None for the table's own threshold.
        also_when: further thresholds by name, or None for their defaults.
        watch: see `WatchTrigger`.
    """

    def __init__(
        self,
        *,
        delta_count: int | str | None = None,
        delta_ratio: float | str | None = None,
        also_when: Mapping[str, float | str] | None = None,
        **watch: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**watch)
        self._given = arguments.thresholds(delta_count, delta_ratio, also_when)

    def own_arguments(self) -> dict[str, Any]:
        """Return the thresholds."""
        return self._given.plain()

    def most_important_first(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the partitions with the most deltas first."""
        return hottest_first(found)

    def look(self, settings: MetastoreSettings) -> Look:
        """Measure the table once."""
        from airflow_hiveacid.maintenance.health import look  # noqa: PLC0415 - brings Thrift and Arrow

        return look(settings.endpoint, self.table, self.partition or None, self._given)

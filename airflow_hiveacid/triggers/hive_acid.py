"""The trigger behind the deferrable sensors of compaction.

Holds no rule: `hooks.health.look` decides, as it does in the sensors. How it watches is
`triggers.watching`'s affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.triggers.watching import WatchTrigger, findings

if TYPE_CHECKING:
    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.hooks.health import Look

__all__ = ["CompactionNeededTrigger", "findings"]


class CompactionNeededTrigger(WatchTrigger):
    """Fire as soon as a partition of a table reaches a threshold, or when waiting cannot help.

    Args:
        delta_count: threshold, None if it does not count.
        delta_ratio: threshold, None if it does not count.
        watch: see `WatchTrigger`.
    """

    def __init__(
        self,
        *,
        delta_count: int | None = None,
        delta_ratio: float | None = None,
        **watch: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**watch)
        self.delta_count = delta_count
        self.delta_ratio = delta_ratio

    def own_arguments(self) -> dict[str, Any]:
        """The thresholds."""
        return {"delta_count": self.delta_count, "delta_ratio": self.delta_ratio}

    def look(self, settings: MetastoreSettings) -> Look:
        """Measure once."""
        from airflow_hiveacid.hooks.health import look  # noqa: PLC0415 - brings Thrift and Arrow

        policy = CompactionPolicy(delta_count=self.delta_count, delta_ratio=self.delta_ratio)
        return look(settings.endpoint, self.table, self.partition or None, policy)

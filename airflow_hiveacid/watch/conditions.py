"""The triggers for the deferrable sensors that wait for health limits, compactions and locks.

Like the sensors, the triggers call functions of `hooks`, which decide whether a condition is met.
`triggers.watching` polls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.plan.limits import HealthLimits
from airflow_hiveacid.watch.trigger import WatchTrigger

if TYPE_CHECKING:
    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.maintenance.health import HealthLook
    from airflow_hiveacid.watch.compactions import QueueLook
    from airflow_hiveacid.watch.locks import LockLook


class HealthTrigger(WatchTrigger):
    """Fire when a table reaches a limit, or when an error shows that waiting is useless.

    Args:
        limits: the fields of `HealthLimits`.
        watch: see `WatchTrigger`.
    """

    def __init__(self, *, limits: dict[str, Any], **watch: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**watch)
        self.limits = limits

    def own_arguments(self) -> dict[str, Any]:
        """Return the argument `limits`."""
        return {"limits": self.limits}

    def look(self, settings: MetastoreSettings) -> HealthLook:
        """Measure the table once."""
        from airflow_hiveacid.maintenance.health import look_at_limits  # noqa: PLC0415 - brings Thrift and Arrow

        limits = HealthLimits(**self.limits)
        return look_at_limits(settings.endpoint, self.table, self.partition or None, limits)


class CompactionEndedTrigger(WatchTrigger):
    """Fire when no compaction is at work, or when an error shows that waiting is useless.

    Args:
        fail_on_failed: fire with an error if the newest compaction of a partition failed.
        watch: see `WatchTrigger`.
    """

    def __init__(self, *, fail_on_failed: bool, **watch: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**watch)
        self.fail_on_failed = fail_on_failed

    def own_arguments(self) -> dict[str, Any]:
        """Return the argument `fail_on_failed`."""
        return {"fail_on_failed": self.fail_on_failed}

    def look(self, settings: MetastoreSettings) -> QueueLook:
        """Poll the compaction queue once."""
        from airflow_hiveacid.watch.compactions import look_at_queue  # noqa: PLC0415 - brings Thrift

        return look_at_queue(
            settings.endpoint,
            self.table,
            self.partition or None,
            fail_on_failed=self.fail_on_failed,
        )


class LockFreeTrigger(WatchTrigger):
    """Fire when a lock would be granted at once, or when an error shows that waiting is useless.

    Args:
        lock: a value of `LockType`.
        watch: see `WatchTrigger`.
    """

    def __init__(self, *, lock: str, **watch: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**watch)
        self.lock = lock

    def own_arguments(self) -> dict[str, Any]:
        """Return the argument `lock`."""
        return {"lock": self.lock}

    def look(self, settings: MetastoreSettings) -> LockLook:
        """Poll the locks once."""
        from airflow_hiveacid.watch.locks import look_at_locks  # noqa: PLC0415 - brings Thrift and Arrow

        return look_at_locks(settings.endpoint, self.table, self.partition or None, self.lock)

"""The trigger behind the deferrable sensor of new data.

Holds no rule: `hooks.news.look_for_news` decides, as it does in the sensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.triggers.watching import WatchTrigger

if TYPE_CHECKING:
    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.hooks.news import News


class NewVersionTrigger(WatchTrigger):
    """Fire as soon as a table has data of after a version.

    Args:
        since: the version.
        watch: see `WatchTrigger`.
    """

    def __init__(self, *, since: int, **watch: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**watch)
        self.since = since
        self._before: News | None = None

    def own_arguments(self) -> dict[str, Any]:
        """The version."""
        return {"since": self.since}

    def look(self, settings: MetastoreSettings) -> News:
        """Look once."""
        from airflow_hiveacid.hooks.news import look_for_news  # noqa: PLC0415 - brings Thrift

        self._before = look_for_news(
            settings.endpoint,
            self.table,
            self.partition or None,
            self.since,
            before=self._before,
        )
        return self._before

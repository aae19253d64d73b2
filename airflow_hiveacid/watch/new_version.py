"""The trigger for the deferrable sensor that waits for new data.

Like the sensor, the trigger calls `hooks.news.look_for_news`, which decides whether there is new
data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.watch.trigger import WatchTrigger

if TYPE_CHECKING:
    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.watch.new_data import News


class NewVersionTrigger(WatchTrigger):
    """Fire when a table has newer data, or when an error shows that waiting is useless.

    Args:
        since: the number of the last version whose data is known.
        watch: see `WatchTrigger`.
    """

    def __init__(self, *, since: int, **watch: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**watch)
        self.since = since
        self._before: News | None = None

    def own_arguments(self) -> dict[str, Any]:
        """Return the argument `since`."""
        return {"since": self.since}

    def look(self, settings: MetastoreSettings) -> News:
        """Poll the table once."""
        from airflow_hiveacid.watch.new_data import look_for_news  # noqa: PLC0415 - brings Thrift

        self._before = look_for_news(
            settings.endpoint,
            self.table,
            self.partition or None,
            self.since,
            before=self._before,
        )
        return self._before

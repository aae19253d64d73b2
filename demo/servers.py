"""The servers of the demonstration: one metastore and one Airflow."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hiveacid.local.process import ServerConflictError
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from demo.airflow_server import AirflowServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.local.process import Progress
    from demo.layout import DemoLayout


class Servers:
    """Metastore and Airflow of one demonstration."""

    def __init__(self, layout: DemoLayout, *, say: Progress) -> None:
        self.layout = layout
        config = LocalMetastoreConfig(version="4.0.1", data_dir=layout.metastore)
        self.metastore = LocalMetastore(config, progress=say)
        self.airflow = AirflowServer(layout, say=say)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a second `run`.

        Raises:
            ServerConflictError: a different run is in progress.
        """
        self.layout.prepare()
        with (self.layout.home / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another run of the demonstration is in progress in {self.layout.home}"
                raise ServerConflictError(message) from None
            yield

    @property
    def are_running(self) -> bool:
        """True if both servers run."""
        return self.airflow.url is not None and self.metastore.is_running()

    def states(self) -> Mapping[str, str]:
        """Return one line about the state of each server."""
        pid, url = self.metastore.pid, self.airflow.url
        at = f"{self.metastore.uri} (process {pid})" if pid is not None else "not running"
        return {
            "metastore": f"{self.metastore.label}: {at}",
            "airflow": f"Airflow: {url or 'not running'}",
        }

    def stop(self) -> int:
        """Stop both servers, and return the number of stopped processes.

        Airflow stops first, so its tasks can still release their locks in the metastore.
        """
        if not self.layout.home.is_dir():
            return 0
        count = self.airflow.stop()
        had_metastore = self.metastore.is_running()
        self.metastore.stop()
        return count + int(had_metastore)

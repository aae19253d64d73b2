"""Knows everything that runs for the demonstration: one metastore and one Airflow."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hiveacid.local.errors import ServerConflictError
from airflow_hiveacid.local.metastore import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from demo.airflow_server import AirflowServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.local.progress import Progress
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
        """Keep a second `run` out.

        Raises:
            ServerConflictError: one is under way.
        """
        self.layout.prepare()
        with (self.layout.home / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another run of the demonstration is under way in {self.layout.home}"
                raise ServerConflictError(message) from None
            yield

    @property
    def are_running(self) -> bool:
        """Whether both run."""
        return self.airflow.url is not None and self.metastore.is_running()

    def states(self) -> Mapping[str, str]:
        """One line about each."""
        pid, url = self.metastore.pid, self.airflow.url
        at = f"{self.metastore.uri} (process {pid})" if pid is not None else "not running"
        return {
            "metastore": f"{self.metastore.label}: {at}",
            "airflow": f"Airflow: {url or 'not running'}",
        }

    def stop(self) -> int:
        """End both, and return how many processes there were.

        Airflow first: a task that is told to end gives its locks back to a metastore that runs.
        """
        if not self.layout.home.is_dir():
            return 0
        count = self.airflow.stop()
        had_metastore = self.metastore.is_running()
        self.metastore.stop()
        return count + int(had_metastore)

"""The trigger that follows a driver in its cluster while the task occupies no worker slot.

It waits by the rules of `ClusterRun.following`, as a worker does, in the threads of
`watch.poll_threads`, and sends one event, which `deferral.Woken` parses. If a user clears or marks
the deferred task, `on_kill` aborts the driver's transactions and kills the driver.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.operators.submission import cluster_run
from airflow_hiveacid.operators.submission.deferral import DriverNote, End, event_of
from airflow_hiveacid.operators.submission.result_file import ResultFile
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.watch.poll_threads import in_thread_of

if TYPE_CHECKING:
    _ShowLog: TypeAlias = Callable[[cluster_run.Cluster[Any], cluster_run.Application], None]


FIRST_POLL_S: Final = 5.0
"""The seconds between the deferral and the first poll.

A task must not wake before Airflow's scheduler has read that the task's worker process has ended.
If the task wakes earlier, the scheduler takes the end of the worker process for the end of the
woken task, and fails the task. The scheduler checks for ended processes once in each loop, which
usually takes a second.
"""


_LOGS_AT_ONCE: Final = 2
"""The most drivers' logs that are read at once; fewer than the threads for a server's polls."""

_LAST_READ_S: Final = 1.0

_log_reads: Final = threading.BoundedSemaphore(_LOGS_AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    metastore: MetastoreEndpoint
    job_key: str
    attempt: str
    targets: tuple[str, ...]


def _show_nothing(*_: object) -> None:
    """Show no log of a driver."""


class ApplicationTrigger(BaseTrigger):
    """Fire when a driver in a YARN or Kubernetes cluster has ended, or can no longer be followed.

    The trigger looks up both connections itself, so the triggerer needs the same logins and files
    as a worker. The trigger kills the driver only if a user clears or marks the task, or if the
    driver got no container in time. If the triggerer ends, the driver continues.

    `note` is as `DriverNote.to_json` returns it. `client` are the user's arguments that decide how
    to log in to the cluster. With `shows_log`, the task's log gets the driver's log, which must not
    contain secrets that only the worker knows.
    """

    def __init__(  # noqa: PLR0913 - each is a separate fact
        self,
        *,
        note: dict[str, Any],
        hive_acid_conn_id: str,
        spark_conn_id: str,
        client: dict[str, Any],
        start_timeout_s: float,
        shows_log: bool,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.note = note
        self.hive_acid_conn_id = hive_acid_conn_id
        self.spark_conn_id = spark_conn_id
        self.client = client
        self.start_timeout_s = start_timeout_s
        self.shows_log = shows_log

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and constructor arguments from which Airflow recreates this trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "note": self.note,
                "hive_acid_conn_id": self.hive_acid_conn_id,
                "spark_conn_id": self.spark_conn_id,
                "client": self.client,
                "start_timeout_s": self.start_timeout_s,
                "shows_log": self.shows_log,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the driver until it ends, and send one event."""
        try:
            event = event_of(self.note, await self._follow())
        except Exception as error:  # noqa: BLE001 - the edge of the triggerer
            self.log.warning("cannot follow the driver: %s", error)
            event = event_of(self.note, End.FAILED, error)
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's

    @property
    def _driver(self) -> DriverNote:
        # An error in the constructor would end the whole triggerer.
        return DriverNote.from_json(self.note)

    async def _follow(self) -> End:
        driver, server = self._driver, (self.spark_conn_id,)
        await _has_slept(driver, driver.since_s + FIRST_POLL_S - time.time())
        # If this fails, the woken task follows the driver.
        file = ResultFile(uri=driver.result_uri)
        note_follower = partial(file.note_follower, makes_directory=False)
        # A key of its own has its own threads: a slow store delays no poll of the cluster.
        await in_thread_of(("results", *server), note_follower)
        run = await in_thread_of(server, lambda: self._cluster_run(self._log_reader()))
        # A second triggerer may take over and start here, so measure the wait for a container from
        # the deferral.
        steps = run.following(driver.application_id, waited_s=time.time() - driver.since_s)
        while (pause_s := await in_thread_of(server, partial(next, steps, None))) is not None:
            if not await _has_slept(driver, pause_s):
                # The task may be ended before it wakes.
                await in_thread_of(("kill", *server), self._kill)
                return End.TIMED_OUT
        return End.ENDED

    async def on_kill(self) -> None:
        """Abort the driver's transactions and kill it, after a user cleared or marked the task."""
        # Use a separate thread, so that polls of a cluster that does not answer do not delay the
        # kill. If this call takes longer than a second, Airflow cancels it, but the thread
        # continues.
        await asyncio.shield(in_thread_of(("kill", self.spark_conn_id), self._kill))

    def _kill(self) -> None:
        for kill in (self._abort, self._end):
            try:
                kill()
            except Exception as error:  # noqa: BLE001 - one must not prevent the other
                self.log.warning("cannot end the driver of the killed task: %s", error)

    def _abort(self) -> None:
        from airflow_hiveacid.operators.submission.kill import abort_attempt  # noqa: PLC0415 - see below

        driver = self._driver
        abort_attempt(
            _Followed(
                metastore=HiveAcidHook(self.hive_acid_conn_id).endpoint(),
                job_key=driver.job_key,
                attempt=driver.attempt,
                targets=driver.targets,
            )
        )

    def _end(self) -> None:
        run, driver = self._cluster_run(), self._driver
        run.answer_for(driver.application_id, cluster_run.tag_of(driver.attempt))
        run.begin_end().join()

    def _cluster_run(self, show_log: _ShowLog = _show_nothing) -> cluster_run.ClusterRun[Any]:
        # Import here, in a thread, because Airflow imports a trigger's module in the event loop.
        from airflow_hiveacid.operators.submission.cluster_client import cluster_run_of  # noqa: PLC0415 - as above
        from airflow_hiveacid.operators.submission.spark_target import SparkTarget  # noqa: PLC0415 - as above

        arguments = SparkArguments(conn_id=self.spark_conn_id, **self.client)
        conf, environment = arguments.conf or {}, arguments.env_vars or {}
        target = SparkTarget.resolve(
            self.spark_conn_id, "cluster", conf, {**os.environ, **environment}
        )
        run = cluster_run_of(
            target,
            cluster_run.tag_of(self._driver.attempt),
            arguments,
            cluster_run.Bounds(start_s=self.start_timeout_s),
            is_killed=lambda: False,
            show_log=show_log,
        )
        if run is None:
            raise ConfigurationError(
                f"the triggerer knows no resource manager for connection {self.spark_conn_id!r};"
                " set HADOOP_CONF_DIR there as on workers, or set"
                " yarn_resourcemanager_webapp_address in the connection"
            )
        return run

    def _log_reader(self) -> _ShowLog:
        """Return a function that shows a driver's new lines, if few other logs are being read.

        A node out of reach occupies a thread for seconds, and the polls of other drivers need the
        threads. Lines that are not shown now are shown after a later poll.
        """
        # Import here, in a thread, as `_cluster_run` does.
        from airflow_hiveacid.operators.submission.driver_log import (  # noqa: PLC0415 - as above
            NEW_LINES,
            DriverLog,
            log_command,
        )

        if not self.shows_log:
            return _show_nothing
        try:
            HiveAcidHook(self.hive_acid_conn_id).endpoint()  # from now on, its secret is hidden
        except Exception as error:  # noqa: BLE001 - the wait continues without the log
            self.log.warning("the driver's log is not shown: %s", error)
            return _show_nothing
        driver_log = DriverLog()

        def show_new(cluster: cluster_run.Cluster[Any], found: cluster_run.Application) -> None:
            if _log_reads.acquire(timeout=_LAST_READ_S if found.has_ended else 0.0):
                try:
                    driver_log.show_new(cluster, found)
                finally:
                    _log_reads.release()
            elif found.has_ended:
                reason = "the triggerer is reading the logs of other drivers"
                log_command(cluster.log_command(found.id), reason, NEW_LINES)

        return show_new


async def _has_slept(driver: DriverNote, pause_s: float) -> bool:
    """Sleep, but not past the task's time limit; return False if the limit has passed."""
    left_s = math.inf if driver.until_s is None else driver.until_s - time.time()
    if left_s <= 0:
        return False
    await asyncio.sleep(min(pause_s, left_s))
    return True

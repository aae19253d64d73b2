"""The clean-up of a killed task: abort its transactions, then kill its processes.

Transactions are aborted first, because a driver cannot commit an aborted transaction. Killing a
driver in a cluster may take more time than the task has left. Only the `spark-submit` of a cluster
is killed before, so that it submits nothing more (`Submitter.begin_end`). On a worker, a signal
handler calls these functions, and Airflow kills the task five seconds after the signal. So every
wait is short, a failure is logged and never raised, and no function asks Airflow for a connection.
For a deferred task, `ApplicationTrigger.on_kill` calls `abort_attempt` in the triggerer.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

import psutil  # type: ignore[import-untyped]  # comes with Airflow, without types

from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint

_CONNECT_S: Final = 1.0
_CALL_S: Final = 2.0
# Airflow sends SIGKILL five seconds after SIGTERM. Within these seconds, the transactions must be
# aborted and the processes killed.
_ABORT_S: Final = 3.0
_COMMAND_S: Final = 60.0

_log = logging.getLogger(__name__)


class Attempt(Protocol):
    """One run of a job, with the fields that are needed to abort its transactions."""

    @property
    def metastore(self) -> MetastoreEndpoint:
        """The metastore in which the transactions were opened."""

    @property
    def job_key(self) -> str:
        """The key of the job that opened the transactions."""

    @property
    def attempt(self) -> str:
        """The ID of the attempt that opened the transactions."""

    @property
    def targets(self) -> Sequence[str]:
        """The tables on which the transactions may hold locks."""


@contextmanager
def stop_processes(process: subprocess.Popen[str] | None) -> Iterator[None]:
    """After the `with` block, kill all child processes of the given process.

    The Spark provider kills only `spark-submit`, whose child process is the Python driver. If only
    `spark-submit` is killed, the driver continues until its next call to the JVM. Such a driver
    sends heartbeats and may even publish.
    """
    children: list[psutil.Process] = []
    if process is not None and process.poll() is None:
        try:
            children = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            _log.debug("spark-submit has just ended")
    try:
        yield
    finally:
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                _log.debug("process %s has already ended", child.pid)


def stop_submit(process: subprocess.Popen[str] | None) -> None:
    """Kill `spark-submit` and all processes that it has started on this machine."""
    with stop_processes(process):
        if process is not None and process.poll() is None:
            process.kill()


def end_by_command(application_id: str | None) -> threading.Thread:
    """Start and return a thread that kills a YARN application with the `yarn` command.

    The thread kills nothing if the application's ID is unknown or there is no `yarn` command.
    """
    end = threading.Thread(
        target=_end_by_command, args=(application_id,), name="hiveacid-end", daemon=True
    )
    end.start()
    return end


def _end_by_command(application_id: str | None) -> None:
    if application_id is None:
        return
    if (program := shutil.which("yarn")) is None:
        _log.warning("cannot kill %s: no resource manager or yarn command is known", application_id)
        return
    try:
        command = [program, "application", "-kill", application_id]
        subprocess.run(command, check=True, timeout=_COMMAND_S, capture_output=True)  # noqa: S603 - a list of our own
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("cannot kill %s: %s", application_id, error)


def abort_attempt(spec: Attempt) -> None:
    """Abort the transactions of this submission and of earlier tries, found by their locks."""
    abort = threading.Thread(target=_abort, args=(spec,), name="hiveacid-abort", daemon=True)
    abort.start()
    abort.join(_ABORT_S)
    if abort.is_alive():
        _log.warning("the metastore has not answered yet; killing the processes now")


def _abort(spec: Attempt) -> None:
    from airflow_hiveacid.format.table import TableRef  # noqa: PLC0415 - only this function needs it
    from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - brings Thrift
    from airflow_hiveacid.metastore.transactions.fencing import abort_job  # noqa: PLC0415 - as above

    endpoint = replace(
        spec.metastore,
        connect_timeout_s=min(_CONNECT_S, spec.metastore.connect_timeout_s),
        call_timeout_s=min(_CALL_S, spec.metastore.call_timeout_s),
    )
    try:
        attempt, tables = AttemptId.parse(spec.attempt), map(TableRef.parse, spec.targets)
        with connect(endpoint) as client:
            for txn_id in abort_job(client, spec.job_key, attempt, tables):
                _log.info("aborted txn_id=%s of killed job_key=%s", txn_id, spec.job_key)
    except Exception as error:  # noqa: BLE001 - edge of a thread; the processes still have to end
        _log.warning(
            "cannot abort the transaction of job_key=%s: %s. The metastore aborts it after its own"
            " time-out",
            spec.job_key,
            error,
        )

"""How a killed task leaves nothing running: its transaction is aborted, its processes end.

In this order, since ending a driver in a cluster may take longer than the task has left: once the
transaction is aborted, the driver cannot commit any more. Called from a signal handler with five
seconds to live, so every wait is short, a failure is logged and never raised, and nothing asks
Airflow for a connection.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import psutil  # type: ignore[import-untyped]  # comes with Airflow, without types

from airflow_hiveacid.format.attempts import AttemptId

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint


_CONNECT_S: Final = 1.0
_CALL_S: Final = 2.0
# Airflow sends SIGKILL after five seconds, and the processes have to be ended as well.
_ABORT_S: Final = 3.0

_log = logging.getLogger(__name__)


class Attempt(Protocol):
    """One doing of a job, as far as who ends it has to know it."""

    @property
    def metastore(self) -> MetastoreEndpoint:
        """Where its transactions are."""

    @property
    def job_key(self) -> str:
        """Whose they are."""

    @property
    def attempt(self) -> str:
        """Which of them are meant."""

    @property
    def targets(self) -> Sequence[str]:
        """On which tables their locks may be."""


@contextmanager
def stop_processes(process: subprocess.Popen[str] | None) -> Iterator[None]:
    """After the block, end every process that the given one had started.

    The Spark provider kills `spark-submit` alone. The Python driver below it would live on until it
    next speaks to its JVM, heartbeat included, and might even publish.
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
                _log.debug("process %s has ended by itself", child.pid)


def abort_attempt(spec: Attempt) -> None:
    """Abort the transactions of this submission and of earlier tries; their locks tell them."""
    abort = threading.Thread(target=_abort, args=(spec,), name="hiveacid-abort", daemon=True)
    abort.start()
    abort.join(_ABORT_S)
    if abort.is_alive():
        _log.warning("the metastore has not yet answered; ending the processes meanwhile")


def _abort(spec: Attempt) -> None:
    from airflow_hiveacid.format.table import TableRef  # noqa: PLC0415 - nobody else here needs it
    from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - brings Thrift
    from airflow_hiveacid.metastore.fencing import abort_job  # noqa: PLC0415 - as above

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
    except Exception as error:  # noqa: BLE001 - edge of a thread; the processes have to end anyhow
        _log.warning(
            "cannot abort the transaction of job_key=%s: %s. The metastore will, after its own"
            " time-out",
            spec.job_key,
            error,
        )

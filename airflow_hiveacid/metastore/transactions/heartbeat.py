"""Heartbeats of one transaction, sent from a separate thread over a separate connection.

If the server reports that the transaction no longer exists, or a compaction's `check` that it was
cancelled, the thread records the error, calls a callback and stops; `Transaction.ensure_alive`
raises the error in the job's thread. The thread runs in the process that does the work: if that
crashes or freezes, the server aborts the transaction.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import Clock
from airflow_hiveacid.metastore.transactions.commit import abort_quietly

# The pause after a failed heartbeat, as a share of the interval. The server's time-out is two
# intervals.
_HASTE: Final = 0.1
_STOP_WAIT_S: Final = 5.0

_log = logging.getLogger(__name__)


class Heartbeat:
    """The heartbeats of one transaction. Mutable: its thread records the last response."""

    def __init__(
        self,
        client: MetastorePort,
        txn_id: TxnId,
        *,
        interval_s: float,
        clock: Clock,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._txn_id = txn_id
        self._interval_s = interval_s
        self._clock = clock
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._is_committing = False
        self._lost: errors.TransactionError | None = None
        self._confirmed_s = clock.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"hiveacid-heartbeat-{txn_id}", daemon=True
        )

        self.check: Callable[[MetastorePort], None] = lambda _: None
        """Called after each heartbeat; a CompactionCancelledError ends the transaction."""

    @property
    def lost(self) -> errors.TransactionError | None:
        """The error that reported the loss of the transaction; None if no loss was reported."""
        return self._lost

    @property
    def silent_s(self) -> float:
        """Seconds since the server last confirmed that the transaction is open."""
        return self._clock.monotonic() - self._confirmed_s

    def start(self) -> None:
        """Start the heartbeats; the first is sent after one interval."""
        self._thread.start()

    def expect_the_end(self) -> None:
        """Report no loss from now on: after the commit, the server answers as after a loss."""
        self._is_committing = True

    def stop(self) -> None:
        """Stop the heartbeats; a heartbeat that is already in progress may still finish."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_WAIT_S)

    def _run(self) -> None:
        due_s = self._confirmed_s + self._interval_s
        while not self._clock.wait(self._stopped, max(0.0, due_s - self._clock.monotonic())):
            began_s = self._clock.monotonic()
            is_heard = self._beat()
            if self._lost is not None:
                self._report()
                break
            # Measure from the start of the heartbeat, so that a slow response does not lengthen the
            # interval.
            due_s = began_s + self._interval_s * (1.0 if is_heard else _HASTE)
        self._client.close()

    def _report(self) -> None:
        if self._stopped.is_set():
            return
        try:
            self._on_lost()
        except Exception:  # noqa: BLE001 -- edge of a thread: no caller could report it
            _log.exception("cannot notify the job of its lost transaction txn_id=%s", self._txn_id)

    def _beat(self) -> bool:
        began_s = self._clock.monotonic()
        try:
            self._client.heartbeat(self._txn_id)
            self._confirmed_s = began_s
            self.check(self._client)
        except (errors.TransactionAbortedError, errors.CompactionCancelledError) as error:
            if self._is_committing:
                _log.debug("heartbeat after the commit txn_id=%s: %s", self._txn_id, error)
                self._stopped.set()
                return False
            self._lost = error
            _log.warning("transaction cannot continue txn_id=%s: %s", self._txn_id, error)
            return False
        except errors.HiveAcidError as error:
            _log.warning("heartbeat failed txn_id=%s: %s", self._txn_id, error)
            return False
        except Exception:  # noqa: BLE001 -- edge of a thread: the beats would end silently
            _log.exception("heartbeat failed txn_id=%s", self._txn_id)
            return False
        return True


def open_beating(client: MetastorePort, clock: Clock, undo: ExitStack) -> tuple[TxnId, Heartbeat]:
    """Open a transaction and start its heartbeats; closing `undo` ends both."""
    txn_id = client.open_txn()
    undo.callback(abort_quietly, client, txn_id)
    interval_s = client.txn_timeout_s / 2
    heartbeat = Heartbeat(
        client.clone(call_timeout_s=interval_s / 2), txn_id, interval_s=interval_s, clock=clock
    )
    undo.callback(heartbeat.stop)
    heartbeat.start()
    return txn_id, heartbeat

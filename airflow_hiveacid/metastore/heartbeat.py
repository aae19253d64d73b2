"""Keeps one transaction alive, from a thread and a connection of its own.

Takes a client that nobody else uses; beats at a steady interval until it is stopped or the server
says that the transaction is gone; that it remembers, and tells whoever wants to know. It lives
where the work lives: when the process dies or freezes, the beats stop, and the server aborts the
transaction.

Example:
    heartbeat = Heartbeat(client.clone(call_timeout_s=10), txn_id, interval_s=10, clock=clock)
    heartbeat.start()
    ...
    heartbeat.stop()
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import HiveAcidError, TransactionAbortedError
from airflow_hiveacid.metastore.commit import abort_quietly

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.port import MetastorePort

# After a failed beat the next one comes this much sooner: the server waits for two intervals only.
_HASTE: Final = 0.1
_STOP_WAIT_S: Final = 5.0

_log = logging.getLogger(__name__)


class Heartbeat:
    """The beats of one transaction. Mutable: it is a thread, and remembers the last answer."""

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
        self._lost: TransactionAbortedError | None = None
        self._confirmed_s = clock.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"hiveacid-heartbeat-{txn_id}", daemon=True
        )

    @property
    def lost(self) -> TransactionAbortedError | None:
        """What the server said when it had given the transaction up; None as long as it has not."""
        return self._lost

    @property
    def silent_s(self) -> float:
        """Seconds since the server last confirmed that the transaction is open."""
        return self._clock.monotonic() - self._confirmed_s

    def start(self) -> None:
        """Begin to beat, the first time after one interval: opening counted as a beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more. A beat under way may still end on its own."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_WAIT_S)

    def _run(self) -> None:
        due_s = self._confirmed_s + self._interval_s
        while not self._clock.wait(self._stopped, max(0.0, due_s - self._clock.monotonic())):
            began_s = self._clock.monotonic()
            is_heard = self._beat()
            if self._lost is not None:
                self._tell()
                break
            # From the start of the beat, so that a slow server does not stretch the interval.
            due_s = began_s + self._interval_s * (1.0 if is_heard else _HASTE)
        self._client.close()

    def _tell(self) -> None:
        if self._stopped.is_set():
            return
        try:
            self._on_lost()
        except Exception:  # noqa: BLE001 -- edge of a thread: nobody else could say it
            _log.exception("cannot stop the work of txn_id=%s", self._txn_id)

    def _beat(self) -> bool:
        began_s = self._clock.monotonic()
        try:
            self._client.heartbeat(self._txn_id)
        except TransactionAbortedError as error:
            self._lost = error
            _log.warning("transaction is gone txn_id=%s: %s", self._txn_id, error)
            return False
        except HiveAcidError as error:
            _log.warning("heartbeat failed txn_id=%s: %s", self._txn_id, error)
            return False
        except Exception:  # noqa: BLE001 -- edge of a thread: the beats would end without a word
            _log.exception("heartbeat failed txn_id=%s", self._txn_id)
            return False
        self._confirmed_s = began_s
        return True


def open_beating(client: MetastorePort, clock: Clock, undo: ExitStack) -> tuple[TxnId, Heartbeat]:
    """Open a transaction and keep it alive; `undo` ends both, by an abort.

    Raises:
        MetastoreError: it cannot be opened, or no second connection is to be had.
    """
    txn_id = client.open_txn()
    undo.callback(abort_quietly, client, txn_id)
    interval_s = client.txn_timeout_s / 2
    heartbeat = Heartbeat(
        client.clone(call_timeout_s=interval_s / 2), txn_id, interval_s=interval_s, clock=clock
    )
    undo.callback(heartbeat.stop)
    heartbeat.start()
    return txn_id, heartbeat

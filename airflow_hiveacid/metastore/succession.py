"""How a job goes from one transaction to its next so that whoever kills it finds it at any moment.

A kill knows a job by its locks (`fencing.abort_job`), and may reach nobody but the metastore. So a
transaction out of which a job begins anew stays open, with locks and heartbeats, until the next
one's request for locks stands. Only then is it looked at whether somebody else has ended it, which
may have been an order, and only then is it ended. See docs/adr/0057.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import ExitStack

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.metastore.port import MetastorePort


class Succession:
    """The transactions that a job is about to leave. Mutable: it ends them. Not thread-safe."""

    def __init__(self, client: MetastorePort) -> None:
        self._client = client
        self._left: dict[TxnId, ExitStack] = {}

    def leave(self, txn_id: TxnId, undo: ExitStack) -> None:
        """Keep one for now; `undo` ends its heartbeats and aborts it."""
        self._left[txn_id] = undo

    def step_over(self) -> bool:
        """Leave them for good; call it when the next one's request for locks stands.

        Returns:
            Whether there were any: they may have been in the way of that request.

        Raises:
            TransactionAbortedError: somebody else has ended one.
            MetastoreError: nobody can say.
        """
        was_any = bool(self._left)
        for txn_id in self._left:
            self._client.heartbeat(txn_id)
        self.close()
        return was_any

    def close(self) -> None:
        """End them; there will be no next one, or it has come to its locks."""
        while self._left:
            _, undo = self._left.popitem()
            undo.close()

"""How a job goes from one transaction to its next so that whoever kills it finds it at any moment.

A kill knows a job by its locks (`fencing.abort_job`), and may reach nobody but the metastore. So a
transaction out of which a job begins anew stays open, with locks and heartbeats, until the next
one's request for locks stands. Only then is it looked at whether somebody else has ended it, which
may have been an order, and only then is it ended. See docs/adr/0057.

What a job does in between may take long, and may read what it has locked. Then a transaction that
asks for shared locks alone keeps its place (`keep_place`).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.metastore.clock import SystemClock
from airflow_hiveacid.metastore.heartbeat import open_beating
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.fencing import Seal
    from airflow_hiveacid.metastore.port import MetastorePort


class Succession:
    """The transactions that a job is about to leave. Mutable: it ends them. Not thread-safe."""

    def __init__(self, client: MetastorePort) -> None:
        self._client = client
        self._left: dict[TxnId, ExitStack] = {}

    def leave(self, txn_id: TxnId, undo: ExitStack) -> None:
        """Keep one for now; `undo` ends its heartbeats and aborts it."""
        self._left[txn_id] = undo

    def keep_place(self, seal: Seal, refs: Iterable[TableRef]) -> None:
        """Put one that asks for shared locks in the place of those that were left, if there are.

        It need not be granted them: whoever kills the job finds those that wait, too.

        Raises:
            TransactionAbortedError: somebody else has ended one that was left.
            MetastoreError: nobody can say, or the locks cannot be asked for.
        """
        components = tuple(
            LockComponent(table=ref, lock_type=LockType.SHARED_READ, operation=DataOperation.SELECT)
            for ref in sorted(set(refs))
        )
        if not self._left or not components:
            return
        with ExitStack() as undo:
            txn_id, _ = open_beating(self._client, SystemClock(), undo)
            self._client.lock(
                LockRequest(txn_id=txn_id, components=components, agent_info=seal.agent_info)
            )
            self.step_over()
            self.leave(txn_id, undo.pop_all())

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

"""Locks for a change of definitions, held by a transaction that writes no rows.

As in Hive (DbTxnManager), a transaction holds the locks. But the definitions change immediately,
not when the transaction commits. So an abort does not undo any change.

Example:
    with locked(client, components, terms):
        client.drop_table(ref)
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.metastore.clock import Clock, SystemClock
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.transactions.commit import commit
from airflow_hiveacid.metastore.transactions.fencing import ANONYMOUS, FencingToken, fence
from airflow_hiveacid.metastore.transactions.heartbeat import open_beating
from airflow_hiveacid.metastore.transactions.lock_wait import acquire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.metastore.port import MetastorePort


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTerms:
    """The owner and time-out of a lock request.

    If `job_key` is None, no other copies of the job are fenced.
    """

    job_key: str | None = None
    attempt: AttemptId = field(default_factory=AttemptId.new)
    lock_timeout_s: float
    clock: Clock = field(default_factory=SystemClock)


@contextmanager
def locked(
    client: MetastorePort, components: Sequence[LockComponent], terms: LockTerms
) -> Iterator[TxnId]:
    """Hold these locks in a transaction during the `with` block; yield the transaction's ID.

    Raises:
        LockNotAcquiredError: the locks were not granted in time; the transaction is aborted.
        FencedError: a newer copy of the job is running.
        TransactionAbortedError: the transaction was aborted while it waited for the locks.
    """
    with ExitStack() as undo:
        txn_id, heartbeat = open_beating(client, terms.clock, undo)
        _acquire(client, txn_id, components, terms)
        yield txn_id
        undo.pop_all()
        heartbeat.stop()
    try:
        commit(client, txn_id, {}, patience_s=client.txn_timeout_s / 2, clock=terms.clock)
    except HiveAcidError as error:
        # A failed commit can be ignored: the transaction held only locks, and the change is already
        # made.
        _log.warning("cannot end txn_id=%s, its locks stay until it times out: %s", txn_id, error)


def _acquire(
    client: MetastorePort, txn_id: TxnId, components: Sequence[LockComponent], terms: LockTerms
) -> None:
    refs = {component.table for component in components}
    fencing_token = None
    if terms.job_key is not None:
        fencing_token = FencingToken(
            job_key=terms.job_key,
            attempt=terms.attempt,
            first_txn_id=txn_id,
        )

    def end_older() -> bool:
        return fencing_token is not None and fence(client, fencing_token, txn_id, refs)

    acquire(
        client,
        LockRequest(
            txn_id=txn_id,
            components=tuple(components),
            agent_info=ANONYMOUS if fencing_token is None else fencing_token.agent_info,
        ),
        timeout_s=terms.lock_timeout_s,
        clock=terms.clock,
        on_enqueued=end_older,
    )

"""A lock around a change of definitions: a transaction that writes no rows, while it lasts.

Hive's own way (DbTxnManager): a transaction holds the locks, and definitions are changed at once,
not at its commit. So there is nothing to roll back, and what was changed stays.

Example:
    with locked(client, components, terms):
        client.drop_table(ref)
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.metastore.clock import Clock, SystemClock
from airflow_hiveacid.metastore.commit import commit
from airflow_hiveacid.metastore.fencing import Seal, fence
from airflow_hiveacid.metastore.heartbeat import open_beating
from airflow_hiveacid.metastore.lock_wait import acquire
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.metastore.port import MetastorePort

_ANONYMOUS: Final = "airflow-provider-hiveacid"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTerms:
    """Who asks for locks, and for how long at most. `job_key` None: nobody ends an older copy."""

    job_key: str | None = None
    attempt: AttemptId = field(default_factory=AttemptId.new)
    lock_timeout_s: float
    clock: Clock = field(default_factory=SystemClock)


@contextmanager
def locked(
    client: MetastorePort, components: Sequence[LockComponent], terms: LockTerms
) -> Iterator[TxnId]:
    """Run a body while a transaction holds these locks; gives its ID.

    Raises:
        LockNotAcquiredError: they were not granted in time; nothing is left behind.
        FencedError: a newer copy of the job is at work.
        TransactionAbortedError: somebody aborted the transaction while it waited.
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
        # It held locks and nothing else: they end with it, and what was defined is defined.
        _log.warning("cannot end txn_id=%s, its locks stay until it times out: %s", txn_id, error)


def _acquire(
    client: MetastorePort, txn_id: TxnId, components: Sequence[LockComponent], terms: LockTerms
) -> None:
    refs = {component.table for component in components}
    seal = None
    if terms.job_key is not None:
        seal = Seal(job_key=terms.job_key, attempt=terms.attempt, first_txn_id=txn_id)

    def end_older() -> bool:
        return seal is not None and fence(client, seal, txn_id, refs)

    acquire(
        client,
        LockRequest(
            txn_id=txn_id,
            components=tuple(components),
            agent_info=_ANONYMOUS if seal is None else seal.agent_info,
        ),
        timeout_s=terms.lock_timeout_s,
        clock=terms.clock,
        on_enqueued=end_older,
    )

"""Locks for a change of definitions, held by a transaction that writes no rows.

As in Hive (DbTxnManager), a transaction holds the locks. But the definitions change immediately,
not when the transaction commits. So an abort does not undo any change.

Example:
    with locked(client, components, terms):
        client.drop_table(ref)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.commit import commit
from airflow_hiveacid.metastore.transactions.fencing import (
    FencingToken,
    agent_info_of,
    fence,
    locks_on,
)
from airflow_hiveacid.metastore.transactions.heartbeat import open_beating
from airflow_hiveacid.metastore.transactions.lock_wait import acquire
from airflow_hiveacid.metastore.transactions.terms import JobTerms

_log = logging.getLogger(__name__)


@contextmanager
def locked(
    client: MetastorePort, components: Sequence[LockComponent], terms: JobTerms
) -> Iterator[TxnId]:
    """Hold these locks in a transaction during the `with` block; yield the transaction's ID.

    The transaction reports no steps, and sends heartbeats at half of the server's time-out.
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
    client: MetastorePort, txn_id: TxnId, components: Sequence[LockComponent], terms: JobTerms
) -> None:
    refs = {component.table for component in components}
    fencing_token = FencingToken.of(terms, txn_id)
    acquire(
        client,
        LockRequest(
            txn_id=txn_id,
            components=tuple(components),
            agent_info=agent_info_of(fencing_token),
        ),
        timeout_s=terms.lock_timeout_s,
        clock=terms.clock,
        on_enqueued=lambda: (
            fencing_token is not None
            and fence(client, fencing_token, txn_id, locks_on(client, refs))
        ),
    )

"""Commits, and the outcome of a commit after a lost response.

Only this module calls `commit_txn` for a job. After a lost response, it never aborts the
transaction, which may be committed. It reads its state: a write ID that is neither open nor aborted
is committed.
"""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import Clock

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


class Fate(enum.Enum):
    """The outcome of a transaction."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"


def commit(  # noqa: PLR0913 -- two of them are time limits
    client: MetastorePort,
    txn_id: TxnId,
    write_ids: Mapping[TableRef, WriteId],
    *,
    patience_s: float,
    clock: Clock,
    timeout_s: float = math.inf,
) -> None:
    """Commit a transaction; if the response is lost, find the outcome within `patience_s`.

    The server deletes aborted transactions after some time, and a deleted one looks committed, so
    `patience_s` must be shorter than that time. If the process was suspended for `timeout_s` or
    longer since the request, a missing transaction does not prove a commit.

    Raises:
        WriteConflictError: another transaction changed the same data and committed first.
        TransactionAbortedError: the transaction was aborted before the commit.
        MetastoreLoginError: no server accepts the login. The transaction was not committed and
            never will be.
        CommitStateUnknownError: the outcome is unknown, so the caller must not undo its work.
    """
    sent_s = clock.monotonic()
    request = _Request(client, txn_id)
    try:
        request.send()
    except errors.MetastoreError as error:
        # Even after an "internal error", the server's database may have committed the transaction.
        _log.warning("the response to commit was lost txn_id=%s: %s", txn_id, error)
        try:
            is_sure = _settle(
                request, write_ids, deadline_s=clock.monotonic() + patience_s, clock=clock
            )
        except errors.CommitStateUnknownError:
            if request.may_have_arrived:
                raise
            raise error from None  # nothing was sent, so it is certain that nothing was committed
        asked_after_s = clock.monotonic() - sent_s
        if not is_sure and asked_after_s >= timeout_s:
            reason = (
                f"the metastore lists it neither as open nor as aborted. But this was checked"
                f" {asked_after_s:.0f} s after the request, and the metastore aborts and deletes a"
                f" transaction after {timeout_s:.0f} s without a heartbeat"
            )
            raise errors.CommitStateUnknownError(txn_id=txn_id, reason=reason) from error


def fate_of(client: MetastorePort, txn_id: TxnId, write_ids: Mapping[TableRef, WriteId]) -> Fate:
    """Determine a transaction's outcome from a new snapshot."""
    txns = client.valid_txns()
    if txn_id > txns.high_watermark:
        raise errors.MetastoreCallError(
            method="get_open_txns", reason=f"it does not know transaction {txn_id}, which it opened"
        )
    # Also check the transaction, because the write IDs are not sufficient. 4.0.1 may have removed
    # its records of all committed write IDs. The list of write IDs then ends at the lowest invalid
    # ID. Our write ID may be above the end of the list, whether it is open or committed.
    if txn_id in txns.open:
        return Fate.OPEN
    if txns.is_aborted(txn_id):
        return Fate.ABORTED
    lists = client.valid_write_ids(write_ids, txns) if write_ids else {}
    if any(write_id in lists[ref].open for ref, write_id in write_ids.items()):
        return Fate.OPEN
    if any(write_id in lists[ref].aborted for ref, write_id in write_ids.items()):
        return Fate.ABORTED
    return Fate.COMMITTED


@dataclass(slots=True)
class _Request:
    """The commit of a transaction. Mutable: stores whether a request may have arrived."""

    client: MetastorePort
    txn_id: TxnId
    may_have_arrived: bool = False

    def send(self) -> None:
        try:
            self.client.commit_txn(self.txn_id)
        except errors.MetastoreLoginError:
            raise  # after a refused login, nothing was sent (Connection.call)
        except errors.MetastoreError:
            self.may_have_arrived = True
            raise


def _settle(
    request: _Request,
    write_ids: Mapping[TableRef, WriteId],
    *,
    deadline_s: float,
    clock: Clock,
) -> bool:
    """Confirm or repeat the commit; return False if a missing transaction is the only evidence."""
    pause_s, txn_id = _FIRST_PAUSE_S, request.txn_id
    while True:
        try:
            return _settle_once(request, write_ids)
        except errors.MetastoreError as error:
            if clock.monotonic() >= deadline_s:
                raise errors.CommitStateUnknownError(txn_id=txn_id, reason=str(error)) from error
            _log.warning("cannot determine yet whether txn_id=%s is committed: %s", txn_id, error)
        clock.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _settle_once(request: _Request, write_ids: Mapping[TableRef, WriteId]) -> bool:
    """Look up the outcome; send the commit again if the transaction is open. See `_settle`."""
    is_sure, client, txn_id = False, request.client, request.txn_id
    fate = fate_of(client, txn_id, write_ids)
    if fate is Fate.OPEN:
        # The server has not executed the first request, so send another. If the first request still
        # arrives later, the server executes only one of them.
        try:
            request.send()
            is_sure = True
        except errors.TransactionAbortedError as error:
            # 3.1 deletes a transaction at commit. So "unknown transaction" may mean that the first
            # request committed the transaction.
            if (
                not request.may_have_arrived
                or fate_of(client, txn_id, write_ids) is not Fate.COMMITTED
            ):
                raise
            _log.info("committed by the first request txn_id=%s (%s)", txn_id, error)
    elif fate is Fate.ABORTED or not request.may_have_arrived:
        # Only this process commits the transaction. If the server does not list the transaction,
        # and this process sent no request, the transaction was aborted and deleted.
        raise errors.TransactionAbortedError(
            txn_id=txn_id, reason="it was aborted before the commit arrived"
        )
    _log.info("the commit succeeded although its response was lost txn_id=%s", txn_id)
    return is_sure


def abort_quietly(client: MetastorePort, txn_id: TxnId) -> None:
    """Abort a transaction while an error is handled; log a failure instead of raising it."""
    try:
        client.abort_txn(txn_id)
    except errors.HiveAcidError as error:
        _log.warning(
            "cannot abort txn_id=%s; the server will abort it after the time-out: %s", txn_id, error
        )
    else:
        _log.info("aborted txn_id=%s", txn_id)

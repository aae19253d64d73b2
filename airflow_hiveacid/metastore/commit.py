"""Commits, and finds out what became of a commit whose answer was lost.

The one place that sends `commit_txn`. A lost answer is never followed by an abort: the commit may
have happened. The metastore itself knows: a write ID that is no longer open and was not aborted has
been committed.
"""

from __future__ import annotations

import enum
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    MetastoreCallError,
    MetastoreError,
    MetastoreLoginError,
    TransactionAbortedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.ids import TxnId, WriteId
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.port import MetastorePort

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


class Fate(enum.Enum):
    """What has become of a transaction."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"


def commit(  # noqa: PLR0913 -- two of them are bounds in time
    client: MetastorePort,
    txn_id: TxnId,
    write_ids: Mapping[TableRef, WriteId],
    *,
    patience_s: float,
    clock: Clock,
    timeout_s: float = math.inf,
) -> None:
    """Commit; on a lost answer, find out within `patience_s` what happened.

    `patience_s` must be shorter than the server takes to forget an aborted transaction, since a
    forgotten one looks committed. For the same reason nothing is believed to be committed because
    it is absent, if it was asked about `timeout_s` or more after the request: a process may stand
    still in between, for as long as it takes to be given up, cleaned up after, and forgotten.

    Raises:
        WriteConflictError: another transaction changed the same and was first.
        TransactionAbortedError: it had been aborted before.
        MetastoreLoginError: it is not committed, and will not be: nobody lets us ask for it.
        CommitStateUnknownError: it may be committed or not; nothing may be undone.
    """
    sent_s = clock.monotonic()
    request = _Request(client, txn_id)
    try:
        request.send()
    except MetastoreError as error:
        # An "internal error" is no answer either: it may have come after the database's commit.
        _log.warning("the answer to commit was lost txn_id=%s: %s", txn_id, error)
        try:
            is_sure = _settle(
                request, write_ids, deadline_s=clock.monotonic() + patience_s, clock=clock
            )
        except CommitStateUnknownError:
            if request.may_have_arrived:
                raise
            raise error from None
        asked_after_s = clock.monotonic() - sent_s
        if not is_sure and asked_after_s >= timeout_s:
            reason = (
                f"the metastore knows nothing against it, but was asked {asked_after_s:.0f} s"
                f" after the request; it gives transactions up after {timeout_s:.0f} s"
            )
            raise CommitStateUnknownError(txn_id=txn_id, reason=reason) from error


def fate_of(client: MetastorePort, txn_id: TxnId, write_ids: Mapping[TableRef, WriteId]) -> Fate:
    """Ask a fresh snapshot what became of a transaction; soon, since aborted ones are forgotten.

    Raises:
        MetastoreError: the metastore did not answer, or not clearly.
    """
    txns = client.valid_txns()
    if txn_id > txns.high_watermark:
        raise MetastoreCallError(
            method="get_open_txns", reason=f"it does not know transaction {txn_id}, which it opened"
        )
    # Not by the write IDs alone. 4.0.1 ends its list at the lowest that is not valid once the rows
    # of all committed ones are cleaned away, and ours may be above that: open; or committed, while
    # somebody who began later holds a lower one.
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
    """One transaction's commit. Mutable: it knows whether a request may have reached the server."""

    client: MetastorePort
    txn_id: TxnId
    may_have_arrived: bool = False

    def send(self) -> None:
        """Ask for the commit, as `commit_txn` does."""
        try:
            self.client.commit_txn(self.txn_id)
        except MetastoreLoginError:
            raise  # whom nobody lets in has sent nothing (Connection.call)
        except MetastoreError:
            self.may_have_arrived = True
            raise


def _settle(
    request: _Request,
    write_ids: Mapping[TableRef, WriteId],
    *,
    deadline_s: float,
    clock: Clock,
) -> bool:
    """Find out that it is committed; False if only its absence says so."""
    pause_s, txn_id = _FIRST_PAUSE_S, request.txn_id
    while True:
        try:
            return _settle_once(request, write_ids)
        except MetastoreError as error:
            if clock.monotonic() >= deadline_s:
                raise CommitStateUnknownError(txn_id=txn_id, reason=str(error)) from error
            _log.warning("cannot yet tell whether txn_id=%s is committed: %s", txn_id, error)
        clock.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _settle_once(request: _Request, write_ids: Mapping[TableRef, WriteId]) -> bool:
    is_sure, client, txn_id = False, request.client, request.txn_id
    fate = fate_of(client, txn_id, write_ids)
    if fate is Fate.OPEN:
        # The request did not arrive. If it is still on its way, the server makes one of the two.
        try:
            request.send()
            is_sure = True
        except TransactionAbortedError as error:
            # 3.1 forgets a committed transaction at once: "unknown" may mean the first one won, if
            # there was one.
            if (
                not request.may_have_arrived
                or fate_of(client, txn_id, write_ids) is not Fate.COMMITTED
            ):
                raise
            _log.info("committed by the first request txn_id=%s (%s)", txn_id, error)
    elif fate is Fate.ABORTED or not request.may_have_arrived:
        # Nobody else commits it: one that is not known any more was given up, and forgotten.
        raise TransactionAbortedError(
            txn_id=txn_id, reason="it was aborted before the commit arrived"
        )
    _log.info("the commit has happened after all txn_id=%s", txn_id)
    return is_sure


def abort_quietly(client: MetastorePort, txn_id: TxnId) -> None:
    """Abort on the way out of an error, which is the one worth raising."""
    try:
        client.abort_txn(txn_id)
    except HiveAcidError as error:
        _log.warning("cannot abort txn_id=%s, the server will after its timeout: %s", txn_id, error)
    else:
        _log.info("aborted txn_id=%s", txn_id)

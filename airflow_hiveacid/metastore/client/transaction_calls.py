"""Implementation of `TransactionPort` over Thrift: transactions, write IDs, snapshots.

The RetrySemantics annotations of Hive's TxnStore methods decide which calls may be repeated.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.metastore import process_user
from airflow_hiveacid.metastore.client.connection import Connection, Faults, Repeat
from airflow_hiveacid.metastore.gen.faults.ttypes import (
    NoSuchLockException,
    NoSuchTxnException,
    TxnAbortedException,
)
from airflow_hiveacid.metastore.gen.locks.ttypes import AddDynamicPartitions
from airflow_hiveacid.metastore.gen.transactions import ttypes
from airflow_hiveacid.metastore.port import OpenTxn, TxnState, TxnType
from airflow_hiveacid.metastore.wire import OPERATION_NUMBERS, received, seconds_of

_NOT_PLAIN: Final = re.compile(r"[^ -~]|['\\]")
_TYPES: Final = {kind: getattr(ttypes.TxnType, kind.name) for kind in TxnType}
_STATES: Final = {getattr(ttypes.TxnState, state.name): state for state in TxnState}
_MOST_OPEN: Final = "metastore.max.open.txns"
_CONFLICT: Final = "write conflict"
# Matches "... committed by [txnid:9,11] u/u" (CommitTxnFunction, TxnHandler.commitTxn).
_WINNER: Final = re.compile(r"committed by \[txnid:(\d+),")

_log = logging.getLogger(__name__)


class TransactionCalls:
    """A mixin of `MetastoreClient`; the client provides the connection."""

    _connection: Connection

    def open_txn(self, txn_type: TxnType = TxnType.DEFAULT) -> TxnId:
        request = ttypes.OpenTxnRequest(
            num_txns=1, user=user_name(self._connection), hostname=host_name()
        )
        if self._connection.generation is MetastoreGeneration.V4:
            request.txn_type = _TYPES[txn_type]
        # The call is repeated if its response is lost. Then a transaction of the first call stays
        # open until the server aborts it.
        try:
            answer = self._connection.call("open_txns", request, repeat=Repeat.SAFE)
        except errors.MetastoreInternalError as error:
            raise self._why_not_opened(error) from error
        return TxnId(answer.txn_ids[0])

    def _why_not_opened(
        self, error: errors.MetastoreInternalError
    ) -> errors.MetastoreInternalError:
        """Return the error, extended by the limit of open transactions if that is reached.

        The server opens transactions again below 90 % of the limit (TxnHandler.checkMaxOpenTxns).
        """
        try:
            count = len(self._txns([]).open)
            limit = int(self._connection.config_value(_MOST_OPEN, "0"))
        except (errors.MetastoreError, ValueError) as unknown:
            _log.debug("%s is unknown: %s", _MOST_OPEN, unknown)
            return error
        if not 0 < limit <= count / 0.9:
            return error
        return errors.MetastoreInternalError(
            uris=error.uris,
            method=error.method,
            reason=f"{error.reason}; {count} transactions are open, and {_MOST_OPEN} is {limit}, so"
            " it opens no further ones: see `transactions`, and end those of dead clients",
        )

    def commit_txn(self, txn_id: TxnId) -> None:
        # With the default (true), the server would skip the conflict check. Our shared locks need
        # this check.
        request = ttypes.CommitTxnRequest(txnid=txn_id, exclWriteEnabled=False)
        faults: Faults = {
            TxnAbortedException: lambda text: _aborted_or_conflict(txn_id, text),
            NoSuchTxnException: lambda text: _aborted(txn_id, text),
        }
        self._connection.call("commit_txn", request, repeat=Repeat.NEVER, faults=faults)

    def abort_txn(self, txn_id: TxnId) -> bool:
        request = ttypes.AbortTxnRequest(txnid=txn_id)
        try:
            self._connection.call(
                "abort_txn", request, repeat=Repeat.SAFE, faults=faults_of(txn_id)
            )
        except errors.TransactionAbortedError:
            return False
        return True

    def heartbeat(self, txn_id: TxnId) -> None:
        request = ttypes.HeartbeatRequest(txnid=txn_id)
        self._connection.call("heartbeat", request, repeat=Repeat.SAFE, faults=faults_of(txn_id))

    def allocate_write_id(self, txn_id: TxnId, ref: TableRef) -> WriteId:
        request = ttypes.AllocateTableWriteIdsRequest(
            dbName=ref.db, tableName=ref.name, txnIds=[txn_id]
        )
        try:
            answer = self._connection.call(
                "allocate_table_write_ids", request, repeat=Repeat.SAFE, faults=faults_of(txn_id)
            )
        except (errors.MetastoreCallError, errors.MetastoreUnavailableError):
            # For an aborted transaction 4.0.1 answers "internal error" and 3.1.3 disconnects.
            self.heartbeat(txn_id)  # raises TransactionAbortedError if it is aborted
            raise
        return WriteId(answer.txnToWriteIds[0].writeId)

    def valid_txns(self) -> ValidTxnList:
        return self._txns([])

    def open_but_compactions(self) -> frozenset[TxnId]:
        return frozenset(self._txns([_TYPES[TxnType.COMPACTION]]).open)

    def _txns(self, left_out: list[int]) -> ValidTxnList:
        """Return all transactions whose type is not in `left_out`; 3.1 has no transaction types."""
        if self._connection.generation is MetastoreGeneration.V4:
            # get_open_txns of 4.x omits read-only transactions, such as Hive's queries. So a
            # cleaner that used this call would remove files that these transactions still read.
            request = ttypes.GetOpenTxnsRequest(excludeTxnTypes=left_out)
            answer = self._connection.call("get_open_txns_req", request, repeat=Repeat.SAFE)
        else:
            answer = self._connection.call("get_open_txns", repeat=Repeat.SAFE)
        opened, aborted = _split(answer.open_txns, answer.abortedBits)
        return ValidTxnList(
            high_watermark=TxnId(answer.txn_high_water_mark),
            open=tuple(TxnId(i) for i in opened),
            aborted=tuple(TxnId(i) for i in aborted),
        )

    def valid_write_ids(
        self, refs: Iterable[TableRef], txns: ValidTxnList
    ) -> dict[TableRef, ValidWriteIdList]:
        unique_refs = sorted(set(refs))
        if not unique_refs:
            return {}
        request = ttypes.GetValidWriteIdsRequest(
            fullTableNames=[str(ref) for ref in unique_refs], validTxnList=txns.text()
        )
        answer = self._connection.call("get_valid_write_ids", request, repeat=Repeat.SAFE)
        lists = {}
        for item in answer.tblValidWriteIds:
            ref = TableRef.parse(item.fullTableName)
            opened, aborted = _split(item.invalidWriteIds, item.abortedBits)
            lists[ref] = ValidWriteIdList(
                table=ref,
                high_watermark=WriteId(item.writeIdHighWaterMark),
                open=tuple(WriteId(i) for i in opened),
                aborted=tuple(WriteId(i) for i in aborted),
                min_open_write_id=item.minOpenWriteId,
            )
        if set(lists) != set(unique_refs):
            missing = ", ".join(str(ref) for ref in unique_refs if ref not in lists)
            raise errors.MetastoreCallError(
                method="get_valid_write_ids", reason=f"the response lacks {missing}"
            )
        return lists

    def max_write_id(self, ref: TableRef) -> WriteId:
        if self._connection.generation is MetastoreGeneration.V4:
            request = ttypes.MaxAllocatedTableWriteIdRequest(dbName=ref.db, tableName=ref.name)
            with suppress(errors.MetastoreVersionError):
                answer = self._connection.call(
                    "get_max_allocated_table_write_id", request, repeat=Repeat.SAFE
                )
                return WriteId(answer.maxWriteId)
        return self.valid_write_ids([ref], self.valid_txns())[ref].high_watermark

    def add_write_ids_to_min_history(
        self, txn_id: TxnId, lowest: Mapping[TableRef, WriteId]
    ) -> None:
        if self._connection.generation is MetastoreGeneration.V4:
            # The cleaner of a server without this call follows the lowest open transaction.
            by_name = {str(ref): int(write_id) for ref, write_id in lowest.items()}
            with suppress(errors.MetastoreVersionError):
                self._connection.call(
                    "add_write_ids_to_min_history", txn_id, by_name, repeat=Repeat.SAFE
                )

    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        ref: TableRef,
        names: Sequence[PartitionName],
        operation: DataOperation,
    ) -> None:
        method = "add_dynamic_partitions"

        def send(part: Sequence[PartitionName]) -> None:
            request = AddDynamicPartitions(
                txnid=txn_id,
                writeid=write_id,
                dbname=ref.db,
                tablename=ref.name,
                partitionnames=[str(name) for name in part],
                operationType=OPERATION_NUMBERS[operation],
            )
            self._connection.call(method, request, repeat=Repeat.SAFE, faults=faults_of(txn_id))

        if not names:  # removes the record of a write of the whole table
            send(())
        # The server adds a call's records to those of earlier calls of the transaction.
        for _ in self._connection.calls_for(method, names, len(names), send):
            pass

    def open_txns_info(self) -> tuple[OpenTxn, ...]:
        answer = self._connection.call("get_open_txns_info", repeat=Repeat.SAFE)
        with self._connection.translating("get_open_txns_info"):
            txns = [
                OpenTxn(
                    txn_id=TxnId(item.id),
                    state=received(_STATES, TxnState, item.state, what="state"),
                    user=item.user,
                    host=item.hostname,
                    started_s=seconds_of(item.startedTime),
                    last_heartbeat_s=seconds_of(item.lastHeartbeatTime),
                )
                for item in answer.open_txns
            ]
        return tuple(sorted(txns, key=lambda txn: txn.txn_id))


def user_name(connection: Connection) -> str:
    """Return the user name to send: the endpoint's user or, by default, the process's user."""
    return plain(connection.endpoint.user or process_user())


def host_name() -> str:
    """Return the name of this host to send."""
    return plain(socket.gethostname())


def plain(text: str) -> str:
    r"""Return a text that every server can store, with `?` for each other character.

    Some databases store these columns in a one-byte character set, so only ASCII stays. Hive 3.1
    puts the texts between quotes into its SQL (`TxnHandler.quoteString`), so no quote stays, and no
    backslash, which is an escape character of MySQL.

    Example:
        >>> plain("Bob's job \\ \u00e9t\u00e9")
        'Bob?s job ? ?t?'
    """
    return _NOT_PLAIN.sub("?", text)


def faults_of(txn_id: TxnId) -> Faults:
    """Return the faults of a call that an aborted transaction cannot make."""

    def aborted(text: str) -> errors.HiveAcidError:
        return _aborted(txn_id, text)

    return dict.fromkeys((TxnAbortedException, NoSuchTxnException, NoSuchLockException), aborted)


def _aborted(txn_id: TxnId, text: str) -> errors.TransactionAbortedError:
    return errors.TransactionAbortedError(txn_id=txn_id, reason=text)


def _aborted_or_conflict(txn_id: TxnId, text: str) -> errors.HiveAcidError:
    # Only this function interprets an error message. The server raises the same exception class for
    # a conflict and for a timed-out transaction (TxnHandler.commitTxn, "due to a write conflict").
    # In both cases, the server committed nothing. If Hive changes the message, only our error
    # becomes less precise.
    if _CONFLICT in text:
        match = _WINNER.search(text)
        winner = errors.Winner(txn_id=int(match[1])) if match else None
        return errors.WriteConflictError(txn_id=txn_id, reason=text, winner=winner)
    return _aborted(txn_id, text)


def _split(ids: Sequence[int], aborted_bits: bytes) -> tuple[list[int], list[int]]:
    """Split IDs into open and aborted; a java.util.BitSet marks the positions of aborted IDs."""
    aborted = {
        8 * index + bit
        for index, byte in enumerate(aborted_bits)
        for bit in range(8)
        if byte >> bit & 1
    }
    opened = [i for index, i in enumerate(ids) if index not in aborted]
    return opened, [i for index, i in enumerate(ids) if index in aborted]

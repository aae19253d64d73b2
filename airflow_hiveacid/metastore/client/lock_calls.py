"""Implementation of `LockPort` over Thrift."""

from __future__ import annotations

from thrift.Thrift import TApplicationException

from airflow_hiveacid.format.conflicts import LockState, LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreCallError, MetastoreInternalError
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.client.connection import Connection, Faults, Repeat
from airflow_hiveacid.metastore.client.transaction_calls import (
    faults_of,
    host_name,
    plain,
    user_name,
)
from airflow_hiveacid.metastore.gen.faults.ttypes import NoSuchLockException, TxnOpenException
from airflow_hiveacid.metastore.gen.locks import ttypes
from airflow_hiveacid.metastore.locks import LockComponent, LockInfo, LockRequest, LockResponse
from airflow_hiveacid.metastore.wire import (
    LOCK_LEVEL_NUMBERS,
    LOCK_STATES,
    LOCK_TYPE_NUMBERS,
    LOCK_TYPES,
    OPERATION_NUMBERS,
    Struct,
    received,
    seconds_of,
)


class LockCalls:
    """A mixin of `MetastoreClient`; the client provides the connection."""

    _connection: Connection

    def lock(self, request: LockRequest) -> LockResponse:
        wire = ttypes.LockRequest(
            component=[_component(c) for c in request.components],
            txnid=request.txn_id,
            user=user_name(self._connection),
            hostname=host_name(),
            agentInfo=plain(request.agent_info),
        )
        # The call `lock` declares no exception for a lost database connection. The server then
        # reports an internal error. Then the caller aborts the transaction. The abort also releases
        # a lock that was granted.
        faults = {**faults_of(request.txn_id), TApplicationException: self._lost_database}
        answer = self._connection.call("lock", wire, repeat=Repeat.NEVER, faults=faults)
        return _response(answer)

    def check_lock(self, lock_id: LockId, txn_id: TxnId) -> LockResponse:
        wire = ttypes.CheckLockRequest(lockid=lock_id, txnid=txn_id)
        answer = self._connection.call(
            "check_lock", wire, repeat=Repeat.SAFE, faults=faults_of(txn_id)
        )
        return _response(answer)

    def unlock(self, lock_id: LockId) -> None:
        # Either the lock no longer exists, or it was granted before this call. A granted lock is
        # released at the end of the transaction.
        faults: Faults = {
            NoSuchLockException: _AlreadySettledError,
            TxnOpenException: _AlreadySettledError,
        }
        try:
            wire = ttypes.UnlockRequest(lockid=lock_id)
            self._connection.call("unlock", wire, repeat=Repeat.SAFE, faults=faults)
        except _AlreadySettledError:
            return

    def show_locks(
        self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        wire = ttypes.ShowLocksRequest()
        if ref is not None:
            wire.dbname, wire.tablename = ref.db, ref.name
        if txn_id is not None and self._connection.generation is MetastoreGeneration.V4:
            wire.txnid = txn_id
        answer = self._connection.call("show_locks", wire, repeat=Repeat.SAFE)
        with self._connection.translating("show_locks"):
            locks = [_info(item) for item in answer.locks or ()]
        return tuple(lock for lock in locks if txn_id is None or lock.txn_id == txn_id)

    def _lost_database(self, text: str) -> MetastoreInternalError:
        return MetastoreInternalError(
            uris=self._connection.endpoint.uris, method="lock", reason=text
        )


class _AlreadySettledError(MetastoreCallError):
    def __init__(self, text: str) -> None:
        super().__init__(method="unlock", reason=text)


def _component(component: LockComponent) -> Struct:
    return ttypes.LockComponent(
        type=LOCK_TYPE_NUMBERS[component.lock_type],
        level=LOCK_LEVEL_NUMBERS[component.level],
        dbname=component.table.db,
        tablename=component.table.name,
        partitionname=None if component.partition is None else str(component.partition),
        operationType=OPERATION_NUMBERS[component.operation],
        isTransactional=component.is_transactional,
        isDynamicPartitionWrite=component.is_dynamic_partition_write,
    )


def _response(answer: Struct) -> LockResponse:
    state, message = LOCK_STATES.get(answer.state), answer.errorMessage
    if state is None:  # A newer server may have further states. Treat such a lock as not granted.
        state, message = LockState.NOT_ACQUIRED, message or f"it is in state {answer.state}"
    return LockResponse(lock_id=LockId(answer.lockid), state=state, message=message)


def _info(item: Struct) -> LockInfo:
    return LockInfo(
        lock_id=LockId(item.lockid),
        txn_id=TxnId(item.txnid) if item.txnid else None,
        db=item.dbname,
        table=item.tablename,
        partition=item.partname,
        state=received(LOCK_STATES, LockState, item.state, what="state"),
        lock_type=received(LOCK_TYPES, LockType, item.type, what="type"),
        user=item.user,
        host=item.hostname,
        agent_info=item.agentInfo or "",
        acquired_s=seconds_of(item.acquiredat),
        blocked_by=LockId(item.blockedByExtId) if item.blockedByExtId else None,
    )

"""Implementation of `QueuePort`, the compaction queue, over Thrift.

Of these methods, Hive 3.1 supports only `request_compaction` and `show_compactions`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import PartitionName, TableRef, escape_partition_value
from airflow_hiveacid.metastore import compaction_queue
from airflow_hiveacid.metastore.client.connection import Connection, Repeat
from airflow_hiveacid.metastore.client.transaction_calls import plain, user_name
from airflow_hiveacid.metastore.gen.compaction import ttypes
from airflow_hiveacid.metastore.wire import (
    COMPACTION_TYPE_NUMBERS,
    COMPACTION_TYPES,
    Struct,
    received,
    seconds_of,
)

_INITIATOR: Final = "airflow-provider-hiveacid"
_TYPE: Final = "type"

_log = logging.getLogger(__name__)


class QueueCalls:
    """A mixin of `MetastoreClient`; the client provides the connection."""

    _connection: Connection

    def request_compaction(
        self,
        ref: TableRef,
        partition: PartitionName | None,
        compaction_type: compaction_queue.CompactionType,
        *,
        pool: str | None = None,
    ) -> compaction_queue.CompactionResponse:
        wire = ttypes.CompactionRequest(
            dbname=ref.db,
            tablename=ref.name,
            partitionname=_text(partition),
            type=COMPACTION_TYPE_NUMBERS[compaction_type],
        )
        if self._connection.generation is MetastoreGeneration.V4:
            wire.poolName = pool
            wire.initiatorId = f"{user_name(self._connection)}-{_INITIATOR}"
        elif pool is not None:
            raise errors.MetastoreVersionError(
                f"compaction pool {pool!r}: the queue of Hive 3.1 has no pools; leave the pool out"
            )
        answer = self._connection.call("compact2", wire, repeat=Repeat.SAFE)
        return compaction_queue.CompactionResponse(
            entry_id=answer.id if answer.id > 0 else None,
            accepted=answer.accepted,
            state=compaction_queue.CompactionState.received(answer.state),
            message=answer.errormessage,
        )

    def show_compactions(
        self, ref: TableRef | None = None, partition: PartitionName | None = None
    ) -> tuple[compaction_queue.CompactionEntry, ...]:
        wire = ttypes.ShowCompactRequest()
        if ref is not None:  # 3.1 ignores these fields
            wire.dbName, wire.tbName, wire.partName = ref.db, ref.name, _text(partition)
        answer = self._connection.call("show_compact", wire, repeat=Repeat.SAFE)
        # 3.1 returns the whole queue. The queue may hold several entries for each partition of each
        # table.
        may_be = _look_for(ref, partition)
        with self._connection.translating("show_compact"):
            entries = [_entry(item) for item in answer.compacts if may_be(item)]
        return tuple(
            e
            for e in entries
            if e is not None and ref in (None, e.table) and partition in (None, e.partition)
        )

    def find_next_compaction(
        self, worker_id: str, *, worker_version: str, pool: str | None = None
    ) -> compaction_queue.ClaimedCompaction | None:
        wire = ttypes.FindNextCompactRequest(
            workerId=plain(worker_id), workerVersion=worker_version, poolName=pool
        )
        compaction = self._connection.call("find_next_compact2", wire, repeat=Repeat.NEVER).ci
        with self._connection.translating("find_next_compact2"):
            return None if compaction is None else _claim(compaction)

    def update_compactor_state(
        self, claim: compaction_queue.ClaimedCompaction, txn_id: TxnId
    ) -> None:
        # The cleaner of 4.0.1 fails on an entry without a user (CompactorUtil.runJobAsSelf). This
        # cleaner then removes nothing, but still marks the entry as succeeded.
        struct = _struct(replace(claim, run_as=claim.run_as or user_name(self._connection)))
        self._connection.call("update_compactor_state", struct, txn_id, repeat=Repeat.SAFE)

    def set_job_id(self, claim: compaction_queue.ClaimedCompaction, job_id: str) -> None:
        fitting = compaction_queue.fitting_job_id(job_id)
        self._connection.call("set_hadoop_jobid", fitting, claim.entry_id, repeat=Repeat.SAFE)

    def mark_compacted(self, claim: compaction_queue.ClaimedCompaction) -> None:
        self._connection.call("mark_compacted", _struct(claim), repeat=Repeat.SAFE)

    def mark_cleaned(self, claim: compaction_queue.ClaimedCompaction) -> None:
        if not claim.highest_write_id:
            # Without a highest write ID, the server would also forget writes that are not cleaned
            # up yet.
            raise ValueError(f"compaction {claim.entry_id} has no highest write ID to clean up to")
        struct = _struct(claim)
        try:
            self._connection.call("mark_cleaned", struct, repeat=Repeat.NEVER)
        except errors.MetastoreCallError:
            if struct.partitionname is not None:
                raise
            # On PostgreSQL, 4.0.1 always fails if the partition is NULL ("could not determine data
            # type of parameter"). With an empty name the entry ends. The server then keeps its
            # records of the table's aborted writes, which only makes its lists longer.
            struct.partitionname = ""
            self._connection.call("mark_cleaned", struct, repeat=Repeat.NEVER)

    def mark_failed(self, claim: compaction_queue.ClaimedCompaction) -> None:
        self._connection.call("mark_failed", _struct(claim), repeat=Repeat.NEVER)

    def mark_refused(self, claim: compaction_queue.ClaimedCompaction) -> None:
        self._connection.call("mark_refused", _struct(claim), repeat=Repeat.NEVER)


def _text(partition: PartitionName | None) -> str | None:
    return None if partition is None or not partition.columns else str(partition)


def _type(item: Struct) -> compaction_queue.CompactionType:
    return received(COMPACTION_TYPES, compaction_queue.CompactionType, item.type, what=_TYPE)


def _number(kind: compaction_queue.CompactionType) -> int:
    # A claim goes back to the server as it came, also if its type is unknown.
    return COMPACTION_TYPE_NUMBERS[kind] if kind.is_known else int(kind.value.removeprefix(_TYPE))


def _partition(text: str | None) -> PartitionName | None:
    return PartitionName.parse(text) if text else None


def _look_for(ref: TableRef | None, partition: PartitionName | None) -> Callable[[Struct], bool]:
    """Return a fast filter that excludes most entries of other tables and partitions."""
    values = () if partition is None else partition.directory_values
    # Compare case-insensitively, and skip values that need escaping in a partition name.
    as_they_are = [v.lower() for v in values if escape_partition_value(v) == v]

    def may_be(item: Struct) -> bool:
        if ref is not None and (item.dbname, item.tablename) != (ref.db, ref.name):
            return False
        text = (item.partitionname or "").lower()
        return all(value in text for value in as_they_are)

    return may_be


def _entry(item: Struct) -> compaction_queue.CompactionEntry | None:
    try:
        table, partition = TableRef(item.dbname, item.tablename), _partition(item.partitionname)
    except errors.InvalidNameError as error:
        _log.debug("ignored compaction %s: %s", item.id, error)
        return None
    # 3.1 returns the highest write ID in the field `hightestTxnId`; 4.x sets both fields.
    highest = item.hightestWriteId or item.hightestTxnId
    return compaction_queue.CompactionEntry(
        entry_id=item.id,
        table=table,
        partition=partition,
        compaction_type=_type(item),
        state=compaction_queue.CompactionState.received(item.state),
        worker_id=item.workerid,
        worker_version=item.workerVersion,
        initiator_id=item.initiatorId,
        run_as=item.runAs,
        pool=item.poolName,
        job_id=item.hadoopJobId,
        error_message=item.errorMessage,
        highest_write_id=WriteId(highest) if highest else None,
        txn_id=TxnId(item.txnId) if item.txnId else None,
        next_txn_id=TxnId(item.nextTxnId) if item.nextTxnId else None,
        enqueued_s=seconds_of(item.enqueueTime),
        started_s=seconds_of(item.start),
        ended_s=seconds_of(item.endTime),
        committed_s=seconds_of(item.commitTime),
    )


def _claim(compaction: Struct) -> compaction_queue.ClaimedCompaction:
    return compaction_queue.ClaimedCompaction(
        entry_id=compaction.id,
        table=TableRef(compaction.dbname, compaction.tablename),
        partition=_partition(compaction.partitionname),
        compaction_type=_type(compaction),
        run_as=compaction.runas,
        properties=compaction.properties,
        has_too_many_aborts=compaction.toomanyaborts,
        has_old_abort=compaction.hasoldabort,
        state=compaction.state,
        worker_id=compaction.workerId,
        start_ms=compaction.start,
        highest_write_id=WriteId(compaction.highestWriteId) if compaction.highestWriteId else None,
        error_message=compaction.errorMessage,
        enqueued_ms=compaction.enqueueTime,
        retry_retention=compaction.retryRetention,
        pool=compaction.poolname,
    )


def _struct(claim: compaction_queue.ClaimedCompaction) -> Struct:
    return ttypes.CompactionInfoStruct(
        id=claim.entry_id,
        dbname=claim.table.db,
        tablename=claim.table.name,
        partitionname=_text(claim.partition),
        type=_number(claim.compaction_type),
        runas=claim.run_as,
        properties=claim.properties,
        toomanyaborts=claim.has_too_many_aborts,
        state=claim.state,
        workerId=claim.worker_id,
        start=claim.start_ms,
        highestWriteId=claim.highest_write_id,
        # Some databases store it in a one-byte character set, and PostgreSQL refuses NUL. In 4.x,
        # it is a parameter of the SQL, so quotes and line ends may stay, unlike in `plain`.
        errorMessage=re.sub(r"[^\x01-\x7f]", "?", claim.error_message or "") or None,
        hasoldabort=claim.has_old_abort,
        enqueueTime=claim.enqueued_ms,
        retryRetention=claim.retry_retention,
        poolname=claim.pool,
    )

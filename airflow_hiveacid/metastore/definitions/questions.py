"""The results of SHOW COMPACTIONS, SHOW TRANSACTIONS, SHOW LOCKS and ABORT TRANSACTIONS.

Each row is a mapping of JSON values. Times are ISO 8601 strings in UTC. Values that the server does
not report are omitted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs import metastore_statements as statements
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
from airflow_hiveacid.metastore.definitions.partitions import whole_partition
from airflow_hiveacid.metastore.locks import LockInfo, concerning
from airflow_hiveacid.metastore.port import MetastorePort, OpenTxn

_LONGEST_MESSAGE = 500

Row = dict[str, Any]


def answer(client: MetastorePort, statement: statements.MetastoreStatement) -> Sequence[Row]:
    """Return the rows of a query, in the server's order."""
    match statement:
        case statements.ShowCompactions():
            ref, partition = _table_and_partition(client, statement.target, statement.partition)
            return [_compaction(entry) for entry in client.show_compactions(ref, partition)]
        case statements.ShowTransactions():
            return [_transaction(txn) for txn in client.open_txns_info()]
        case statements.ShowLocks():
            ref, partition = _table_and_partition(client, statement.target, statement.partition)
            locks = concerning(client.show_locks(), ref)
            name = None if partition is None else str(partition).lower()
            return [_lock(k) for k in locks if name in (None, (k.partition or "").lower())]
        case statements.AbortTransactions():
            return [
                {"txn_id": txn_id, "is_aborted": client.abort_txn(TxnId(txn_id))}
                for txn_id in statement.txn_ids
            ]
        case _:
            raise ConfigurationError(f"{statement.kind} is not a query of the metastore")


def _table_and_partition(
    client: MetastorePort, target: str, values: statements.PartitionValues
) -> tuple[TableRef | None, PartitionName | None]:
    if not target:
        return None, None
    table = client.get_table(TableRef.parse(target))
    return table.ref, whole_partition(table, values) if values else None


def _compaction(entry: CompactionEntry) -> Row:
    message = (entry.error_message or "")[:_LONGEST_MESSAGE]
    return _without_blanks(
        {
            "id": entry.entry_id,
            "table": str(entry.table),
            "partition": None if entry.partition is None else str(entry.partition),
            "type": entry.compaction_type.value,
            "state": entry.state.value,
            "worker": entry.worker_id,
            "enqueued": _moment(entry.enqueued_s),
            "started": _moment(entry.started_s),
            "ended": _moment(entry.ended_s),
            "highest_write_id": entry.highest_write_id,
            "txn_id": entry.txn_id,
            "pool": entry.pool,
            "error": message,
        }
    )


def _transaction(txn: OpenTxn) -> Row:
    return _without_blanks(
        {
            "txn_id": txn.txn_id,
            "state": txn.state.value,
            "started": _moment(txn.started_s),
            "last_heartbeat": _moment(txn.last_heartbeat_s),
            "user": txn.user,
            "host": txn.host,
        }
    )


def _lock(lock: LockInfo) -> Row:
    return _without_blanks(
        {
            "lock_id": lock.lock_id,
            "table": ".".join(n for n in (lock.db, lock.table) if n),
            "partition": lock.partition,
            "state": lock.state.value,
            "type": lock.lock_type.value,
            "txn_id": lock.txn_id,
            "blocked_by": lock.blocked_by,
            "acquired": _moment(lock.acquired_s),
            "user": lock.user,
            "host": lock.host,
            "agent_info": lock.agent_info,
        }
    )


def _moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _without_blanks(row: Row) -> Row:
    return {name: value for name, value in row.items() if value not in (None, "")}

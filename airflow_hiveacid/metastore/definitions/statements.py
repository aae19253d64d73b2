"""Statements that the metastore itself runs: changes of definitions, and queries of its state.

A change compares the current state with the requested state, takes locks, compares again, and then
acts. So a repeated statement changes nothing, and a conflicting change by a different client is
detected. `Before` records the state right before the change: after an earlier try that may have
made it, a state such as "the table exists" means success, not an error. See
docs/decisions/definitions.md.

Each row of an answer is a mapping of JSON values. Times are ISO 8601 strings in UTC. Values that
the server does not report are omitted.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

from airflow_hiveacid.format.errors import ConfigurationError, HiveAcidError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs import metastore_statements as statements
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
from airflow_hiveacid.metastore.definitions import Before, DefinitionOutcome, DefinitionWork, tables
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockInfo,
    LockRequest,
    components_to_define,
    concerning,
)
from airflow_hiveacid.metastore.port import MetastorePort, OpenTxn
from airflow_hiveacid.metastore.transactions import JobTerms, fencing
from airflow_hiveacid.metastore.transactions.commit import commit
from airflow_hiveacid.metastore.transactions.heartbeat import open_beating
from airflow_hiveacid.metastore.transactions.lock_wait import acquire

_LONGEST_MESSAGE = 500

Row = dict[str, Any]


def answer(client: MetastorePort, statement: statements.MetastoreStatement) -> Sequence[Row]:
    """Return the rows of a query in the server's order, or abort transactions and list them."""
    match statement:
        case statements.ShowCompactions():
            ref, partition = _table_and_partition(client, statement.target, statement.partition)
            return [_compaction(entry) for entry in client.show_compactions(ref, partition)]
        case statements.ShowTransactions():
            return [_transaction(txn) for txn in client.open_txns_info()]
        case statements.ShowLocks():
            ref, partition = _table_and_partition(client, statement.target, statement.partition)
            locks = concerning(client.show_locks(), ref)
            # 3.1 lists names in lower case. Without a partition, all these locks are listed.
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
    return table.ref, tables.whole_partition(table, values) if values else None


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
            "table": lock.full_name,
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


_log = logging.getLogger(__name__)

AroundDrop = Callable[
    [MetastorePort, TableRef, Sequence[PartitionName]], AbstractContextManager[None]
]


CheckOwner = Callable[[MetastorePort, TableRef, Sequence[PartitionName]], None]
_CONCERNS_FILES: Final = (
    statements.AddPartitions,
    statements.DropTable,
    statements.DropPartitions,
    statements.RenameTable,
)


def run_statement(  # noqa: PLR0913 - the statement, an earlier try, and three callbacks
    client: MetastorePort,
    statement: statements.MetastoreStatement,
    terms: JobTerms,
    *,
    before: Before | None = None,
    on_begin: Callable[[Before], None] = lambda _: None,
    around_drop: AroundDrop = lambda *_: nullcontext(),
    check_owner: CheckOwner = lambda *_: None,
) -> DefinitionOutcome:
    """Create, change or drop a database, table or partition, or answer a query.

    `before` is what an earlier try passed to `on_begin`, if that try may have made the change.
    `on_begin` is called directly before the call that makes the change. The statement drops
    partitions inside the context manager of `around_drop`, while it holds their locks.
    A drop, a rename or ADD PARTITION calls `check_owner` before the statement's lock, because a
    store may answer late; no partitions mean the whole table. If the table or the partitions are
    others under the lock, `check_owner` is called again. Its error ends the statement.

    Raises InputError if the current state does not allow the change; then nothing was changed.
    After a MetastoreUnavailableError, the change may have been made.
    """
    if statement.asks_only:
        return DefinitionOutcome(rows=answer(client, statement))
    work = _work(client, statement, before)
    if work is None:
        return DefinitionOutcome()
    ref = work.ref
    if ref is None:
        on_begin(work.before)
        work.do()
        return DefinitionOutcome(has_changed=True, partitions=work.partitions)
    concerns_files = isinstance(statement, _CONCERNS_FILES)
    if concerns_files:
        check_owner(client, ref, work.partitions)
    components = components_to_define(
        ref, work.locked_partitions, work.lock_type, client.generation
    )
    with locked(client, components, terms) as txn_id:
        # A different client may have held the lock before, and changed the definition.
        checked, work = work, _work(client, statement, before)
        if work is None:
            return DefinitionOutcome(txn_id=txn_id)
        is_other = (work.before, work.partitions) != (checked.before, checked.partitions)
        if concerns_files and is_other:
            check_owner(client, ref, work.partitions)
        is_drop = isinstance(statement, statements.DropPartitions)
        with around_drop(client, ref, work.partitions) if is_drop else nullcontext():
            on_begin(work.before)
            # Raise an error if the locks are lost: stores, and `on_begin`, may have been slow.
            client.heartbeat(txn_id)
            work.do()
    return DefinitionOutcome(has_changed=True, txn_id=txn_id, partitions=work.partitions)


def _work(  # noqa: C901, PLR0911 - one line for each kind of statement
    client: MetastorePort, statement: statements.MetastoreStatement, before: Before | None
) -> DefinitionWork | None:
    match statement:
        case statements.CreateDatabase():
            return tables.create_database(client, statement, before)
        case statements.CreateTable():
            return tables.create_table(client, statement, before)
        case statements.DropTable():
            return tables.drop_table(client, statement, before)
        case statements.AddColumns():
            return tables.add_columns(client, statement, before)
        case statements.ChangeColumn():
            return tables.change_column(client, statement)
        case statements.RenameTable():
            return tables.rename_table(client, statement, before)
        case statements.SetProperties():
            return tables.set_properties(client, statement)
        case statements.UnsetProperties():
            return tables.unset_properties(client, statement, before)
        case statements.AddPartitions():
            return tables.add_partitions(client, statement, before)
        case statements.DropPartitions():
            return tables.drop_partitions(client, statement, before)
        case _:
            raise ConfigurationError(f"{statement.kind} is not a change of a definition")


@contextmanager
def locked(
    client: MetastorePort, components: Sequence[LockComponent], terms: JobTerms
) -> Iterator[TxnId]:
    """Hold these locks in a transaction during the `with` block; yield the transaction's ID.

    As in Hive (DbTxnManager), a transaction holds the locks. But the definitions change
    immediately, not when it commits, so an abort does not undo any change. No step is reported to
    `terms.on_step`. Heartbeats are sent at half of the server's time-out.
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
    fencing_token = fencing.FencingToken.of(terms, txn_id)
    acquire(
        client,
        LockRequest(
            txn_id=txn_id,
            components=tuple(components),
            agent_info=fencing.agent_info_of(fencing_token),
        ),
        timeout_s=terms.lock_timeout_s,
        clock=terms.clock,
        on_enqueued=lambda: (
            fencing_token is not None
            and fencing.fence(client, fencing_token, txn_id, fencing.locks_on(client, refs))
        ),
    )

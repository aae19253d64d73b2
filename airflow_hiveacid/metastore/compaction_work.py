"""One compaction as the metastore sees it: its transaction, and its entry in the queue.

Takes what is to be compacted and, on 4.x, the claimed entry; gives the write IDs that a compactor
may touch. No write ID is allocated: the result takes the place of what it was made from. The order
is that of Hive's Worker: transaction, shared lock, snapshot, `update_compactor_state`, the work,
`mark_compacted`, commit. On 3.1, whose queue outsiders cannot serve, only the transaction is left.

Example:
    with compacting(client, table=table, partition=name, claim=claim, job_key=key, ...) as work:
        rewrite(work.write_ids)
"""

from __future__ import annotations

import dataclasses
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import CommitStateUnknownError, MetastoreError
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.metastore.txn_values import TxnType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.compaction_queue import ClaimedCompaction
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction

# COMPACTION_QUEUE.CQ_ERROR_MESSAGE is text without a bound; a stack trace has no place in it.
_LONGEST_MESSAGE: Final = 2000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWork:
    """An open compaction: what may be compacted is what `write_ids` shows."""

    txn: Transaction
    write_ids: CompactorWriteIdList


@contextmanager
def compacting(  # noqa: PLR0913 -- as transaction.begin
    client: MetastorePort,
    *,
    table: TableInfo,
    partition: PartitionName | None,
    claim: ClaimedCompaction | None,
    job_key: str | None,
    lock_timeout_s: float,
    heartbeat_s: float | None = None,
    run_as: str | None = None,
    clock: Clock | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[CompactionWork]:
    """Run a body as one compaction; when it raises, the entry is marked as failed.

    `Transaction.abandon` inside the body ends the transaction and leaves the entry to the caller,
    who says why with `mark_refused`. `run_as` is whom the server's cleaner acts as; None is the
    entry's own user, or ours. The other arguments and errors are those of `transaction.begin`.
    """
    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=(partition,) if partition is not None and partition.columns else None,
    )
    transaction = begin(
        client,
        job_key=job_key,
        reads=[access],
        lock_timeout_s=lock_timeout_s,
        heartbeat_s=heartbeat_s,
        txn_type=TxnType.COMPACTION,
        clock=clock,
        on_step=on_step,
    )
    try:
        with transaction as txn:
            write_ids = CompactorWriteIdList.of(txn.snapshot.write_ids(table.ref))
            if claim is not None:
                claim = dataclasses.replace(
                    claim,
                    highest_write_id=write_ids.high_watermark,
                    run_as=run_as or claim.run_as,
                )
                client.update_compactor_state(claim, txn.txn_id)
            yield CompactionWork(txn=txn, write_ids=write_ids)
            if claim is not None and not txn.is_ended:
                client.mark_compacted(claim)
    except CommitStateUnknownError:
        raise  # if it was committed after all, the entry waits for the cleaner and is right
    except BaseException as error:
        if claim is not None:
            _mark_failed(client, claim, error)
        raise


def _mark_failed(client: MetastorePort, claim: ClaimedCompaction, error: BaseException) -> None:
    message = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
    try:
        client.mark_failed(dataclasses.replace(claim, error_message=message))
    except MetastoreError as refusal:
        # The server gives "working" entries of dead workers back after a day.
        _log.warning("cannot mark compaction %s as failed: %s", claim.entry_id, refusal)

"""One write: its states, and how an abort undoes its changes.

A write may change several tables; `table_write` changes each of them. The methods of `Write` are in
the order of these states; each method moves all tables to the next state:

| state | what is true |
| --- | --- |
| begun | the transaction has its locks and its snapshot; no table has changed since the check |
| staged | every file of a statement is in staging, where no reader looks |
| registered | the metastore has a record of the changed partitions |
| verified | the metastore confirmed that the transaction is open; no newer base hides the files |
| noted | every table's ledger records the directories that will be published, and the job |
| published | every directory has its final name; readers ignore the open write IDs |
| settled, committed | the transaction is committed; the ledgers confirm it |

If the transaction is known to be aborted, only this write's changes are undone: the renamed
directories, the staging and the ledger entries. If the outcome of the commit is unknown, all files
stay. `writing` chooses between these two cases only by the transaction's state
(`Transaction.on_abort`).
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.records import LedgerEntry, doubt_without_twins
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from airflow_hiveacid.storage.stores.job_ledger import ROLL, entry_name
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.writing.publish import StagedDirectory
from airflow_hiveacid.writing.table_write import TableWrite, WriteOrder

log = logging.getLogger("hiveacid")

_GONE: Final = (
    "it was about to commit, and its published files no longer exist: they were compacted after a"
    " commit, or cleaned after an abort"
)
_DAMAGED: Final = "its entry in the table's _hiveacid directory is damaged"


def run_unknown(
    ref: TableRef, entry: LedgerEntry, *, is_batch: bool
) -> errors.EarlierRunUnknownError:
    """Return the error for an entry, of a stream's batch or not, that `Ledger` is not sure of."""
    return errors.EarlierRunUnknownError(
        table=ref,
        job_key=entry.job_key,
        txn_id=entry.txn_id,
        when=entry.when,
        why=f"{entry.doubt or (_GONE if entry.is_legible else _DAMAGED)}. The entry is"
        f" {HIDDEN_DIRECTORY}/{entry_name(entry)} or a line of a file {ROLL}* beside it",
        is_batch=is_batch,
    )


class WriteState(enum.Enum):
    """The states of a write."""

    BEGUN = enum.auto()
    STAGED = enum.auto()
    REGISTERED = enum.auto()
    VERIFIED = enum.auto()
    NOTED = enum.auto()
    PUBLISHED = enum.auto()
    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    UNKNOWN = enum.auto()


class Write:
    """One write in progress. Mutable: it stores its state."""

    def __init__(self, client: MetastorePort, txn: MetastoreTransaction, order: WriteOrder) -> None:
        self.txn = txn
        self.state = WriteState.BEGUN
        self._order = order
        self._tables = {a.ref: TableWrite(client, txn, order, a) for a in order.accesses}

    @property
    def tables(self) -> Mapping[TableRef, TableWrite]:
        """The part of the write for each table, in processing order."""
        return MappingProxyType(self._tables)

    @property
    def reads(self) -> tuple[TableAccess, ...]:
        """The tables that are only read."""
        return self._order.reads

    @property
    def is_batch(self) -> bool:
        """Whether a batch of a stream is written."""
        return self._order.run.batch is not None

    @property
    def directories(self) -> tuple[StagedDirectory, ...]:
        """The directories that have been staged and will be published, in all tables."""
        return tuple(d for table in self._tables.values() for d in table.directories)

    def check_tables(self) -> None:
        """Check that no table has changed since its statements were checked, or changed owners."""
        for table in self._tables.values():
            table.check_table()
            table.check_owner()

    def earlier_run(self) -> LedgerEntry | None:
        """Return the earlier run that makes this run unnecessary; None if this run is needed.

        Each table's ledger has an entry before the commit of them all. So one certain entry is
        sufficient if every other table has an entry of the transaction, and none is otherwise: a
        program that may write one table's notes must not make the others lose a change. If this
        run is needed, files and entries of this job's aborted attempts are removed.

        Raises:
            EarlierRunUnknownError: the job may have committed, but no record of its commit or
                result remains, or the metastore contradicts the ledger.
        """
        tables = self._tables.values()
        runs = [(table, table.earlier_run()) for table in tables]
        earlier_runs = [
            (table, self._compared(entry)) for table, entry in runs if entry is not None
        ]
        if not earlier_runs:
            for table in tables:
                table.remove_abandoned()
            return None
        certain = [entry for table, entry in earlier_runs if table.is_certain(entry)]
        if not certain:
            table, entry = earlier_runs[0]
            raise run_unknown(table.table.ref, entry, is_batch=self.is_batch)
        for table, entry in earlier_runs:
            if entry.is_legible and entry.txn_id == certain[0].txn_id:
                table.confirm_earlier(entry)
        return certain[0]

    def _compared(self, entry: LedgerEntry) -> LedgerEntry:
        """Return a table's entry, with a doubt if the ledger of another table contradicts it."""
        lacking = [ref for ref, table in self._tables.items() if not table.has_twin(entry)]
        return replace(entry, doubt=entry.doubt or doubt_without_twins(lacking))

    def look_ahead(self) -> None:
        """Fail early if a different transaction is known to have committed first (`TableWrite`)."""
        for table in self._tables.values():
            table.look_ahead()

    def stage(
        self,
        ref: TableRef,
        directories: tuple[StagedDirectory, ...],
        operations: Collection[DataOperation] | None = None,
        *,
        kinds: Collection[str] = (),
    ) -> None:
        """Add the directories of one statement (`TableWrite.stage`)."""
        self._tables[ref].stage(directories, operations, kinds=kinds)
        self._enter(WriteState.STAGED)

    def register(self) -> None:
        """Register the changed partitions with the metastore, before they contain new files."""
        for table in self._tables.values():
            table.register()
        self._enter(WriteState.REGISTERED)

    def verify(self) -> None:
        """Check, directly before publication, that the changes would not be lost."""
        for table in self._tables.values():
            table.verify()
        self.txn.confirm_alive()
        self._enter(WriteState.VERIFIED)

    def note(self, result: str) -> None:
        """Record the directories to publish in each ledger, with the whole write's result."""
        for table in self._tables.values():
            table.note(result)
        self._enter(WriteState.NOTED)

    def publish(self) -> None:
        """Rename every directory to its final name; open write IDs hide them until the commit."""
        for table in self._tables.values():
            table.publish()
        self._enter(WriteState.PUBLISHED)
        for table in self._tables.values():
            table.check_published()

    def take_back(self) -> None:
        """Undo this write's changes; call this only if the transaction is known to be aborted."""
        self.state = WriteState.ABORTED
        failures = []
        for table in self._tables.values():
            try:
                table.take_back()
            except errors.HiveAcidError as error:
                failures.append(error)  # a failure for one table must not stop other tables
        if failures:
            raise failures[0]

    def discard(self) -> None:
        """Remove the files that an abort has left in staging (`WriteOrder.keeps_staged`)."""
        for table in self._tables.values():
            try:
                table.discard()
            except errors.HiveAcidError as error:
                log.warning("left in staging: %s", error)

    def confirm(self) -> None:
        """Record the finished commit; errors no longer fail the job."""
        self.state = WriteState.COMMITTED
        for table in self._tables.values():
            try:
                table.confirm()
            except errors.HiveAcidError as error:
                log.warning("committed, but cleanup failed: %s", error)

    def leave(self) -> None:
        """Leave all files in place, because the outcome of the commit is unknown."""
        self.state = WriteState.UNKNOWN
        log.error(
            "the outcome of the commit of txn_id=%s is unknown; keeping these files: %s",
            self.txn.txn_id,
            ", ".join(d.final_path for d in self.directories) or "no directories",
        )

    def name_winner(self, error: errors.WriteConflictError) -> None:
        """Add details to a conflict's error: the policies, and the winner with its job if known."""
        error.policies = {str(a.ref): a.policy.value for a in self._order.accesses}
        for table in self._tables.values():
            try:
                error.winner = table.named(error.winner)
            except errors.HiveAcidError as unknown:
                log.warning("cannot determine which transaction committed first: %s", unknown)
        if error.winner.is_known:
            error.add_note(f"the transaction that committed first: {error.winner}")

    def _enter(self, state: WriteState) -> None:
        self.state = state
        self.txn.step(state.name.lower())


@contextmanager
def writing(client: MetastorePort, order: WriteOrder) -> Iterator[Write]:
    """Run a block as one write: commit at its end, or roll back; see `Write` for errors."""
    write: Write | None = None
    try:
        with begin(
            client,
            order.terms,
            reads=order.reads,
            writes=order.accesses,
            handover=order.handover,
        ) as txn:
            write = Write(client, txn, order)
            txn.on_abort(write.take_back)
            write.check_tables()
            yield write
    except errors.WriteConflictError as error:
        if write is not None:
            write.name_winner(error)
        raise
    except errors.CommitStateUnknownError:
        if write is not None and write.state is WriteState.PUBLISHED:
            write.leave()
        raise
    if write.state is WriteState.PUBLISHED:  # else the block abandoned it: the job was done
        write.confirm()

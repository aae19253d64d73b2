"""One write: what it goes through, and how it takes back what it has put where.

It may be of several tables; what is done to each is the affair of `table_write`. Read `Write`
downwards; each method brings all tables to the next state:

| state | what is true |
| --- | --- |
| begun | the transaction has its locks and its snapshot; the tables are as they were checked |
| staged | every file of a statement is written, where no reader looks |
| registered | the metastore knows which partitions change |
| verified | it has just said that the transaction is open; nobody's newer base hides what comes |
| noted | every table's ledger says what is going to be published there, and by whom |
| published | every directory has its final name; the open write IDs hide them |
| settled, committed | the transaction has ended well; the ledgers confirm it |

When the transaction is known to be aborted, at whatever point and by whomever, exactly what this
write did is undone: the directories that it renamed itself, its staging, its ledger entries. When
nobody can tell what became of the commit, nothing is touched. `writing` is where both are decided,
by the transaction alone (`Transaction.on_abort`). Must not know Spark.
"""

from __future__ import annotations

import enum
import logging
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    EarlierRunUnknownError,
    HiveAcidError,
    WriteConflictError,
)
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.spark.writing.table_write import TableWrite

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow_hiveacid.format.conflicts import DataOperation
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.plan.reruns import LedgerEntry
    from airflow_hiveacid.spark.writing.order import WriteOrder
    from airflow_hiveacid.spark.writing.publish import StagedDirectory

log = logging.getLogger("hiveacid")

_GONE: Final = "what it published is gone, compacted after a commit or cleaned after an abort"
_DAMAGED: Final = "its entry in the table's _hiveacid directory is damaged"


class WriteState(enum.Enum):
    """How far a write has come."""

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
    """One write on its way. Mutable: it knows how far it has come."""

    def __init__(self, client: MetastorePort, txn: Transaction, order: WriteOrder) -> None:
        self.txn = txn
        self.state = WriteState.BEGUN
        self._order = order
        self._tables = {a.ref: TableWrite(client, txn, order, a) for a in order.accesses}

    @property
    def tables(self) -> Mapping[TableRef, TableWrite]:
        """What is done to each table, in the order in which they are gone through."""
        return MappingProxyType(self._tables)

    @property
    def reads(self) -> tuple[TableAccess, ...]:
        """The tables that are read beside these."""
        return self._order.reads

    @property
    def directories(self) -> tuple[StagedDirectory, ...]:
        """What has been staged and will be published, of all tables."""
        return tuple(d for table in self._tables.values() for d in table.directories)

    def check_tables(self) -> None:
        """See that every table is still what the statements were checked against.

        Raises:
            TableChangedError: one has another definition, or is another table of that name.
        """
        for table in self._tables.values():
            table.check_table()

    def earlier_run(self) -> LedgerEntry | None:
        """The run that makes this one needless; None if there is work to do.

        Tables of a transaction are committed together, so the ledger of one is enough to tell. What
        aborted attempts of this job have left is removed on the way.

        Raises:
            EarlierRunUnknownError: it may have been done, and nothing is left that tells, or what
                exactly.
            RerunRefusedError, StatementChangedError, FencedError: see `plan.reruns`.
        """
        tables = self._tables.values()
        found = [(table, table.earlier_run()) for table in tables]
        known = [(table, entry) for table, entry in found if entry is not None]
        if not known:
            for table in tables:
                table.bury_abandoned()
            return None
        certain = [entry for table, entry in known if table.is_certain(entry)]
        if not certain:
            table, entry = known[0]
            raise EarlierRunUnknownError(
                table=table.table.ref,
                job_key=entry.job_key,
                txn_id=entry.txn_id,
                when=entry.when,
                why=_GONE if entry.is_legible else _DAMAGED,
            )
        for table, entry in known:
            if entry.is_legible and entry.txn_id == certain[0].txn_id:
                table.confirm_earlier(entry)
        return certain[0]

    def look_ahead(self) -> None:
        """Spare the work, if it is known already that somebody came first (`TableWrite`).

        Raises:
            OvertakenError: begin anew.
        """
        for table in self._tables.values():
            table.look_ahead()

    def stage(
        self,
        ref: TableRef,
        directories: tuple[StagedDirectory, ...],
        operations: Collection[DataOperation] | None = None,
    ) -> None:
        """Take over the directories of one statement (`TableWrite.stage`)."""
        self._tables[ref].stage(directories, operations)
        self._enter(WriteState.STAGED)

    def register(self) -> None:
        """Tell the metastore which partitions change, before the first file appears in one.

        Raises:
            OvertakenError: a partition has come, or come again, at another place; begin anew.
        """
        for table in self._tables.values():
            table.register()
        self._enter(WriteState.REGISTERED)

    def verify(self) -> None:
        """Make sure, right before anything becomes visible, that it can still count.

        Raises:
            TableChangedError: one is another table by now; who has dropped it took no lock.
            TransactionAbortedError, FencedError: the transaction is over.
            OvertakenError: what is to be published would be hidden.
            DirectoryExistsError: something of that name is there. Nothing is noted yet, so nobody
                will take it for ours.
        """
        for table in self._tables.values():
            table.verify()
        self.txn.confirm_alive()
        self._enter(WriteState.VERIFIED)

    def note(self, result: str) -> None:
        """Put into every ledger what is going to be published; the result is the whole write's."""
        for table in self._tables.values():
            table.note(result)
        self._enter(WriteState.NOTED)

    def publish(self) -> None:
        """Give every directory its final name; the open write IDs hide them until the commit.

        Raises:
            DirectoryExistsError: one is there already; it was not touched.
            StorageError: a rename failed.
            OvertakenError: a partition is gone, or is at another place; who has dropped it took no
                lock.
        """
        for table in self._tables.values():
            table.publish()
        self._enter(WriteState.PUBLISHED)
        for table in self._tables.values():
            table.check_published()

    def take_back(self) -> None:
        """Undo what this write did; the transaction calls it when it is known to be aborted."""
        self.state = WriteState.ABORTED
        failures = []
        for table in self._tables.values():
            try:
                table.take_back()
            except HiveAcidError as error:  # what is left of one table keeps no other's
                failures.append(error)
        if failures:
            raise failures[0]

    def discard(self) -> None:
        """Remove what an abort has left in staging (`WriteOrder.keeps_staged`)."""
        for table in self._tables.values():
            try:
                table.discard()
            except HiveAcidError as error:
                log.warning("left in staging: %s", error)

    def confirm(self) -> None:
        """Note the commit, which has happened: from here on nothing may fail the job."""
        self.state = WriteState.COMMITTED
        for table in self._tables.values():
            try:
                table.confirm()
            except HiveAcidError as error:
                log.warning("committed, but not everything is tidied up: %s", error)

    def leave(self) -> None:
        """Touch nothing: nobody can tell what became of the commit."""
        self.state = WriteState.UNKNOWN
        log.error(
            "the commit of txn_id=%s is in doubt; left as they are: %s",
            self.txn.txn_id,
            ", ".join(d.final_path for d in self.directories) or "no directories",
        )

    def name_winner(self, error: WriteConflictError) -> None:
        """Say of a conflict who has won it, which job, if the ledgers know one, and by what."""
        error.policies = {str(a.ref): a.policy.value for a in self._order.accesses}
        for table in self._tables.values():
            try:
                error.winner = table.named(error.winner)
            except HiveAcidError as unknown:
                log.warning("cannot look up who was first: %s", unknown)
        if error.winner.is_known:
            error.add_note(f"the first was {error.winner}")

    def _enter(self, state: WriteState) -> None:
        self.state = state
        self.txn.step(state.name.lower())


@contextmanager
def writing(client: MetastorePort, order: WriteOrder) -> Iterator[Write]:
    """Run a body as one write: committed when it returns, undone when it raises.

    Raises:
        TableChangedError: a table is not what the statements were checked against.
        WriteConflictError: another transaction was first; the error says whose, if it can.
        HiveAcidError: see `metastore.transaction.begin` and the steps of `Write`.
    """
    write: Write | None = None
    try:
        with begin(
            client,
            job_key=order.run.job_key,
            attempt=order.run.attempt,
            reads=order.reads,
            writes=order.accesses,
            lock_timeout_s=order.lock_timeout_s,
            heartbeat_s=order.heartbeat_s,
            first_txn_id=order.first_txn_id,
            began=order.began,
            succession=order.succession,
            clock=order.clock,
            on_step=order.on_step,
            on_lost=order.on_lost,
        ) as txn:
            write = Write(client, txn, order)
            txn.on_abort(write.take_back)
            write.check_tables()
            yield write
    except WriteConflictError as error:
        if write is not None:
            write.name_winner(error)
        raise
    except CommitStateUnknownError:
        if write is not None and write.state is WriteState.PUBLISHED:
            write.leave()
        raise
    if write.state is WriteState.PUBLISHED:
        write.confirm()

"""One write of one table: what it goes through, what it has put where, how it takes that back.

Read `Write` downwards; each method brings it to its next state:

| state | what is true |
| --- | --- |
| begun | the transaction has its locks and its snapshot; the table is still as it was checked |
| staged | every file is written, where no reader looks |
| registered | the metastore knows which partitions change |
| verified | it has just said that the transaction is open; nobody's newer base hides what comes |
| noted | the ledger says what is going to be published, and by whom |
| published | every directory has its final name; the open write ID hides it |
| settled, committed | the transaction has ended well; the ledger confirms it |

When the transaction is known to be aborted, at whatever point and by whomever, exactly what this
write did is undone: the directories that it renamed itself, its staging, its ledger entry. When
nobody can tell what became of the commit, nothing is touched. `writing` is where both are decided,
by the transaction alone (`Transaction.on_abort`). Must not know Spark.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    EarlierRunUnknownError,
    HiveAcidError,
    OvertakenError,
    TableChangedError,
)
from airflow_hiveacid.format.table import PartitionInfo
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.plan.reruns import LedgerEntry, earlier_run
from airflow_hiveacid.spark.writing.burial import bury
from airflow_hiveacid.spark.writing.overtaking import hiding_directory, is_overtaken
from airflow_hiveacid.spark.writing.publish import (
    Publication,
    StagedDirectory,
    check_free,
    discard,
    misplaced,
)
from airflow_hiveacid.storage.stores.job_ledger import Ledger, abandoned, committed
from airflow_hiveacid.storage.stores.staging import Staging, check_publishable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.spark.writing.order import WriteOrder

log = logging.getLogger("hiveacid")

_GONE: Final = "what it published is gone, compacted after a commit or cleaned after an abort"
_DAMAGED: Final = "its entry in the table's _hiveacid directory is damaged"

_SHAPE: Final = (
    "table_id",
    "location",
    "columns",
    "partition_columns",
    "kind",
    "storage",
    "bucket_columns",
    "num_buckets",
    "bucketing_version",
    "sort_columns",
)
"""What of a table's definition a statement is checked against."""


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
    """One write on its way. Mutable: it remembers what it has put where."""

    def __init__(self, client: MetastorePort, txn: Transaction, order: WriteOrder) -> None:
        self.txn = txn
        self.state = WriteState.BEGUN
        self._client = client
        self._order = order
        self._ledger = Ledger.of(order.table)
        self._publication = Publication()
        self._directories: tuple[StagedDirectory, ...] = ()
        self._homes = {order.table.location}
        self._entry: LedgerEntry | None = None

    @property
    def table(self) -> TableInfo:
        """The target."""
        return self._order.table

    @property
    def directories(self) -> tuple[StagedDirectory, ...]:
        """What has been staged."""
        return self._directories

    @property
    def token(self) -> str:
        """The name of this write's staging directories."""
        return f"{self.txn.txn_id}-{self._order.run.attempt}"

    def check_table(self) -> None:
        """See that the table is still what the statement was checked against.

        Raises:
            TableChangedError: its definition changed, or it is another table of that name.
        """
        now = self._client.get_table(self.table.ref)
        changed = [name for name in _SHAPE if getattr(now, name) != getattr(self.table, name)]
        if changed:
            raise TableChangedError(table=self.table.ref, what=", ".join(changed))

    def earlier_run(self) -> LedgerEntry | None:
        """The run that makes this one needless; None if there is work to do.

        What aborted attempts of this job have left is removed on the way.

        Raises:
            EarlierRunUnknownError: it may have been done, and nothing is left that tells, or what
                exactly.
            RerunRefusedError, StatementChangedError, FencedError: see `plan.reruns`.
        """
        run, snapshot = self._order.run, self.txn.snapshot
        write_ids = snapshot.write_ids(self.table.ref)
        entries = self._ledger.entries(run.job_key)
        known = committed(entries, write_ids, snapshot.txns)
        found = earlier_run(run, known, self.table, self.txn.txn_id)
        if found is not None and not self._ledger.is_certain(found):
            raise EarlierRunUnknownError(
                table=self.table.ref,
                job_key=run.job_key,
                txn_id=found.txn_id,
                when=found.when,
                why=_GONE if found.is_legible else _DAMAGED,
            )
        if found is not None and not found.is_confirmed:  # its writer was killed before it could
            self._ledger.write(dataclasses.replace(found, is_confirmed=True))
        if found is None:
            dead = abandoned(entries, self.table.ref, snapshot)
            bury(self._ledger, self._client, self.table, dead)
        return found

    def check_not_overtaken(self, partitions: Sequence[PartitionInfo]) -> None:
        """See that nothing committed since the write ID was given hides what is to be written.

        Raises:
            OvertakenError: something does; begin anew.
        """
        path = hiding_directory(
            partitions,
            self.txn.newest(self.table.ref).write_ids(self.table.ref),
            self.txn.write_ids[self.table.ref],
            replaces=DataOperation.OVERWRITE in self._order.access.operations,
        )
        if path is not None:
            raise self.overtaken(f"{path} would hide what it writes")

    def look_ahead(self, partitions: Sequence[PartitionName]) -> None:
        """Do so before the work, if it is known already that somebody came first.

        With the locks in hand the answer cannot change any more, so this spares the work.

        Raises:
            OvertakenError: as `check_not_overtaken`.
        """
        seen = self.txn.snapshot.write_ids(self.table.ref)
        if is_overtaken(seen, self.txn.write_ids[self.table.ref]):
            self.check_not_overtaken(self._client.get_partitions(self.table, partitions))

    def overtaken(self, why: str) -> OvertakenError:
        """What lets this write begin anew, to be raised."""
        return OvertakenError(table=self.table.ref, txn_id=self.txn.txn_id, why=why)

    def check_locations(self, locations: Sequence[str]) -> None:
        """See that every place that may be written can be published to, and remember it.

        Raises:
            UnsupportedTableError: a partition is on a store without renames.
        """
        for location in locations:
            check_publishable(self.table.ref, location)
            home = Staging.of(self.table, location, self.token).home
            if home is None:
                self._homes.add(location)

    def stage(self, directories: tuple[StagedDirectory, ...]) -> None:
        """Take over the directories whose files are all written."""
        self._directories = directories
        self._enter(WriteState.STAGED)

    def register(self) -> None:
        """Tell the metastore which partitions change, before the first file appears in one.

        Raises:
            OvertakenError: a partition has come, or come again, at another place; begin anew.
        """
        names = self._partitions
        if not self._directories:
            self.txn.change_nothing(self.table.ref)
        elif self.table.is_partitioned:
            self._check_places(self._client.add_partitions(self.table, names))
            self.txn.register_partitions(self.table.ref, names, self._order.access.operations)
        self._enter(WriteState.REGISTERED)

    def verify(self) -> None:
        """Make sure, right before anything becomes visible, that it can still count.

        Raises:
            TableChangedError: it is another table by now; who has dropped it took no lock.
            TransactionAbortedError, FencedError: the transaction is over.
            OvertakenError: what is to be published would be hidden.
            DirectoryExistsError: something of that name is there. Nothing is noted yet, so nobody
                will take it for ours.
        """
        if self._directories:
            self.check_table()
            # Where they are was asked when they were registered, and is asked again right behind.
            places = {d.partition: d.staging.location for d in self._directories}
            self.check_not_overtaken(
                [PartitionInfo(name=name, location=place) for name, place in places.items()]
            )
            check_free(self._directories)
        self.txn.confirm_alive()
        self._enter(WriteState.VERIFIED)

    def note(self, result: str) -> None:
        """Put into the ledger what is going to be published."""
        run = self._order.run
        self._entry = LedgerEntry(
            job_key=run.job_key,
            generation=run.generation,
            attempt=run.attempt,
            statement=run.statement,
            table_id=self.table.table_id,
            txn_id=self.txn.txn_id,
            write_id=self.txn.write_ids[self.table.ref],
            directories=tuple(d.final_path for d in self._directories),
            result=result,
            recorded_s=self._order.now_s(),
            retention_s=self._order.ledger_retention_s,
        )
        self._ledger.write(self._entry)
        self._enter(WriteState.NOTED)

    def publish(self) -> None:
        """Give every directory its final name; the open write ID hides them until the commit.

        Raises:
            DirectoryExistsError: one is there already; it was not touched.
            StorageError: a rename failed.
            OvertakenError: a partition is gone, or is at another place; who has dropped it took no
                lock. Whoever does it from here on removes what was published, too.
        """
        self._publication.publish(self._directories)
        self._enter(WriteState.PUBLISHED)
        if self.table.is_partitioned:
            self._check_places(self._client.get_partitions(self.table, self._partitions))

    def take_back(self) -> None:
        """Undo what this write did; the transaction calls it when it is known to be aborted."""
        self.state = WriteState.ABORTED
        self._publication.take_back()
        self._discard()
        if self._entry is not None:
            self._ledger.withdraw(self._entry)

    def confirm(self) -> None:
        """Note the commit, which has happened: from here on nothing may fail the job."""
        self.state = WriteState.COMMITTED
        try:
            if self._entry is not None:
                self._ledger.write(dataclasses.replace(self._entry, is_confirmed=True))
            self._discard()
            self._ledger.prune(self._order.now_s(), self._order.ledger_retention_s)
        except HiveAcidError as error:
            log.warning("committed, but not everything is tidied up: %s", error)

    def leave(self) -> None:
        """Touch nothing: nobody can tell what became of the commit."""
        self.state = WriteState.UNKNOWN
        log.error(
            "the commit of txn_id=%s is in doubt; left as they are: %s",
            self.txn.txn_id,
            ", ".join(d.final_path for d in self._directories) or "no directories",
        )

    @property
    def _partitions(self) -> tuple[PartitionName, ...]:
        return tuple(sorted({d.partition for d in self._directories}, key=str))

    def _check_places(self, partitions: Sequence[PartitionInfo]) -> None:
        stray = misplaced(self._directories, partitions)
        if stray is not None:
            raise self.overtaken(f"partition {stray.partition} is not at {stray.staging.location}")

    def _enter(self, state: WriteState) -> None:
        self.state = state
        self.txn.step(state.name.lower())

    def _discard(self) -> None:
        discard(Staging(location=home, token=self.token) for home in sorted(self._homes))


@contextmanager
def writing(client: MetastorePort, order: WriteOrder) -> Iterator[Write]:
    """Run a body as one write: committed when it returns, undone when it raises.

    Raises:
        TableChangedError: the table is not what the statement was checked against.
        HiveAcidError: see `metastore.transaction.begin` and the steps of `Write`.
    """
    write: Write | None = None
    try:
        with begin(
            client,
            job_key=order.run.job_key,
            attempt=order.run.attempt,
            reads=order.reads,
            writes=[order.access],
            lock_timeout_s=order.lock_timeout_s,
            heartbeat_s=order.heartbeat_s,
            first_txn_id=order.first_txn_id,
            clock=order.clock,
            on_step=order.on_step,
            on_lost=order.on_lost,
        ) as txn:
            write = Write(client, txn, order)
            txn.on_abort(write.take_back)
            write.check_table()
            yield write
    except CommitStateUnknownError:
        if write is not None and write.state is WriteState.PUBLISHED:
            write.leave()
        raise
    if write.state is WriteState.PUBLISHED:
        write.confirm()

"""One transaction, from open to commit or abort: the only place that ends one.

Takes a client, what the job reads and writes, and the job's key; gives a `Transaction` that holds
its locks, stays alive, and sees one frozen snapshot. In order: open, heartbeat, allocate write IDs,
lock, fence, snapshot, the body, commit. Write IDs come before the locks, because the server copies
them while it enqueues a lock; the snapshot comes after the locks, because whoever held them before
us has to be in it.

Files belong to others. They stage where no reader looks, and call `register_partitions` before they
move anything into place.

Example:
    with begin(client, job_key=key, writes=[access], lock_timeout_s=60) as txn:
        stage_files(txn.write_ids[ref], txn.snapshot)
        txn.register_partitions(ref, names, {DataOperation.INSERT})
        publish_files()
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    HiveAcidError,
    InsertOnlyTableError,
    MetastoreError,
    NotTransactionalError,
    OvertakenError,
    TransactionAbortedError,
    WriteConflictError,
)
from airflow_hiveacid.format.policies import recorded_under
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.metastore.clock import SystemClock
from airflow_hiveacid.metastore.commit import commit
from airflow_hiveacid.metastore.fencing import raise_if_fenced
from airflow_hiveacid.metastore.opening import Opened, Plan, open_and_lock, take_snapshot
from airflow_hiveacid.metastore.server_time import ServerTime, TransactionTimes, time_of_lock
from airflow_hiveacid.metastore.succession import Succession
from airflow_hiveacid.metastore.txn_values import TxnType
from airflow_hiveacid.plan.history import Between

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.ids import TxnId, WriteId
    from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.metastore.port import MetastorePort

STEPS: Final = ("opened", "allocated", "locked", "fenced", "snapshot", "body_done", "committed")
"""What `on_step` is told, in this order; the first five again when a transaction begins anew."""

# Of the server's time-out. Shorter, so that what is open stays open while we ask about it.
_PATIENCE: Final = 0.5

_log = logging.getLogger(__name__)


class Transaction:
    """An open transaction with its locks and its one snapshot. Not thread-safe.

    Mutable: it remembers which partitions were written and whether it has ended.
    """

    def __init__(self, client: MetastorePort, plan: Plan, opened: Opened) -> None:
        self._client = client
        self._plan = plan
        self._opened = opened
        self._written: dict[TableRef, set[PartitionName]] = {
            access.ref: set(access.partitions or ()) for access in plan.writes
        }
        self._is_ended = False
        self._unchanged: set[TableRef] = set()
        self._server_time: ServerTime | None = None
        self._commit_readings: tuple[float, float] | None = None
        self._take_backs: list[Callable[[], None]] = []

    @property
    def txn_id(self) -> TxnId:
        """The transaction's ID."""
        return self._opened.txn_id

    @property
    def first_txn_id(self) -> TxnId:
        """The rank among copies of the job; for `begin`, if the same process tries again."""
        return self._opened.first_txn_id

    @property
    def snapshot(self) -> Snapshot:
        """What this job sees, frozen. Its own writes count as open in it."""
        return self._opened.snapshot

    @property
    def began(self) -> Mapping[TableRef, ValidWriteIdList]:
        """What was committed when the job began, of tables where somebody's commit may end it."""
        return self._opened.began

    @property
    def write_ids(self) -> Mapping[TableRef, WriteId]:
        """The write ID for each table written."""
        return MappingProxyType(dict(self._opened.write_ids))

    @property
    def is_ended(self) -> bool:
        """Whether `abandon` or `leave_to` was called."""
        return self._is_ended

    @property
    def lost(self) -> TransactionAbortedError | None:
        """What the server said when it had given the transaction up, if a heartbeat heard it."""
        return self._opened.heartbeat.lost

    def on_abort(self, take_back: Callable[[], None]) -> None:
        """Have this called once the transaction is known not to commit; the last one first.

        It is not called when nobody can tell what became of a commit. What it raises is logged.
        """
        self._take_backs.append(take_back)

    def step(self, name: str) -> None:
        """Say that the job has come to a border of its own."""
        self._plan.on_step(name)

    def ensure_alive(self) -> None:
        """Make sure that the work still counts; cheap unless beats have failed.

        Raises:
            TransactionAbortedError: the server has given the transaction up.
            FencedError: it did so because a newer copy of the job asked for it.
        """
        heartbeat = self._opened.heartbeat
        if heartbeat.lost is not None:
            self.raise_why(heartbeat.lost)
        if heartbeat.silent_s >= self._opened.timeout_s:
            # Nothing was heard for so long that it may have been aborted without our knowing.
            self.confirm_alive()

    def confirm_alive(self) -> None:
        """Ask the server whether the work still counts. Raises as `ensure_alive`."""
        try:
            self._client.heartbeat(self.txn_id)
        except TransactionAbortedError as error:
            self.raise_why(error)

    def newest(self, ref: TableRef) -> Snapshot:
        """What is committed of a table now, beyond what this job sees."""
        return take_snapshot(self._client, self.txn_id, [ref], self.write_ids)

    def register_partitions(
        self,
        ref: TableRef,
        names: Collection[PartitionName],
        operations: Collection[DataOperation],
    ) -> None:
        """Tell the metastore which partitions are written, before any file is moved into place.

        Until then a 3.1 server does not know that this transaction writes anything. If it were
        aborted it would be forgotten, and its write ID would count as committed (seen live): files
        already in place would turn into rows. Conflicts and compactions go by this record as well.

        Raises:
            TransactionAbortedError: the server has given the transaction up.
            ValueError: a partition is not covered by the locks.
        """
        self._check_locked(ref, names)
        ordered = sorted(set(names), key=str)
        policy = next(access.policy for access in self._plan.writes if access.ref == ref)
        recorded = {recorded_under(policy, operation) for operation in operations}
        for operation in sorted(recorded, key=lambda o: o.value):
            try:
                self._client.add_dynamic_partitions(
                    self.txn_id, self.write_ids[ref], ref, ordered, operation
                )
            except TransactionAbortedError as error:
                self.raise_why(error)
        self._written[ref].update(ordered)

    def change_nothing(self, ref: TableRef) -> None:
        """Say that the table stays as it is, so that nobody loses a conflict against this."""
        self._unchanged.add(ref)

    def server_time(self) -> ServerTime | None:
        """What time it is at the server; None if it does not say. Asks once; locks must be held."""
        if self._server_time is None and not self._is_ended:
            readings = self._opened.readings
            try:
                locks = self._client.show_locks(txn_id=self.txn_id)
            except MetastoreError as error:
                _log.warning("the metastore does not say what time it is: %s", error)
                return None
            self._server_time = time_of_lock(
                locks, self.txn_id, before_s=readings.lock_asked_s, after_s=readings.locked_s
            )
        return self._server_time

    def seen_after_s(self) -> float | None:
        """A moment, by the server's clock, before the snapshot was taken; None if it has none."""
        time = self.server_time()
        return None if time is None else time.earliest(self._opened.readings.locked_s)

    @property
    def times(self) -> TransactionTimes | None:
        """When it did what, once it is committed; None if the server did not say what time it was.

        `settle` has asked, for a transaction that writes.
        """
        if self._server_time is None or self._commit_readings is None:
            return None
        time, readings = self._server_time, self._opened.readings
        asked_s, answered_s = self._commit_readings
        return TransactionTimes(
            opened_s=time.earliest(readings.opened_s),
            seen=Between(
                after_s=time.earliest(readings.locked_s), by_s=time.latest(readings.seen_s)
            ),
            committed=Between(after_s=time.earliest(asked_s), by_s=time.latest(answered_s)),
        )

    def abandon(self) -> None:
        """Abort it and leave the body as if all were well: there turned out to be nothing to do."""
        self._is_ended = True
        self._client.be_patient(None)
        self._opened.undo.close()
        self._take_back()

    def leave_to(self, succession: Succession) -> None:
        """Take back what was done, and stay open until the next one's request for locks stands."""
        self._is_ended = True
        self._client.be_patient(None)
        succession.leave(self.txn_id, self._opened.undo)
        self._take_back()

    def settle(self) -> None:
        """Do what has to be done between the work and the commit."""
        self.ensure_alive()
        for access in self._plan.writes:
            late = access.table.is_partitioned and not self._written[access.ref]
            if late or access.ref in self._unchanged:
                # 4.x noted the whole table when it was locked; nothing was written, so nothing may
                # be left for conflicts, nor for a cleaner, which would look for a partition without
                # a name (HIVE-21052).
                self._client.add_dynamic_partitions(
                    self.txn_id, self.write_ids[access.ref], access.ref, (), DataOperation.UPDATE
                )
            else:
                self._forget_statistics(access.table)
        if self._plan.writes:
            self.server_time()
        self._plan.on_step("body_done")

    def commit(self) -> None:
        """Commit; called by `begin` alone."""
        asked_s = self._plan.clock.monotonic()
        try:
            commit(
                self._client,
                self.txn_id,
                self.write_ids,
                patience_s=self._opened.timeout_s * _PATIENCE,
                clock=self._plan.clock,
                timeout_s=self._opened.timeout_s,
            )
        except TransactionAbortedError as error:
            self._take_back()
            self.raise_why(error)
        except WriteConflictError:
            self._take_back()
            raise
        finally:
            self._is_ended = True
            self._client.be_patient(None)
            self._opened.heartbeat.stop()
        self._commit_readings = asked_s, self._plan.clock.monotonic()
        _log.info("committed txn_id=%s", self.txn_id)
        self._plan.on_step("committed")

    def end_after(self, error: BaseException, succession: Succession | None) -> None:
        """Abort, or leave it to what follows it; called by `begin` alone, which raises the error.

        Raises:
            TransactionAbortedError, FencedError: that is what the body came to grief over.
            MetastoreError: it was overtaken, and nobody says whether it is open.
        """
        if isinstance(error, OvertakenError) and not self._is_ended:
            self._end_overtaken(error, succession)
        if not self._is_ended:
            self.abandon()
        if isinstance(error, TransactionAbortedError):
            self.raise_why(error)
        if self.lost is not None and isinstance(error, Exception):
            # Whatever else it says, it was stopped because of this.
            self.raise_why(self.lost)

    def _end_overtaken(self, error: OvertakenError, succession: Succession | None) -> None:
        """Take back what was done, and leave it open if another one follows.

        Whose locks fell with a transaction that was ended is overtaken soon, too: it may not begin
        anew because of that, nor while nobody says whether it was (docs/adr/0057).

        Raises:
            TransactionAbortedError, FencedError, MetastoreError: it was, or nobody says.
        """
        end = self._why_over()
        if end is not None or succession is None:
            self.abandon()
        else:
            self.leave_to(succession)
        if isinstance(end, TransactionAbortedError):
            self.raise_why(end)
        if end is not None:
            raise end from error

    def _why_over(self) -> TransactionAbortedError | MetastoreError | None:
        """What the server says if it is over, or why it says nothing; None if it is open."""
        try:
            self._client.heartbeat(self.txn_id)
        except (TransactionAbortedError, MetastoreError) as error:
            return error
        return None

    def _take_back(self) -> None:
        while self._take_backs:
            try:
                self._take_backs.pop()()
            except HiveAcidError as error:
                _log.warning("left behind by aborted txn_id=%s: %s", self.txn_id, error)

    def _forget_statistics(self, table: TableInfo) -> None:
        count = self._client.forget_statistics(
            table,
            sorted(self._written[table.ref], key=str),
            write_id=self.write_ids[table.ref],
            write_ids=self.snapshot.write_ids(table.ref),
        )
        if count:
            _log.info("statistics marked as out of date table=%s count=%s", table.ref, count)

    def _check_locked(self, ref: TableRef, names: Collection[PartitionName]) -> None:
        named = [a.partitions for a in self._plan.writes if a.ref == ref]
        if not named:
            raise ValueError(f"table {ref} is not among the tables this transaction writes")
        if any(not partitions for partitions in named):
            return  # the lock is on the whole table
        locked = {name for partitions in named for name in partitions or ()}
        strangers = sorted(str(name) for name in names if name not in locked)
        if strangers:
            raise ValueError(f"table {ref}: no lock on partitions {', '.join(strangers)}")

    def raise_why(self, error: TransactionAbortedError) -> NoReturn:
        """Raise it, or, if a newer copy of the job is why, what tells the job not to try again.

        Raises:
            FencedError: a newer copy of the job is at work.
            TransactionAbortedError: none is.
        """
        if self._opened.seal is not None:
            raise_if_fenced(self._client, self._opened.seal, error, self._plan.fenced)
        raise error


@contextmanager
def begin(  # noqa: PLR0913 -- one keyword for each thing a transaction is made of
    client: MetastorePort,
    *,
    job_key: str | None,
    attempt: AttemptId | None = None,
    job_part: str = "",
    reads: Sequence[TableAccess] = (),
    writes: Sequence[TableAccess] = (),
    lock_timeout_s: float,
    heartbeat_s: float | None = None,
    txn_type: TxnType = TxnType.DEFAULT,
    first_txn_id: TxnId | None = None,
    began: Mapping[TableRef, ValidWriteIdList] | None = None,
    succession: Succession | None = None,
    clock: Clock | None = None,
    on_step: Callable[[str], None] = lambda _: None,
    on_lost: Callable[[], None] = lambda: None,
) -> Iterator[Transaction]:
    """Run a body inside one transaction: commit when it returns, abort when it raises.

    A transaction without writes takes shared read locks, holds the cleaner back while it lasts, and
    is committed too.

    Args:
        client: Used by this thread alone until the body ends; the heartbeats use a clone.
        job_key: Names the task whatever its try; of several copies with the same key only the
            newest goes on. None: nobody looks.
        attempt: Which doing of the task this is; None makes a new one.
        job_part: Tells transactions of one job apart that run side by side.
        reads: Tables read, apart from those written.
        writes: Tables written.
        lock_timeout_s: Bound of all waiting for locks together.
        heartbeat_s: Seconds between heartbeats; None is half of the server's time-out.
        txn_type: What a 4.x server is told that the transaction is for.
        first_txn_id: The rank of an earlier transaction of this same process, if it tries again.
        began: What was committed when that one began (`Transaction.began`).
        succession: Those that this one follows. If it is overtaken, it is left to it, taken back
            and open, since another one is going to follow; who has it closes it in the end. None:
            there are none, and will be none.
        clock: Time; None is this machine's.
        on_step: Told the name of each step in `STEPS` as soon as it is done, `body_done` right
            before the commit. What it raises aborts the transaction.
        on_lost: Called, in another thread, as soon as a heartbeat hears that the server has given
            the transaction up: nothing that the body still does can count.

    Raises:
        LockNotAcquiredError: the locks were not granted in time; nothing is left behind.
        FencedError: a newer copy of the job is at work.
        TransactionAbortedError: somebody aborted it, or the server heard too little of it.
        WriteConflictError: another transaction changed the same partition and committed first.
        CommitStateUnknownError: the answer to the commit was lost and nobody could tell.
        NotTransactionalError, InsertOnlyTableError: a table cannot be written like this.
    """
    for access in writes:
        _check_writable(access)
    if not reads and not writes:
        raise ValueError("a transaction reads or writes at least one table")
    plan = Plan(
        job_key=job_key,
        attempt=attempt or AttemptId.new(),
        job_part=job_part,
        reads=tuple(reads),
        writes=tuple(writes),
        lock_timeout_s=lock_timeout_s,
        heartbeat_s=heartbeat_s,
        txn_type=txn_type,
        first_txn_id=first_txn_id,
        began=began or {},
        clock=SystemClock() if clock is None else clock,
        on_step=on_step,
        on_lost=on_lost,
    )
    leaving = Succession(client) if succession is None else succession
    txn = Transaction(client, plan, open_and_lock(client, plan, leaving))
    try:
        yield txn
        if not txn.is_ended:
            txn.settle()
    except BaseException as error:
        txn.end_after(error, succession)
        raise
    # Outside the try: a commit whose answer is lost must never be followed by an abort.
    if not txn.is_ended:
        txn.commit()


def _check_writable(access: TableAccess) -> None:
    kind = access.table.kind
    if kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=access.ref)
    changes = access.operations & {DataOperation.UPDATE, DataOperation.DELETE}
    if kind is TransactionalKind.INSERT_ONLY and changes:
        names = " and ".join(sorted(operation.name for operation in changes))
        raise InsertOnlyTableError(table=access.ref, operation=names)

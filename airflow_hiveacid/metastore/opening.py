"""How a transaction begins: open, heartbeat, write IDs, locks, fence, snapshot, in this order.

Takes a client and a `Plan`; gives an `Opened` transaction whose locks are granted and whose
snapshot is taken, or leaves nothing behind. Must not know how a transaction ends well.

A writer that somebody overtook between its opening and its snapshot would lose at commit, after all
its work: the metastore counts every change committed after the opening as a conflict, also one that
our snapshot has seen. So it begins anew, which costs milliseconds (Driver.validateTxnList does so
too).
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    MetastoreError,
    MetastoreUnavailableError,
    TransactionAbortedError,
)
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.policies import doing_of, looks_for_rivals, recorded_under
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.metastore.commit import abort_quietly
from airflow_hiveacid.metastore.fencing import Seal, fence, raise_if_fenced
from airflow_hiveacid.metastore.heartbeat import Heartbeat
from airflow_hiveacid.metastore.lock_wait import acquire
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockRequest,
    TableAccess,
    components_for,
    named_behind_table_lock,
)
from airflow_hiveacid.metastore.waiting import WaitedInVainError, Waiting, is_overtaken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.clock import Clock
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.succession import Succession
    from airflow_hiveacid.metastore.txn_values import TxnType

# hive.txn.retrysnapshot.max.count of Hive 4.
_MOST_REOPENINGS: Final = 5
# A beat that hangs must leave time for others before the server's patience is over.
_BEAT_SHARE: Final = 0.25
_SHORTEST_BEAT_S: Final = 0.25
_ANONYMOUS: Final = "airflow-provider-hiveacid"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a transaction is for. See `transaction.begin` for the fields."""

    job_key: str | None
    attempt: AttemptId
    job_part: str
    reads: tuple[TableAccess, ...]
    writes: tuple[TableAccess, ...]
    lock_timeout_s: float
    heartbeat_s: float | None
    txn_type: TxnType
    first_txn_id: TxnId | None
    began: Mapping[TableRef, ValidWriteIdList]
    clock: Clock
    on_step: Callable[[str], None]
    on_lost: Callable[[], None]

    @property
    def written(self) -> tuple[TableRef, ...]:
        """Tables that get a write ID, in the order in which they get it."""
        return tuple(sorted({access.ref for access in self.writes}))

    @property
    def seen(self) -> tuple[TableRef, ...]:
        """Tables of the snapshot: all that have write IDs."""
        everything = (*self.reads, *self.writes)
        transactional = (a for a in everything if a.table.kind is not TransactionalKind.NONE)
        return tuple(sorted({access.ref for access in transactional}))

    @property
    def changed(self) -> tuple[TableRef, ...]:
        """Tables in which a conflict is possible: those that are not only inserted into."""
        return tuple(sorted({a.ref for a in self.writes if a.operations != {DataOperation.INSERT}}))

    @property
    def watched(self) -> tuple[TableRef, ...]:
        """Tables of which has to be known what was committed when the job began."""
        watching = (
            a.ref for a in self.writes if looks_for_rivals(a.policy, doing_of(a.operations))
        )
        return tuple(sorted(set(watching)))

    @property
    def fenced(self) -> tuple[TableRef, ...]:
        """Tables on whose locks another copy of the job is looked for."""
        return self.written or tuple(sorted({access.ref for access in self.reads}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What our clock said while a transaction began; the server did each thing within its two."""

    opened_s: float
    lock_asked_s: float
    locked_s: float
    seen_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A transaction that has its locks and its snapshot.

    `seal` is None for a job without a key. `undo` ends heartbeats, and aborts, when it is closed;
    the client's patience goes by them, and has to be ended before. `began` is what was committed of
    the tables `watched` when the job first opened a transaction; `has_waited` says that its locks
    were not granted at once.
    `timeout_s` is the server's patience, known here also when the server can no longer be asked.
    `readings` are of our own clock.
    """

    txn_id: TxnId
    first_txn_id: TxnId
    seal: Seal | None
    write_ids: Mapping[TableRef, WriteId]
    lock_id: LockId
    snapshot: Snapshot
    began: Mapping[TableRef, ValidWriteIdList]
    has_waited: bool
    heartbeat: Heartbeat
    timeout_s: float
    readings: Readings
    undo: ExitStack


def open_and_lock(client: MetastorePort, plan: Plan, leaving: Succession) -> Opened:
    """Begin a transaction.

    Args:
        client: the metastore.
        plan: what it is for.
        leaving: the transactions of this job out of which it begins anew; they are ended.

    Raises:
        LockNotAcquiredError: the locks were not granted in time.
        FencedError: a newer copy of the job is at work.
        TransactionAbortedError: the server or somebody else aborted it meanwhile, or one before it.
        ConfigurationError: the heartbeat is slower than the server's patience.
    """
    try:
        return _open_and_lock(client, plan, leaving)
    except BaseException:
        leaving.close()
        raise


def _open_and_lock(client: MetastorePort, plan: Plan, leaving: Succession) -> Opened:
    timeout_s = client.txn_timeout_s
    interval_s = _interval_s(plan, timeout_s)
    deadline_s = plan.clock.monotonic() + plan.lock_timeout_s
    # Who does not wait for locks may begin anew all the same: that takes no time of anybody else's.
    never_waits = plan.lock_timeout_s == 0
    first_txn_id = plan.first_txn_id
    reopenings = 0
    while True:
        is_late = plan.clock.monotonic() >= deadline_s and not never_waits
        is_last = reopenings == _MOST_REOPENINGS or is_late
        before = _write_ids_of(client, tuple({*plan.changed, *plan.watched}))
        opened_s = plan.clock.monotonic()
        txn_id = client.open_txn(plan.txn_type)
        first_txn_id = txn_id if first_txn_id is None else first_txn_id
        opening = _Opening(
            client=client,
            plan=plan,
            txn_id=txn_id,
            first_txn_id=first_txn_id,
            timeout_s=timeout_s,
            interval_s=interval_s,
            opened_s=opened_s,
            before=before,
            began=_known(before, plan),
            leaving=leaving,
        )
        try:
            opened = opening.run(deadline_s=deadline_s)
        except WaitedInVainError as vain:
            _log.info("overtaken while it waited, beginning anew txn_id=%s", txn_id)
            plan = replace(plan, began=vain.began)
            continue
        except _AnswerLostError as lost:
            # A lock was asked for and nobody said whether it stands; it falls with its transaction.
            if is_last:
                raise lost.error from lost.error.__cause__
            _log.warning("beginning anew txn_id=%s: %s", txn_id, lost.error)
            plan = replace(plan, began=lost.began)
            reopenings += 1
            continue
        if is_last or not is_overtaken(opening.changed, opened.snapshot.tables):
            return opened
        _log.info("overtaken before the snapshot, beginning anew txn_id=%s", txn_id)
        client.be_patient(None)
        leaving.leave(txn_id, opened.undo)
        plan = replace(plan, began=opened.began)
        # Waiting has an end of its own; and of many that queue up, each has to see all before it.
        reopenings += not opened.has_waited


class _AnswerLostError(Exception):
    """An answer was lost, of a transaction that is open: nobody has ended it meanwhile."""

    def __init__(
        self, error: MetastoreUnavailableError, began: Mapping[TableRef, ValidWriteIdList]
    ) -> None:
        self.error, self.began = error, began
        super().__init__()


@dataclass(slots=True, kw_only=True)
class _Opening:
    """One transaction on its way to its snapshot; `before` was committed when it was opened.

    Mutable: `began` (`Opened`) is known of all tables once it has its write IDs.
    """

    client: MetastorePort
    plan: Plan
    txn_id: TxnId
    first_txn_id: TxnId
    timeout_s: float
    interval_s: float
    opened_s: float
    before: Mapping[TableRef, ValidWriteIdList]
    began: Mapping[TableRef, ValidWriteIdList]
    leaving: Succession

    @property
    def changed(self) -> Mapping[TableRef, ValidWriteIdList]:
        """What was committed of the tables in which a conflict is possible."""
        return {ref: self.before[ref] for ref in self.plan.changed}

    def run(self, *, deadline_s: float) -> Opened:
        """Bring it to its snapshot, or end it.

        Raises:
            WaitedInVainError, _AnswerLostError: begin anew.
            HiveAcidError: see `open_and_lock`.
        """
        try:
            with ExitStack() as undo:
                undo.callback(abort_quietly, self.client, self.txn_id)
                try:
                    return self._run(deadline_s, undo)
                except BaseException:
                    self.client.be_patient(None)  # not with the abort, nor with what comes next
                    raise
        except TransactionAbortedError as error:
            if self._seal is not None:
                raise_if_fenced(self.client, self._seal, error, self.plan.fenced)
            raise

    def _check_open(self, lost: MetastoreUnavailableError) -> None:
        """See that nobody has ended it: that may have been an order (docs/adr/0057).

        Raises:
            TransactionAbortedError: somebody has.
            MetastoreUnavailableError: nobody can say.
        """
        try:
            self.client.heartbeat(self.txn_id)
        except MetastoreError as unknown:
            raise lost from unknown

    def _run(self, deadline_s: float, undo: ExitStack) -> Opened:
        try:
            return self._bring(deadline_s, undo)
        except MetastoreUnavailableError as error:
            self._check_open(error)
            self.leaving.leave(self.txn_id, undo.pop_all())
            raise _AnswerLostError(error, self.began) from error
        except WaitedInVainError:
            self.leaving.leave(self.txn_id, undo.pop_all())
            raise

    def _bring(self, deadline_s: float, undo: ExitStack) -> Opened:
        _log.info("opened txn_id=%s job_key=%s", self.txn_id, self.plan.job_key)
        heartbeat = Heartbeat(
            self.client.clone(call_timeout_s=max(self.interval_s * _BEAT_SHARE, _SHORTEST_BEAT_S)),
            self.txn_id,
            interval_s=self.interval_s,
            clock=self.plan.clock,
            on_lost=self.plan.on_lost,
        )
        undo.callback(heartbeat.stop)
        heartbeat.start()
        self.client.be_patient(lambda: self.timeout_s - heartbeat.silent_s)
        self.plan.on_step("opened")
        write_ids = self._allocate()
        self.began = self._began(write_ids)
        waiting = Waiting(
            client=self.client,
            writes=self.plan.writes,
            txn_id=self.txn_id,
            before=self.changed if self._queues_up else {},
            began=self.began,
        )
        left_s = max(0.0, deadline_s - self.plan.clock.monotonic())
        lock_id, asked_s, locked_s = self._lock(timeout_s=left_s, waiting=waiting)
        self._register(write_ids)
        self.plan.on_step("fenced")
        snapshot = self._see(write_ids)
        readings = Readings(
            opened_s=self.opened_s,
            lock_asked_s=asked_s,
            locked_s=locked_s,
            seen_s=self.plan.clock.monotonic(),
        )
        return Opened(
            txn_id=self.txn_id,
            first_txn_id=self.first_txn_id,
            seal=self._seal,
            write_ids=write_ids,
            lock_id=lock_id,
            snapshot=snapshot,
            began=self.began,
            has_waited=waiting.has_waited,
            heartbeat=heartbeat,
            timeout_s=self.timeout_s,
            readings=readings,
            undo=undo.pop_all(),
        )

    @property
    def _seal(self) -> Seal | None:
        if self.plan.job_key is None:
            return None
        return Seal(
            job_key=self.plan.job_key,
            attempt=self.plan.attempt,
            part=self.plan.job_part,
            first_txn_id=self.first_txn_id,
        )

    @property
    def _components(self) -> tuple[LockComponent, ...]:
        return components_for(self.plan.reads, self.plan.writes, self.client.generation)

    def _allocate(self) -> dict[TableRef, WriteId]:
        write_ids = {}
        for ref in self.plan.written:
            write_id = write_ids[ref] = self.client.allocate_write_id(self.txn_id, ref)
            _log.info("allocated table=%s txn_id=%s write_id=%s", ref, self.txn_id, write_id)
        self.plan.on_step("allocated")
        return write_ids

    def _began(self, own: Mapping[TableRef, WriteId]) -> Mapping[TableRef, ValidWriteIdList]:
        """What was committed when the job began.

        Of a table whose list may end early at that moment, what is committed a moment later: with a
        write ID in hand the list is whole (docs/adr/0014).
        """
        began = self.began
        short = [ref for ref in self.plan.watched if ref not in began]
        later = take_snapshot(self.client, self.txn_id, short, own).tables if short else {}
        return {**began, **later}

    @property
    def _queues_up(self) -> bool:
        """Whether it waits for others of its kind: an overwrite keeps its place in the queue."""
        operations = frozenset().union(*(access.operations for access in self.plan.writes))
        return DataOperation.OVERWRITE not in operations

    def _lock(self, *, timeout_s: float, waiting: Waiting) -> tuple[LockId, float, float]:
        """Get the locks; with our clock before the request that was granted, and after it."""
        clock, asked_s = self.plan.clock, [0.0]

        def note_time() -> None:
            asked_s[0] = clock.monotonic()

        seal = self._seal
        agent_info = _ANONYMOUS if seal is None else seal.agent_info
        # Fencing comes before waiting: an older copy may hold what we would wait for. To look once
        # is enough: a newer one that comes later aborts us, an older one sees us and ends.
        answer = acquire(
            self.client,
            LockRequest(txn_id=self.txn_id, components=self._components, agent_info=agent_info),
            timeout_s=timeout_s,
            clock=clock,
            on_enqueued=self._fence,
            on_asking=note_time,
            on_waiting=waiting.look,
        )
        locked_s = clock.monotonic()
        self.plan.on_step("locked")
        return answer.lock_id, asked_s[0], locked_s

    def _fence(self) -> bool:
        """Leave the job's earlier transactions, and end older copies of it; were there any?"""
        has_left, has_ended = self.leaving.step_over(), False
        if self._seal is not None:
            has_ended = fence(self.client, self._seal, self.txn_id, self.plan.fenced)
        return has_left or has_ended

    def _register(self, write_ids: Mapping[TableRef, WriteId]) -> None:
        for access in named_behind_table_lock(self.plan.writes, self._components):
            recorded = {recorded_under(access.policy, o) for o in access.operations}
            for operation in sorted(recorded, key=lambda o: o.value):
                self.client.add_dynamic_partitions(
                    self.txn_id,
                    write_ids[access.ref],
                    access.ref,
                    access.partitions or (),
                    operation,
                )

    def _see(self, own: Mapping[TableRef, WriteId]) -> Snapshot:
        """Take the newest snapshot there is.

        Not cut at our own transaction, as a query of Hive's would be: a newer copy of the job may
        have committed while this one slept, and what it wrote has to be seen.
        """
        snapshot = take_snapshot(self.client, self.txn_id, self.plan.seen, own)
        if self.txn_id not in snapshot.txns.open:
            raise TransactionAbortedError(
                txn_id=self.txn_id, reason="the metastore no longer lists it as open"
            )
        # Where the server keeps this history, its cleaner looks at nothing else.
        lowest = {
            ref: write_ids.min_open_write_id or WriteId(write_ids.high_watermark + 1)
            for ref, write_ids in snapshot.tables.items()
        }
        self.client.add_write_ids_to_min_history(self.txn_id, lowest)
        self.plan.on_step("snapshot")
        return snapshot


def take_snapshot(
    client: MetastorePort,
    txn_id: TxnId,
    refs: Iterable[TableRef],
    own: Mapping[TableRef, WriteId],
) -> Snapshot:
    """What is committed now; the transaction and its own write IDs are open in it, if it is.

    The server is asked as if the transaction had committed, as Hive asks it. Hive 4.0.1 ends a
    table's list at the lowest write ID that is not valid if it knows of no valid one; ours it
    knows, so that the list goes at least as far. See docs/adr/0014.
    """
    txns = client.valid_txns()
    if txn_id in txns.open:
        lists = client.valid_write_ids(refs, txns.without(txn_id))
        tables = {ref: ids.with_open(own[ref]) if ref in own else ids for ref, ids in lists.items()}
    else:
        tables = client.valid_write_ids(refs, txns)
    return Snapshot(txn_id=txn_id, txns=txns, tables=tables)


def _is_surely_whole(write_ids: ValidWriteIdList) -> bool:
    """Whether a list cannot lack committed write IDs above its end: that is where it would end."""
    last = write_ids.high_watermark
    return not last or write_ids.is_visible(last)


def _known(
    before: Mapping[TableRef, ValidWriteIdList], plan: Plan
) -> Mapping[TableRef, ValidWriteIdList]:
    """What was committed when the job began, of the tables whose lists say so already."""
    whole = {ref: before[ref] for ref in plan.watched if _is_surely_whole(before[ref])}
    return {**whole, **plan.began}


def _interval_s(plan: Plan, timeout_s: float) -> float:
    if plan.heartbeat_s is None:
        return timeout_s / 2
    if not 0 < plan.heartbeat_s < timeout_s:
        raise ConfigurationError(
            f"heartbeat_s={plan.heartbeat_s:g} does not fit: the metastore gives a transaction up"
            f" after {timeout_s:g} s of silence; leave it out to beat at half of that"
        )
    return plan.heartbeat_s


def _write_ids_of(
    client: MetastorePort, refs: tuple[TableRef, ...]
) -> Mapping[TableRef, ValidWriteIdList]:
    return client.valid_write_ids(refs, client.valid_txns()) if refs else {}

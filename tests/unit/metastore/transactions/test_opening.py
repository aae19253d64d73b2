"""The snapshot of a new transaction, even if the metastore omits write IDs from its lists.

Also shows when a transaction is reopened, for example after a lost response to a lock request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.locks import LockRequest, LockResponse
from airflow_hiveacid.metastore.port import TxnState, TxnType
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.lock_wait import WaitedInVainError, Waiting
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from tests.contract.bench import access, start
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


def left_out(client: FakeClient, server: FakeMetastore, table: TableInfo) -> WriteId:
    """A committed write ID above that of somebody slow who opened later; 4.x does not list it."""
    early, slow = client.open_txn(), client.open_txn()
    client.allocate_write_id(slow, table.ref)
    write_id = client.allocate_write_id(early, table.ref)
    client.commit_txn(early)
    server.clean_write_ids()
    return write_id


def opened(
    client: FakeClient, table: TableInfo, clock: ManualClock, *operations: DataOperation
) -> MetastoreTransaction:
    with begin(
        client,
        job_terms(clock=clock),
        reads=[access(table, SELECT)] if SELECT in operations else [],
        writes=[access(table, *[o for o in operations if o is not SELECT])],
    ) as txn:
        return txn


@pytest.mark.parametrize("operations", [[UPDATE], [DELETE], [INSERT, SELECT]])
def test_a_writer_that_reads_sees_commits_that_the_write_id_list_omits(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    operations: list[DataOperation],
) -> None:
    write_id = left_out(client, server, table)
    txn = opened(client, table, clock, *operations)
    assert txn.snapshot.write_ids(table.ref).is_visible(write_id)


def test_the_transaction_of_a_second_writer_is_not_reopened_while_the_first_is_open(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """If the request treats the second write as open, 4.x lists only the first write ID."""
    first = client.open_txn()
    client.allocate_write_id(first, table.ref)
    txn = opened(client, table, clock, UPDATE)
    assert txn.write_ids[table.ref] == 2
    assert set(txn.snapshot.write_ids(table.ref).open) == {1, 2}
    assert server.next_write_id[table.ref] == 3
    assert server.txns[first].state.value == "open"


def test_a_writer_sees_no_open_or_aborted_write_below_its_own(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """If the request treats the writer's own write as open, 4.x lists only the first write ID."""
    for is_dead in (False, True, False):
        other = client.open_txn()
        client.allocate_write_id(other, table.ref)
        if is_dead:
            client.abort_txn(other)
    txn = opened(client, table, clock, UPDATE)
    found = txn.snapshot.write_ids(table.ref)
    assert (set(found.open), set(found.aborted)) == ({1, 3, 4}, {2})
    assert [w for w in range(1, 5) if found.is_visible(WriteId(w))] == []


KEY, ATTEMPT = "dag/run/task/-1", AttemptId(1, "1" * 12)
LOST = errors.MetastoreUnavailableError(uris=(), method="lock", reason="cut off")


class CutOff(FakeClient):
    """A client that does not get the answer to its first request for locks. Mutable."""

    def __init__(self, server: FakeMetastore, meanwhile: Callable[[], object]) -> None:
        super().__init__(server)
        self.meanwhile: Callable[[], object] | None = meanwhile

    def clone(self, *, call_timeout_s: float | None = None) -> FakeClient:  # type: ignore[override]
        """For the heartbeats."""
        del call_timeout_s
        return FakeClient(self.server)

    def lock(self, request: LockRequest) -> LockResponse:
        """Locks stand, and something happens before anybody knows."""
        answer = super().lock(request)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
            raise LOST
        return answer


def begun(client: FakeClient, table: TableInfo, clock: ManualClock) -> MetastoreTransaction:
    """A job under the strict policy that begins, and ends at once."""
    mine = replace(access(table, INSERT), policy=ConflictPolicy.STRICT)
    with begin(client, job_terms(KEY, attempt=ATTEMPT, clock=clock), writes=[mine]) as txn:
        return txn


@pytest.mark.promise("T11")
@pytest.mark.parametrize("silent_s", [0.0, 30.0])
def test_a_job_killed_while_a_lock_response_was_lost_does_not_reopen_its_transaction(
    server: FakeMetastore, table: TableInfo, clock: ManualClock, silent_s: float
) -> None:
    def kill() -> None:
        assert abort_job(FakeClient(server), KEY, ATTEMPT, [table.ref])
        clock.advance(silent_s)

    with pytest.raises(errors.TransactionAbortedError):
        begun(CutOff(server, kill), table, clock)
    assert [txn.state for txn in server.txns.values()] == [TxnState.ABORTED]


def test_a_job_that_cannot_check_whether_it_was_killed_does_not_reopen_its_transaction(
    server: FakeMetastore, table: TableInfo, clock: ManualClock
) -> None:
    mute = errors.MetastoreUnavailableError(uris=(), method="heartbeat", reason="still cut off")
    meanwhile = lambda: server.break_next("heartbeat", mute, is_done=False)  # noqa: E731
    with pytest.raises(errors.MetastoreUnavailableError, match="lock"):
        begun(CutOff(server, meanwhile), table, clock)
    assert [txn.state for txn in server.txns.values()] == [TxnState.ABORTED]


def test_a_transaction_reopened_after_a_lost_response_keeps_the_write_ids_of_its_begin(
    server: FakeMetastore, table: TableInfo, clock: ManualClock
) -> None:
    rivals: list[WriteId] = []

    def rival() -> None:
        other = FakeClient(server)
        txn_id = other.open_txn()
        rivals.append(other.allocate_write_id(txn_id, table.ref))
        other.commit_txn(txn_id)

    txn = begun(CutOff(server, rival), table, clock)
    assert txn.txn_id == 3
    assert txn.snapshot.write_ids(table.ref).is_visible(rivals[0])
    assert not txn.began[table.ref].is_visible(rivals[0])


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", ["opened", "allocated", "locked", "fenced"])
def test_a_job_killed_while_its_transaction_is_reopened_remains_aborted(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock, step: str
) -> None:
    """A rival overtook it before its snapshot. Until its new locks exist, a kill finds the old."""
    seen: list[str] = []

    def on_step(name: str) -> None:
        seen.append(name)
        other = FakeClient(server)
        if seen == ["opened"]:
            rival = other.open_txn()
            other.allocate_write_id(rival, table.ref)
            other.commit_txn(rival)
        elif seen.count("opened") == 2 and name == step:
            assert abort_job(other, KEY, ATTEMPT, [table.ref])

    with (
        pytest.raises(errors.TransactionAbortedError),
        begin(
            client,
            job_terms(KEY, attempt=ATTEMPT, clock=clock, on_step=on_step),
            writes=[access(table, UPDATE)],
        ) as txn,
    ):
        txn.confirm_alive()
    assert [t.state for t in server.txns.values()].count(TxnState.COMMITTED) == 1
    assert server.locks == {}


def job(
    client: FakeClient, table: TableInfo, clock: ManualClock, on_step: Callable[[str], None]
) -> None:
    """One that changes rows and looks at its end whether it is still open."""
    with begin(
        client,
        job_terms(KEY, lock_timeout_s=60, attempt=ATTEMPT, clock=clock, on_step=on_step),
        writes=[access(table, UPDATE)],
    ) as txn:
        txn.confirm_alive()


def at_second(step: str, what: Callable[[], object]) -> Callable[[str], None]:
    """Does something when a step is reached for the second time."""
    seen: list[str] = []

    def on_step(name: str) -> None:
        seen.append(name)
        if name == step and seen.count(name) == 2:
            what()

    return on_step


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", ["opened", "allocated"])
def test_a_job_killed_during_the_reopening_after_a_lost_response_remains_aborted(
    server: FakeMetastore, table: TableInfo, clock: ManualClock, step: str
) -> None:
    def kill() -> None:
        assert abort_job(FakeClient(server), KEY, ATTEMPT, [table.ref])

    with pytest.raises(errors.TransactionAbortedError):
        job(CutOff(server, lambda: None), table, clock, at_second(step, kill))
    assert [t.state for t in server.txns.values()] == [TxnState.ABORTED] * 2


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", ["opened", "allocated"])
def test_a_job_killed_during_the_reopening_after_an_overtaken_lock_wait_remains_aborted(
    server: FakeMetastore,
    table: TableInfo,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    def kill() -> None:
        assert abort_job(FakeClient(server), KEY, ATTEMPT, [table.ref])

    holder, other = (start(FakeClient(server), access(table, OVERWRITE)) for _ in range(2))
    doings: list[Callable[[], object]] = [lambda: FakeClient(server).commit_txn(holder.txn_id)]
    sleep = clock.sleep

    def busy(seconds: float) -> None:
        sleep(seconds)
        if doings:
            doings.pop()()

    monkeypatch.setattr(clock, "sleep", busy)
    with pytest.raises(errors.TransactionAbortedError):
        job(FakeClient(server), table, clock, at_second(step, kill))
    states = [TxnState.COMMITTED, TxnState.OPEN, TxnState.ABORTED, TxnState.ABORTED]
    assert [t.state for t in server.txns.values()] == states
    assert [lock.request.txn_id for lock in server.locks.values()] == [other.txn_id]


@pytest.mark.parametrize("is_aborted", [False, True])
def test_only_an_open_transaction_is_reopened_after_it_was_overtaken_in_the_lock_wait(
    server: FakeMetastore, client: FakeClient, table: TableInfo, is_aborted: bool
) -> None:
    holder = start(FakeClient(server), access(table, OVERWRITE))
    before = {table.ref: client.valid_write_ids([table.ref], client.valid_txns())[table.ref]}
    waiting = Waiting(
        client=client,
        writes=[access(table, UPDATE)],
        txn_id=client.open_txn(),
        before=before,
    )
    waiting.look()
    client.commit_txn(holder.txn_id)
    if not is_aborted:
        with pytest.raises(WaitedInVainError):
            waiting.look()
        return
    client.abort_txn(waiting.txn_id)
    waiting.look()


def test_a_job_that_fails_during_the_reopening_leaves_no_open_transaction(
    server: FakeMetastore, table: TableInfo, clock: ManualClock
) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        job(CutOff(server, lambda: None), table, clock, at_second("allocated", stop))
    assert [t.state for t in server.txns.values()] == [TxnState.ABORTED] * 2
    assert server.locks == {}


class Patient(FakeClient):
    """A client that notes at each opening whether it would wait for as long as a transaction."""

    def __init__(self, server: FakeMetastore) -> None:
        super().__init__(server)
        self.left: object = None
        self.was_patient: list[bool] = []

    def clone(self, *, call_timeout_s: float | None = None) -> FakeClient:  # type: ignore[override]
        """For the heartbeats."""
        del call_timeout_s
        return FakeClient(self.server)

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        """It is asked to."""
        self.left = left_s

    def open_txn(self, txn_type: TxnType = TxnType.DEFAULT) -> TxnId:
        """It opens one."""
        self.was_patient.append(self.left is not None)
        return super().open_txn(txn_type)


@pytest.mark.parametrize("is_at_work", [False, True])
def test_the_retry_time_of_an_abandoned_transaction_does_not_apply_to_the_next_one(
    server: FakeMetastore, table: TableInfo, clock: ManualClock, *, is_at_work: bool
) -> None:
    """Heartbeats of the abandoned transaction prove nothing about the next one."""
    client = Patient(server)

    def rival() -> None:
        other = FakeClient(server)
        txn_id = other.open_txn()
        other.allocate_write_id(txn_id, table.ref)
        other.commit_txn(txn_id)

    def on_step(name: str) -> None:
        if name == "opened" and len(client.was_patient) == 1 and not is_at_work:
            rival()

    def once(handover: Handover) -> None:
        with begin(
            client,
            job_terms(KEY, attempt=ATTEMPT, clock=clock, on_step=on_step),
            writes=[access(table, UPDATE)],
            handover=handover,
        ) as txn:
            if is_at_work and len(client.was_patient) == 1:
                raise errors.OvertakenError(table=table.ref, txn_id=txn.txn_id, why="of a test")

    handover = Handover(client)
    if is_at_work:
        with pytest.raises(errors.OvertakenError):
            once(handover)
    once(handover)
    assert client.was_patient == [False, False]

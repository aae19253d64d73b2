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
from airflow_hiveacid.metastore.locks import LockRequest, LockResponse
from airflow_hiveacid.metastore.port import TxnState, TxnType
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.lock_wait import WaitedInVainError, Waiting
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from tests.contract.bench import access, start
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.support.terms import job_terms
from tests.unit.metastore.transactions.conftest import Lab

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


def left_out(lab: Lab) -> WriteId:
    """A committed write ID above that of somebody slow who opened later; 4.x does not list it."""
    early = lab.client.open_txn()
    lab.open_write()
    write_id = lab.client.allocate_write_id(early, lab.table.ref)
    lab.client.commit_txn(early)
    lab.server.clean_write_ids()
    return write_id


def opened(lab: Lab, *operations: DataOperation) -> MetastoreTransaction:
    with lab.begin(*operations) as txn:
        return txn


@pytest.mark.parametrize("operations", [[UPDATE], [DELETE], [INSERT, SELECT]])
def test_a_writer_that_reads_sees_commits_that_the_write_id_list_omits(
    lab: Lab, operations: list[DataOperation]
) -> None:
    write_id = left_out(lab)
    txn = opened(lab, *operations)
    assert txn.snapshot.write_ids(lab.table.ref).is_visible(write_id)


def test_the_transaction_of_a_second_writer_is_not_reopened_while_the_first_is_open(
    lab: Lab,
) -> None:
    """If the request treats the second write as open, 4.x lists only the first write ID."""
    first, _ = lab.open_write()
    txn = opened(lab, UPDATE)
    assert txn.write_ids[lab.table.ref] == 2
    assert set(txn.snapshot.write_ids(lab.table.ref).open) == {1, 2}
    assert lab.server.next_write_id[lab.table.ref] == 3
    assert lab.server.txns[first].state.value == "open"


def test_a_writer_sees_no_open_or_aborted_write_below_its_own(lab: Lab) -> None:
    """If the request treats the writer's own write as open, 4.x lists only the first write ID."""
    for is_dead in (False, True, False):
        other, _ = lab.open_write()
        if is_dead:
            lab.client.abort_txn(other)
    txn = opened(lab, UPDATE)
    found = txn.snapshot.write_ids(lab.table.ref)
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


def begun(lab: Lab, client: FakeClient) -> MetastoreTransaction:
    """A job under the strict policy that begins, and ends at once."""
    mine = replace(access(lab.table, INSERT), policy=ConflictPolicy.STRICT)
    with begin(client, job_terms(KEY, attempt=ATTEMPT, clock=lab.clock), writes=[mine]) as txn:
        return txn


def kill(lab: Lab) -> None:
    assert abort_job(FakeClient(lab.server), KEY, ATTEMPT, [lab.table.ref])


@pytest.mark.promise("T11")
@pytest.mark.parametrize("silent_s", [0.0, 30.0])
def test_a_job_killed_while_a_lock_response_was_lost_does_not_reopen_its_transaction(
    lab: Lab, silent_s: float
) -> None:
    def kill_and_wait() -> None:
        kill(lab)
        lab.clock.advance(silent_s)

    with pytest.raises(errors.TransactionAbortedError):
        begun(lab, CutOff(lab.server, kill_and_wait))
    assert [txn.state for txn in lab.server.txns.values()] == [TxnState.ABORTED]


def test_a_job_that_cannot_check_whether_it_was_killed_does_not_reopen_its_transaction(
    lab: Lab,
) -> None:
    with pytest.raises(errors.MetastoreUnavailableError, match="lock"):
        begun(lab, CutOff(lab.server, lambda: lab.lose("heartbeat", is_done=False)))
    assert [txn.state for txn in lab.server.txns.values()] == [TxnState.ABORTED]


def test_a_transaction_reopened_after_a_lost_response_keeps_the_write_ids_of_its_begin(
    lab: Lab,
) -> None:
    rivals: list[WriteId] = []
    txn = begun(lab, CutOff(lab.server, lambda: rivals.append(lab.write())))
    assert txn.txn_id == 3
    assert txn.snapshot.write_ids(lab.table.ref).is_visible(rivals[0])
    assert not txn.began[lab.table.ref].is_visible(rivals[0])


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", ["opened", "allocated", "locked", "fenced"])
def test_a_job_killed_while_its_transaction_is_reopened_remains_aborted(
    lab: Lab, step: str
) -> None:
    """A rival overtook it before its snapshot. Until its new locks exist, a kill finds the old."""
    seen: list[str] = []

    def on_step(name: str) -> None:
        seen.append(name)
        if seen == ["opened"]:
            lab.write()
        elif seen.count("opened") == 2 and name == step:
            kill(lab)

    with (
        pytest.raises(errors.TransactionAbortedError),
        lab.begin(UPDATE, job_key=KEY, attempt=ATTEMPT, on_step=on_step) as txn,
    ):
        txn.confirm_alive()
    assert [t.state for t in lab.server.txns.values()].count(TxnState.COMMITTED) == 1
    assert lab.server.locks == {}


def job(lab: Lab, client: FakeClient, on_step: Callable[[str], None]) -> None:
    """One that changes rows and looks at its end whether it is still open."""
    with lab.begin(
        UPDATE, job_key=KEY, client=client, lock_timeout_s=60, attempt=ATTEMPT, on_step=on_step
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
    lab: Lab, step: str
) -> None:
    with pytest.raises(errors.TransactionAbortedError):
        job(lab, CutOff(lab.server, lambda: None), at_second(step, lambda: kill(lab)))
    assert [t.state for t in lab.server.txns.values()] == [TxnState.ABORTED] * 2


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", ["opened", "allocated"])
def test_a_job_killed_during_the_reopening_after_an_overtaken_lock_wait_remains_aborted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    holder, other = (start(lab.client, access(lab.table, OVERWRITE)) for _ in range(2))
    doings: list[Callable[[], object]] = [lambda: lab.client.commit_txn(holder.txn_id)]
    sleep = lab.clock.sleep

    def busy(seconds: float) -> None:
        sleep(seconds)
        if doings:
            doings.pop()()

    monkeypatch.setattr(lab.clock, "sleep", busy)
    with pytest.raises(errors.TransactionAbortedError):
        job(lab, lab.client, at_second(step, lambda: kill(lab)))
    states = [TxnState.COMMITTED, TxnState.OPEN, TxnState.ABORTED, TxnState.ABORTED]
    assert [t.state for t in lab.server.txns.values()] == states
    assert [lock.request.txn_id for lock in lab.server.locks.values()] == [other.txn_id]


@pytest.mark.parametrize("is_aborted", [False, True])
def test_only_an_open_transaction_is_reopened_after_it_was_overtaken_in_the_lock_wait(
    lab: Lab, is_aborted: bool
) -> None:
    holder = start(lab.client, access(lab.table, OVERWRITE))
    waiting = Waiting(
        client=lab.client,
        writes=[access(lab.table, UPDATE)],
        txn_id=lab.client.open_txn(),
        before=lab.client.valid_write_ids([lab.table.ref], lab.client.valid_txns()),
    )
    waiting.look()
    lab.client.commit_txn(holder.txn_id)
    if not is_aborted:
        with pytest.raises(WaitedInVainError):
            waiting.look()
        return
    lab.client.abort_txn(waiting.txn_id)
    waiting.look()


def test_a_job_that_fails_during_the_reopening_leaves_no_open_transaction(lab: Lab) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        job(lab, CutOff(lab.server, lambda: None), at_second("allocated", stop))
    assert [t.state for t in lab.server.txns.values()] == [TxnState.ABORTED] * 2
    assert lab.server.locks == {}


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
    lab: Lab, *, is_at_work: bool
) -> None:
    """Heartbeats of the abandoned transaction prove nothing about the next one."""
    client = Patient(lab.server)

    def on_step(name: str) -> None:
        if name == "opened" and len(client.was_patient) == 1 and not is_at_work:
            lab.write()

    def once(handover: Handover) -> None:
        with begin(
            client,
            job_terms(KEY, attempt=ATTEMPT, clock=lab.clock, on_step=on_step),
            writes=[access(lab.table, UPDATE)],
            handover=handover,
        ) as txn:
            if is_at_work and len(client.was_patient) == 1:
                raise errors.OvertakenError(table=lab.table.ref, txn_id=txn.txn_id, why="of a test")

    handover = Handover(client)
    if is_at_work:
        with pytest.raises(errors.OvertakenError):
            once(handover)
    once(handover)
    assert client.was_patient == [False, False]

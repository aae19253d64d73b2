from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockState,
    LockType,
    MetastoreGeneration,
)
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockInfo,
    LockRequest,
    LockResponse,
    blockers_of,
    components_for,
    in_the_way,
    lock_of_compactors,
    presence_of_compactions,
)
from airflow_hiveacid.metastore.transactions.lock_wait import acquire
from tests.contract.bench import Started, access, month, start
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.unit.metastore.transactions.conftest import Lab

OVERWRITE, UPDATE = DataOperation.OVERWRITE, DataOperation.UPDATE
MOST_NAMED = 5


@pytest.fixture
def holder(client: FakeClient, table: TableInfo) -> Started:
    return start(client, access(table, OVERWRITE))


@pytest.fixture
def request_(client: FakeClient, table: TableInfo) -> LockRequest:
    components = components_for([], [access(table, UPDATE)], client.generation)
    return LockRequest(txn_id=client.open_txn(), components=components, agent_info="me")


def held(client: FakeClient, part: LockComponent, agent: str) -> TxnId:
    """A transaction of another client that has this lock, or waits for it."""
    txn_id = client.open_txn()
    client.lock(LockRequest(txn_id=txn_id, components=(part,), agent_info=agent))
    return txn_id


def lock_on(table: TableInfo, lock_type: LockType, value: str | None = None) -> LockComponent:
    partition = None if value is None else month(value)
    return LockComponent(table=table.ref, lock_type=lock_type, operation=None, partition=partition)


def wait(client: FakeClient, request: LockRequest, clock: ManualClock) -> None:
    acquire(client, request, timeout_s=10.0, clock=clock)


@pytest.mark.promise("L5")
def test_a_lock_request_that_times_out_is_withdrawn_and_its_transaction_remains_open(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(lab.client, request_, lab.clock)
    assert {lock.txn_id for lock in lab.client.show_locks()} == {holder.txn_id}
    assert request_.txn_id in lab.client.valid_txns().open
    assert caught.value.waited_s == pytest.approx(10.0)
    assert "exclusive on default.t" in caught.value.holders


def test_pauses_between_lock_checks_double_up_to_a_limit_and_end_at_the_timeout(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    with pytest.raises(errors.LockNotAcquiredError):
        wait(lab.client, request_, lab.clock)
    assert lab.clock.slept_s[:7] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0])
    assert max(lab.clock.slept_s) == 2.0
    assert sum(lab.clock.slept_s) == pytest.approx(10.0)
    assert holder.answer.state is LockState.ACQUIRED


def test_a_lock_timeout_is_reported_even_if_the_request_cannot_be_withdrawn(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    error = errors.MetastoreUnavailableError(uris=(), method="unlock", reason="cut off")
    lab.server.break_next("unlock", error, is_done=False)
    lab.server.break_next("show_locks", error, is_done=False)
    with pytest.raises(errors.LockNotAcquiredError, match="held by: unknown"):
        wait(lab.client, request_, lab.clock)
    assert holder.answer.state is LockState.ACQUIRED


@pytest.mark.parametrize(
    ("state", "expected", "text"),
    [
        (LockState.ABORT, errors.TransactionAbortedError, "while waiting for lock"),
        (LockState.NOT_ACQUIRED, errors.LockNotAcquiredError, "another job writes"),
    ],
)
def test_a_refused_or_aborted_lock_request_ends_the_wait(
    lab: Lab, request_: LockRequest, state: LockState, expected: type[Exception], text: str
) -> None:
    class Client(FakeClient):
        def check_lock(self, lock_id: LockId, txn_id: TxnId) -> LockResponse:
            del txn_id
            return LockResponse(lock_id=lock_id, state=state, message="another job writes")

    client = Client(lab.server)
    start(client, access(client.get_table(request_.components[0].table), OVERWRITE))
    with pytest.raises(expected, match=text):
        wait(client, request_, lab.clock)
    assert lab.clock.slept_s == [0.05]


def test_the_holder_is_named_even_if_many_readers_of_another_partition_are_older(
    lab: Lab, partitioned: TableInfo
) -> None:
    for number in range(MOST_NAMED + 1):
        held(lab.client, lock_on(partitioned, LockType.SHARED_READ, "1"), f"reader {number}")
    held(lab.client, lock_on(partitioned, LockType.EXCLUSIVE, "2"), "the holder")
    request = LockRequest(
        txn_id=lab.client.open_txn(),
        components=(lock_on(partitioned, LockType.SHARED_WRITE, "2"),),
        agent_info="me",
    )
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(lab.client, request, lab.clock)
    assert "the holder" in caught.value.holders
    assert "reader" not in caught.value.holders
    assert f"`hiveacid locks {partitioned.ref}`" in str(caught.value)


def test_a_held_lock_of_a_type_that_the_generation_lacks_is_named_and_ends_no_job_for_good(
    lab: Lab, holder: Started, request_: LockRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cloudera's 3.1.3000 lists EXCL_WRITE."""
    own = lab.client.show_locks
    monkeypatch.setattr(
        lab.client, "show_locks", lambda: [replace(k, lock_type=LockType.EXCL_WRITE) for k in own()]
    )
    with pytest.raises(errors.LockNotAcquiredError, match="held by: excl_write on default"):
        wait(lab.client, request_, lab.clock)
    assert {lock.txn_id for lock in lab.client.show_locks()} == {holder.txn_id}


def test_a_request_is_withdrawn_even_if_an_unexpected_error_prevents_the_listing(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    lab.server.break_next("show_locks", ValueError("decode"), is_done=False)
    with pytest.raises(ValueError, match="decode"):
        wait(lab.client, request_, lab.clock)
    assert {lock.txn_id for lock in lab.client.show_locks()} == {holder.txn_id}


@pytest.mark.parametrize("name", [presence_of_compactions, lock_of_compactors])
def test_a_timeout_names_the_table_instead_of_an_artificial_name(
    lab: Lab, name: Callable[[TableRef], TableRef]
) -> None:
    part = LockComponent(table=name(lab.table.ref), lock_type=LockType.EXCLUSIVE, operation=None)
    held(lab.client, part, "the holder")
    request = LockRequest(txn_id=lab.client.open_txn(), components=(part,), agent_info="me")
    with pytest.raises(errors.LockNotAcquiredError, match=f"`hiveacid locks {lab.table.ref}`"):
        wait(lab.client, request, lab.clock)


@pytest.mark.parametrize(("asked", "holds"), [(None, "1"), ("1", None), ("1", "1")])
def test_a_lock_of_a_table_and_one_of_its_partition_block_each_other(
    lab: Lab, partitioned: TableInfo, asked: str | None, holds: str | None
) -> None:
    txn_id = held(lab.client, lock_on(partitioned, LockType.EXCLUSIVE, holds), "the holder")
    parts = (lock_on(partitioned, LockType.SHARED_WRITE, asked),)
    request = LockRequest(txn_id=lab.client.open_txn(), components=parts, agent_info="me")
    with pytest.raises(errors.LockNotAcquiredError, match="the holder"):
        wait(lab.client, request, lab.clock)
    blocking = in_the_way(lab.client.show_locks(), parts, lab.client.generation)
    assert [lock.txn_id for lock in blocking] == [txn_id]


def test_each_lock_is_compared_once_with_all_partitions_of_a_request(table: TableInfo) -> None:
    parts = [lock_on(table, LockType.SHARED_WRITE, f"{number}") for number in range(100)]
    locks = [
        LockInfo(
            lock_id=LockId(number),
            txn_id=TxnId(number),
            db=table.ref.db,
            table=table.ref.name,
            partition=str(month(f"{number}")),
            state=LockState.ACQUIRED,
            lock_type=LockType.EXCLUSIVE,
            user="",
            host="",
            agent_info="",
        )
        for number in range(99, 199)
    ]
    keys: list[str] = []

    def key_of(name: PartitionName) -> str:
        keys.append(str(name))
        return str(name)

    blocking = in_the_way(locks, parts, MetastoreGeneration.V4, key_of=key_of)
    assert [lock.lock_id for lock in blocking] == [99]
    assert len(keys) <= len(parts) + len(locks)


def test_a_waiting_request_is_named_if_the_server_says_that_it_is_in_the_way(lab: Lab) -> None:
    for number in range(MOST_NAMED + 1):
        held(lab.client, lock_on(lab.table, LockType.SHARED_READ), f"reader {number}")
    dropper = held(lab.client, lock_on(lab.table, LockType.EXCLUSIVE), "a waiting DROP")
    request = LockRequest(
        txn_id=lab.client.open_txn(),
        components=(lock_on(lab.table, LockType.SHARED_READ),),
        agent_info="me",
    )
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(lab.client, request, lab.clock)
    assert f"by transaction {dropper} of tester@fake (a waiting DROP, waiting)" in str(caught.value)
    assert "reader" not in caught.value.holders


def test_a_lock_on_the_database_is_among_the_blockers_and_the_servers_choice_comes_first(
    client: FakeClient, request_: LockRequest
) -> None:
    def lock(number: int, kind: LockType, **parts: object) -> LockInfo:
        fields: dict[str, object] = {
            "lock_id": LockId(number),
            "txn_id": TxnId(number + 100),
            "db": "default",
            "table": "t",
            "partition": None,
            "state": LockState.ACQUIRED,
            "lock_type": kind,
            "user": "",
            "host": "",
            "agent_info": "",
        }
        return LockInfo(**(fields | parts))  # type: ignore[arg-type]

    own = {"txn_id": request_.txn_id, "state": LockState.WAITING, "blocked_by": LockId(3)}
    locks = (
        lock(1, LockType.SHARED_READ),
        lock(2, LockType.EXCLUSIVE, table=None),
        lock(3, LockType.EXCLUSIVE, state=LockState.WAITING),
        lock(4, LockType.EXCLUSIVE, table="another"),
        lock(5, LockType.SHARED_WRITE, **own),
        lock(6, LockType.EXCLUSIVE, state=LockState.WAITING),
    )
    blockers = blockers_of(request_, LockId(5), locks, client.generation)
    assert [lock.lock_id for lock in blockers] == [3, 2]

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
    LockRequest,
    LockResponse,
    blockers_of,
    components_for,
    in_the_way,
    lock_of_compactors,
    presence_of_compactions,
)
from airflow_hiveacid.metastore.transactions.lock_wait import acquire
from tests.contract.bench import Started, access, listed_lock, month, start
from tests.contract.fake_client import FakeClient
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


def lock_on(table: TableInfo, lock_type: LockType, value: str | None = None) -> LockComponent:
    partition = None if value is None else month(value)
    return LockComponent(table=table.ref, lock_type=lock_type, operation=None, partition=partition)


def request_of(lab: Lab, *parts: LockComponent) -> LockRequest:
    return LockRequest(txn_id=lab.client.open_txn(), components=parts, agent_info="me")


def wait(lab: Lab, request: LockRequest, client: FakeClient | None = None) -> None:
    acquire(client or lab.client, request, timeout_s=10.0, clock=lab.clock)


@pytest.mark.promise("L5")
def test_a_lock_request_that_times_out_is_withdrawn_and_its_transaction_remains_open(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(lab, request_)
    assert {lock.txn_id for lock in lab.client.show_locks()} == {holder.txn_id}
    assert request_.txn_id in lab.client.valid_txns().open
    assert caught.value.waited_s == pytest.approx(10.0)
    assert "exclusive on default.t" in caught.value.holders


def test_pauses_between_lock_checks_double_up_to_a_limit_and_end_at_the_timeout(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    with pytest.raises(errors.LockNotAcquiredError):
        wait(lab, request_)
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
        wait(lab, request_)
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
        wait(lab, request_, client)
    assert lab.clock.slept_s == [0.05]


def test_the_holder_is_named_even_if_many_readers_of_another_partition_are_older(
    lab: Lab, partitioned: TableInfo
) -> None:
    for number in range(MOST_NAMED + 1):
        lab.hold(lock_on(partitioned, LockType.SHARED_READ, "1"), f"reader {number}")
    lab.hold(lock_on(partitioned, LockType.EXCLUSIVE, "2"), "the holder")
    request = request_of(lab, lock_on(partitioned, LockType.SHARED_WRITE, "2"))
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(lab, request)
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
        wait(lab, request_)
    assert {lock.txn_id for lock in lab.client.show_locks()} == {holder.txn_id}


def test_a_request_is_withdrawn_even_if_an_unexpected_error_prevents_the_listing(
    lab: Lab, holder: Started, request_: LockRequest
) -> None:
    lab.server.break_next("show_locks", ValueError("decode"), is_done=False)
    with pytest.raises(ValueError, match="decode"):
        wait(lab, request_)
    assert {lock.txn_id for lock in lab.client.show_locks()} == {holder.txn_id}


@pytest.mark.parametrize("name", [presence_of_compactions, lock_of_compactors])
def test_a_timeout_names_the_table_instead_of_an_artificial_name(
    lab: Lab, name: Callable[[TableRef], TableRef]
) -> None:
    part = LockComponent(table=name(lab.table.ref), lock_type=LockType.EXCLUSIVE, operation=None)
    lab.hold(part, "the holder")
    request = request_of(lab, part)
    with pytest.raises(errors.LockNotAcquiredError, match=f"`hiveacid locks {lab.table.ref}`"):
        wait(lab, request)


@pytest.mark.parametrize(("asked", "holds"), [(None, "1"), ("1", None), ("1", "1")])
def test_a_lock_of_a_table_and_one_of_its_partition_block_each_other(
    lab: Lab, partitioned: TableInfo, asked: str | None, holds: str | None
) -> None:
    txn_id = lab.hold(lock_on(partitioned, LockType.EXCLUSIVE, holds), "the holder")
    parts = (lock_on(partitioned, LockType.SHARED_WRITE, asked),)
    request = request_of(lab, *parts)
    with pytest.raises(errors.LockNotAcquiredError, match="the holder"):
        wait(lab, request)
    blocking = in_the_way(lab.client.show_locks(), parts, lab.client.generation)
    assert [lock.txn_id for lock in blocking] == [txn_id]


def test_each_lock_is_compared_once_with_all_partitions_of_a_request(table: TableInfo) -> None:
    parts = [lock_on(table, LockType.SHARED_WRITE, f"{number}") for number in range(100)]
    locks = [listed_lock(number, partition=str(month(f"{number}"))) for number in range(99, 199)]
    keys: list[str] = []

    def key_of(name: PartitionName) -> str:
        keys.append(str(name))
        return str(name)

    blocking = in_the_way(locks, parts, MetastoreGeneration.V4, key_of=key_of)
    assert [lock.lock_id for lock in blocking] == [99]
    assert len(keys) <= len(parts) + len(locks)


def test_a_waiting_request_is_named_if_the_server_says_that_it_is_in_the_way(lab: Lab) -> None:
    for number in range(MOST_NAMED + 1):
        lab.hold(lock_on(lab.table, LockType.SHARED_READ), f"reader {number}")
    dropper = lab.hold(lock_on(lab.table, LockType.EXCLUSIVE), "a waiting DROP")
    request = request_of(lab, lock_on(lab.table, LockType.SHARED_READ))
    with pytest.raises(errors.LockNotAcquiredError) as caught:
        wait(lab, request)
    assert f"by transaction {dropper} of tester@fake (a waiting DROP, waiting)" in str(caught.value)
    assert "reader" not in caught.value.holders


def test_a_lock_on_the_database_is_among_the_blockers_and_the_servers_choice_comes_first(
    client: FakeClient, request_: LockRequest
) -> None:
    own = {"txn_id": request_.txn_id, "state": LockState.WAITING, "blocked_by": LockId(3)}
    locks = (
        listed_lock(1, txn_id=101, lock_type=LockType.SHARED_READ),
        listed_lock(2, txn_id=102, table=None),
        listed_lock(3, txn_id=103, state=LockState.WAITING),
        listed_lock(4, txn_id=104, table="another"),
        listed_lock(5, lock_type=LockType.SHARED_WRITE, **own),
        listed_lock(6, txn_id=106, state=LockState.WAITING),
    )
    blockers = blockers_of(request_, LockId(5), locks, client.generation)
    assert [lock.lock_id for lock in blockers] == [3, 2]

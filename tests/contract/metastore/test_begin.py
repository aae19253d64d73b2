from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_hiveacid.format import conflicts, errors, ids, snapshot
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.local.pytest_plugin import TXN_TIMEOUT_S
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.client.catalog_calls import _WriteContext
from airflow_hiveacid.metastore.locks import LockRequest, components_for
from airflow_hiveacid.metastore.port import MetastorePort, TxnType
from airflow_hiveacid.metastore.transactions.transaction import STEPS, begin
from tests.contract.bench import REAL_PARAMS, Bench, access, commit, month, start
from tests.support.terms import job_terms

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = conflicts.DataOperation


class BodyError(Exception):
    """What goes wrong in a body."""


def now(client: MetastorePort, table: TableInfo) -> snapshot.ValidWriteIdList:
    return client.valid_write_ids([table.ref], client.valid_txns())[table.ref]


def test_the_steps_of_a_transaction_run_in_a_fixed_order(
    bench: Bench, client: MetastorePort
) -> None:
    steps: list[str] = []
    with bench.begin(client, on_step=steps.append, writes=[access(bench.table(), UPDATE)]) as txn:
        assert steps == ["opened", "allocated", "locked", "fenced", "snapshot"]
        txn.step("mine")
    assert steps == ["opened", "allocated", "locked", "fenced", "snapshot", "mine", *STEPS[5:]]


def test_a_transaction_commits_and_releases_its_locks_when_its_body_returns(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    with bench.begin(client, writes=[access(table, INSERT)]) as txn:
        assert not now(client, table).is_visible(txn.write_ids[table.ref])
    assert now(client, table).is_visible(txn.write_ids[table.ref])
    assert client.show_locks(table.ref) == ()


@pytest.mark.promise("T12")
def test_an_error_in_the_body_aborts_this_transaction_and_no_other(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    neighbour = start(bench.client(), access(table, INSERT))

    with pytest.raises(BodyError), bench.begin(client, writes=[access(table, INSERT)]):
        raise BodyError
    assert {lock.txn_id for lock in client.show_locks(table.ref)} == {neighbour.txn_id}
    commit(client, neighbour.txn_id)
    write_ids = now(client, table)
    assert write_ids.is_visible(neighbour.write_id)
    assert write_ids.aborted == (2,)


@pytest.mark.promise("T15")
def test_tables_written_in_one_transaction_are_committed_together(
    bench: Bench, client: MetastorePort
) -> None:
    one, other = bench.table("one"), bench.table("other")
    with bench.begin(client, writes=[access(one, INSERT), access(other, INSERT)]) as txn:
        pass
    seen = client.valid_write_ids([one.ref, other.ref], client.valid_txns())
    assert all(seen[ref].is_visible(txn.write_ids[ref]) for ref in (one.ref, other.ref))


@pytest.mark.promise("T9")
def test_the_snapshot_covers_all_tables_and_does_not_change(
    bench: Bench, client: MetastorePort
) -> None:
    one, other = bench.table("one"), bench.table("other")
    with bench.begin(client, reads=[access(one, SELECT)], writes=[access(other, INSERT)]) as txn:
        late = start(bench.client(), access(one, INSERT))
        commit(late.client, late.txn_id)
        assert now(client, one).is_visible(late.write_id)
        assert not txn.snapshot.write_ids(one.ref).is_visible(late.write_id)
        assert set(txn.snapshot.tables) == {one.ref, other.ref}


@pytest.mark.promise("T21")
def test_a_reader_holds_shared_read_locks_and_commits_at_its_end(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2")
    with bench.begin(client, None, reads=[access(table, SELECT, partitions=(month("1"),))]) as txn:
        (lock,) = client.show_locks(table.ref)
        assert (lock.lock_type, lock.partition) == (conflicts.LockType.SHARED_READ, "month=1")
        assert txn.write_ids == {}
        assert txn.txn_id in client.valid_txns().open
    assert client.show_locks(table.ref) == ()
    assert client.valid_txns().is_visible(txn.txn_id)


@pytest.mark.parametrize("txn_type", TxnType)
def test_an_open_reader_of_any_transaction_type_is_in_the_list_of_open_transactions(
    bench: Bench, client: MetastorePort, txn_type: TxnType
) -> None:
    with bench.begin(
        client, "reader", reads=[access(bench.table(), SELECT)], txn_type=txn_type
    ) as txn:
        txns = bench.client().valid_txns()
        assert txn.txn_id in txns.open
        assert txns.min_open is not None
        assert txns.min_open <= txn.txn_id


@pytest.mark.promise("L5")
def test_a_lock_that_times_out_is_withdrawn_and_the_error_names_its_holder(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    holder = start(bench.client(), access(table, OVERWRITE))
    began_s = bench.clock.monotonic()
    with (
        pytest.raises(errors.LockNotAcquiredError, match=r"exclusive on .*by hand") as caught,
        bench.begin(client, "waiter", lock_timeout_s=0.5, writes=[access(table, UPDATE)]),
    ):
        pytest.fail("the body must not run")
    # The bound counts from the beginning of it all, however little of it the locks had left.
    assert caught.value.waited_s <= bench.clock.monotonic() - began_s
    assert bench.clock.monotonic() - began_s >= 0.5
    assert str(table.ref) in caught.value.tables
    assert {lock.txn_id for lock in client.show_locks(table.ref)} == {holder.txn_id}
    assert client.valid_txns().open == (holder.txn_id,)
    holder.client.abort_txn(holder.txn_id)


class ReleasingClock:
    """The bench's clock; the second time somebody sleeps, something happens first."""

    def __init__(self, bench: Bench, happen: Callable[[], object]) -> None:
        self._clock = bench.clock
        self._happen = happen
        self._sleeps = 0
        self.monotonic = bench.clock.monotonic
        self.wait = bench.clock.wait

    def sleep(self, seconds: float) -> None:
        self._sleeps += 1
        if self._sleeps == 2:
            self._happen()
        self._clock.sleep(seconds)


def test_a_waiting_transaction_gets_its_lock_when_the_holder_ends(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    holder = start(bench.client(), access(table, OVERWRITE))
    clock = ReleasingClock(bench, lambda: holder.client.abort_txn(holder.txn_id))
    with begin(
        client, job_terms("waiter", lock_timeout_s=20, clock=clock), writes=[access(table, UPDATE)]
    ) as txn:
        locks = client.show_locks(table.ref)
        assert {(lock.txn_id, lock.state) for lock in locks} == {
            (txn.txn_id, conflicts.LockState.ACQUIRED)
        }


def test_an_update_restarts_if_another_update_commits_before_its_snapshot(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    steps: list[str] = []
    rival = bench.client()

    def overtake(step: str) -> None:
        steps.append(step)
        if steps == ["opened"]:
            with bench.begin(rival, "rival", writes=[access(table, UPDATE)]):
                pass

    with bench.begin(client, on_step=overtake, writes=[access(table, UPDATE)]) as txn:
        assert steps == [*STEPS[:5], *STEPS[:5]]
        assert txn.first_txn_id < txn.txn_id
        mine = txn.write_ids[table.ref]
    assert now(client, table).is_visible(mine)
    assert client.show_locks(table.ref) == ()


def test_an_insert_does_not_restart_if_an_update_commits_before_its_snapshot(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        if step == "opened":
            other = start(bench.client(), access(table, UPDATE))
            commit(other.client, other.txn_id)

    with bench.begin(client, on_step=overtake, writes=[access(table, INSERT)]):
        assert steps == [*STEPS[:5]]


def test_the_first_overlapping_update_to_commit_wins_and_the_other_raises_a_conflict(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    other = bench.client()

    def race() -> None:
        # An INSERT lets all others go on, also on 3.1, where a second update would wait.
        with bench.begin(client, "slow", writes=[access(table, INSERT)]) as slow:
            fast = start(other, access(table, UPDATE))
            commit(other, fast.txn_id)
            late = components_for([], [access(table, UPDATE)], client.generation)
            client.lock(LockRequest(txn_id=slow.txn_id, components=late, agent_info="late"))

    with pytest.raises(errors.WriteConflictError):
        race()
    assert now(client, table).aborted == (1,)
    assert now(client, table).is_visible(ids.WriteId(2))
    assert client.show_locks(table.ref) == ()


def test_an_abandoned_transaction_commits_nothing_and_releases_its_locks(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    with bench.begin(client, writes=[access(table, INSERT)]) as txn:
        txn.abandon()
    assert txn.is_ended
    assert not now(client, table).is_visible(txn.write_ids[table.ref])
    assert client.show_locks(table.ref) == ()


def test_a_transaction_that_another_client_aborted_cannot_commit(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    with (
        pytest.raises(errors.TransactionAbortedError),
        bench.begin(client, writes=[access(table, INSERT)]) as txn,
    ):
        assert bench.client().abort_txn(txn.txn_id)
    assert not now(client, table).is_visible(txn.write_ids[table.ref])


def test_only_locked_partitions_of_written_tables_can_be_registered(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2", "3")
    with bench.begin(
        client, writes=[access(table, UPDATE, INSERT, partitions=(month("1"), month("2")))]
    ) as txn:
        txn.register_partitions(table.ref, [month("1")], {INSERT})
        with pytest.raises(ValueError, match="no lock on partitions month=3"):
            txn.register_partitions(table.ref, [month("1"), month("3")], {INSERT})
        stranger = bench.table("stranger").ref
        with pytest.raises(ValueError, match="not among the tables"):
            txn.register_partitions(stranger, [month("1")], {INSERT})


@pytest.mark.promise("R9")
def test_statistics_of_a_written_table_are_marked_outdated_before_the_commit(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table(parameters={"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'})
    seen: dict[str, bool] = {}

    def look(step: str) -> None:
        seen[step] = "COLUMN_STATS_ACCURATE" in client.get_table(table.ref).parameters

    with bench.begin(client, on_step=look, writes=[access(table, INSERT)]):
        pass
    assert (seen["snapshot"], seen["body_done"]) == (True, False)


@pytest.mark.promise("R9")
@pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)
def test_only_statistics_of_written_partitions_are_marked_outdated(
    bench: Bench, client: MetastoreClient
) -> None:
    table = bench.partitioned("1", "2")
    names = ["month=1", "month=2"]
    marking = start(client, access(table, INSERT))
    partitions = list(client._raw_partitions(table.ref, names))
    for partition in partitions:
        partition.parameters["COLUMN_STATS_ACCURATE"] = '{"BASIC_STATS":"true"}'
    marked_by = now(client, table).with_own(marking.write_id).text()
    client._send_partitions(table.ref, partitions, _WriteContext(marking.write_id, marked_by))
    commit(client, marking.txn_id)

    with begin(client, job_terms(), writes=[access(table, INSERT)]) as txn:
        txn.register_partitions(table.ref, [month("1")], {INSERT})
    right = {
        partition.values[0]: "COLUMN_STATS_ACCURATE" in partition.parameters
        for partition in client._raw_partitions(table.ref, names)
    }
    assert right == {"1": False, "2": True}


def test_unsupported_writes_are_refused_before_a_transaction_is_opened(
    bench: Bench, client: MetastorePort
) -> None:
    plain = bench.table("plain", kind=TransactionalKind.NONE)
    insert_only = bench.table("insert_only", kind=TransactionalKind.INSERT_ONLY)
    before = client.valid_txns().high_watermark
    with (
        pytest.raises(errors.NotTransactionalError, match="plain"),
        begin(client, job_terms(), writes=[access(plain, INSERT)]),
    ):
        pytest.fail("the body must not run")
    with (
        pytest.raises(errors.InsertOnlyTableError, match="DELETE and UPDATE"),
        begin(client, job_terms(), writes=[access(insert_only, UPDATE, DELETE)]),
    ):
        pytest.fail("the body must not run")
    assert client.valid_txns().high_watermark == before


def test_a_heartbeat_interval_as_long_as_the_transaction_timeout_is_refused(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    with (
        pytest.raises(errors.ConfigurationError, match="heartbeat_s=60"),
        begin(client, job_terms(heartbeat_s=TXN_TIMEOUT_S), writes=[access(table, INSERT)]),
    ):
        pytest.fail("the body must not run")


def test_writes_of_a_named_mixed_case_partition_conflict_on_every_metastore_version(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("Jan")
    rival = bench.client()
    slow = client.open_txn()
    slow_write = client.allocate_write_id(slow, table.ref)
    with bench.begin(rival, writes=[access(table, UPDATE, partitions=(month("Jan"),))]):
        pass
    client.add_dynamic_partitions(slow, slow_write, table.ref, [month("Jan")], UPDATE)
    with pytest.raises(errors.WriteConflictError):
        commit(client, slow)

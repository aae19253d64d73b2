from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import LockNotAcquiredError, TransactionAbortedError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.transaction import STEPS, begin
from tests.contract.bench import access, month, start
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


class StopHereError(Exception):
    """A fault at a border between two steps."""


@pytest.mark.parametrize("border", STEPS[:-1])
def test_an_error_at_any_step_before_the_commit_leaves_no_open_transaction_or_lock(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    border: str,
) -> None:
    def stop(step: str) -> None:
        if step == border:
            raise StopHereError

    with (
        pytest.raises(StopHereError),
        begin(client, job_terms(clock=clock, on_step=stop), writes=[access(table, INSERT)]),
    ):
        pass
    assert [txn.state for txn in server.txns.values()] == [TxnState.ABORTED]
    assert client.show_locks() == ()


def test_an_error_after_the_commit_aborts_nothing(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def stop(step: str) -> None:
        if step == "committed":
            raise StopHereError

    with (
        pytest.raises(StopHereError),
        begin(client, job_terms(clock=clock, on_step=stop), writes=[access(table, INSERT)]),
    ):
        pass
    assert [txn.state for txn in server.txns.values()] == [TxnState.COMMITTED]


@pytest.mark.promise("L9")
def test_a_dynamic_write_without_rows_leaves_no_record_in_the_metastore(
    server: FakeMetastore, client: FakeClient, partitioned: TableInfo, clock: ManualClock
) -> None:
    with begin(
        client, job_terms(clock=clock), writes=[access(partitioned, INSERT, UPDATE, DELETE)]
    ) as txn:
        noted = server.txns[txn.txn_id].components
        assert bool(noted) is (server.generation is MetastoreGeneration.V4)
    assert server.txns[txn.txn_id].components == set()
    assert server.write_set == []


def test_registered_partitions_replace_the_table_in_the_metastores_record(
    server: FakeMetastore, client: FakeClient, partitioned: TableInfo, clock: ManualClock
) -> None:
    with begin(client, job_terms(clock=clock), writes=[access(partitioned, INSERT, UPDATE)]) as txn:
        txn.register_partitions(partitioned.ref, [month("1")], {INSERT, OVERWRITE})
    lines = {(w.partition, w.operation) for w in server.txns[txn.txn_id].components}
    assert lines == {(month("1"), INSERT), (month("1"), UPDATE)}


def test_a_registered_aborted_write_is_invisible_even_after_the_metastore_forgets_others(
    server: FakeMetastore, client: FakeClient, partitioned: TableInfo, clock: ManualClock
) -> None:
    def write(*, is_registered: bool) -> None:
        with begin(client, job_terms(clock=clock), writes=[access(partitioned, INSERT)]) as txn:
            if is_registered:
                txn.register_partitions(partitioned.ref, [month("1")], {INSERT})
            raise StopHereError

    for is_registered in (False, True):
        with pytest.raises(StopHereError):
            write(is_registered=is_registered)
    server.forget_empty_transactions()
    write_ids = client.valid_write_ids([partitioned.ref], client.valid_txns())[partitioned.ref]
    assert not write_ids.is_visible(2)
    # What 3.1 makes of the other one, seen live, is why files may not be in place before.
    assert write_ids.is_visible(1) is (server.generation is MetastoreGeneration.V3)


def test_a_reader_registers_its_minimum_history_on_hive_4_only(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    for _ in range(3):
        with begin(client, job_terms("w", clock=clock), writes=[access(table, INSERT)]):
            pass
    with begin(client, job_terms("r", clock=clock), reads=[access(table, SELECT)]) as txn:
        is_v4 = server.generation is MetastoreGeneration.V4
        assert server.min_history == ({txn.txn_id: {table.ref: 4}} if is_v4 else {})
    assert server.min_history == {}


def test_the_registered_history_of_a_reader_begins_at_the_lowest_open_write_id(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    writers = [client.open_txn() for _ in range(3)]
    for txn_id in writers:
        client.allocate_write_id(txn_id, table.ref)
    client.commit_txn(writers[0])
    client.commit_txn(writers[2])
    with begin(client, job_terms("r", clock=clock), reads=[access(table, SELECT)]) as txn:
        is_v4 = server.generation is MetastoreGeneration.V4
        assert server.min_history == ({txn.txn_id: {table.ref: 2}} if is_v4 else {})


def test_a_commit_of_an_earlier_writer_during_the_opening_also_causes_a_reopening(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    rival = client.open_txn()
    client.allocate_write_id(rival, table.ref)
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        if steps == ["opened"]:
            client.commit_txn(rival)

    with begin(
        client, job_terms(clock=clock, on_step=overtake), writes=[access(table, UPDATE)]
    ) as txn:
        assert steps == [*STEPS[:5], *STEPS[:5]]
        assert txn.snapshot.write_ids(table.ref).is_visible(1)


def test_a_writer_that_is_overtaken_repeatedly_proceeds_after_five_reopenings(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        if step == "opened":
            rival = type(client)(server)
            txn_id = rival.open_txn()
            rival.allocate_write_id(txn_id, table.ref)
            rival.commit_txn(txn_id)

    with begin(
        client, job_terms(clock=clock, on_step=overtake), writes=[access(table, UPDATE)]
    ) as txn:
        assert steps.count("opened") == 6
        assert txn.txn_id == 11
        assert txn.first_txn_id == 1
    assert [t.state for t in server.txns.values()].count(TxnState.OPEN) == 0


def test_a_writer_past_its_lock_timeout_does_not_reopen_its_transaction_again(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    openings: list[str] = []

    def overtake(step: str) -> None:
        if step == "opened":
            openings.append(step)
            rival = type(client)(server)
            txn_id = rival.open_txn()
            rival.allocate_write_id(txn_id, table.ref)
            rival.commit_txn(txn_id)
            clock.advance(2)

    with begin(
        client,
        job_terms(lock_timeout_s=1, clock=clock, on_step=overtake),
        writes=[access(table, UPDATE)],
    ):
        # The second time it is late, and goes on with what it has.
        assert len(openings) == 2


def test_a_writer_without_lock_wait_still_reopens_its_transaction_if_it_is_overtaken(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    seen: list[str] = []

    def overtake(step: str) -> None:
        seen.append(step)
        if step == "opened" and seen.count("opened") == 1:
            rival = type(client)(server)
            txn_id = rival.open_txn()
            rival.allocate_write_id(txn_id, table.ref)
            rival.commit_txn(txn_id)

    began_s = clock.monotonic()
    with begin(
        client,
        job_terms(lock_timeout_s=0, clock=clock, on_step=overtake),
        writes=[access(table, UPDATE)],
    ) as txn:
        assert txn.txn_id != txn.first_txn_id
    assert clock.monotonic() == began_s


class BusyClock(ManualClock):
    """While somebody sleeps, others do something: what is to be done at each sleep. Mutable."""

    def __init__(self, doings: list[Callable[[], object]]) -> None:
        super().__init__()
        self.doings = doings

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.doings:
            self.doings.pop(0)()


@pytest.mark.parametrize("has_written", [True, False])
def test_a_waiting_writer_reopens_its_transaction_before_it_has_the_lock_if_overtaken(
    client: FakeClient, table: TableInfo, *, has_written: bool
) -> None:
    """A second rival is ahead in the queue, so the granted lock would show this much later."""
    first = start(client, access(table, OVERWRITE))
    second = start(client, access(table, OVERWRITE))
    openings: list[int] = []

    def end_first() -> None:
        if has_written:
            client.commit_txn(first.txn_id)
        else:
            client.abort_txn(first.txn_id)

    doings: list[Callable[[], object]] = [
        end_first,
        lambda: None,
        lambda: openings.append(len(seen)),
        lambda: client.abort_txn(second.txn_id),
    ]
    seen: list[str] = []
    with begin(
        type(client)(client.server),
        job_terms(
            lock_timeout_s=60,
            clock=BusyClock(doings),
            on_step=lambda step: seen.append(step) if step == "opened" else None,
        ),
        writes=[access(table, UPDATE)],
    ):
        assert openings == [2 if has_written else 1]


def test_a_writer_in_a_long_queue_sees_all_commits_of_the_writers_before_it(
    client: FakeClient, table: TableInfo
) -> None:
    """There are more rivals than reopenings allowed to a writer that did not wait."""
    holders = [start(client, access(table, OVERWRITE))]

    def next_holder() -> None:
        client.commit_txn(holders[-1].txn_id)
        if len(holders) < 9:
            holders.append(start(client, access(table, OVERWRITE)))

    doings: list[Callable[[], object]] = [next_holder] * 9
    with begin(
        type(client)(client.server),
        job_terms(lock_timeout_s=600, clock=BusyClock(doings)),
        writes=[access(table, UPDATE)],
    ) as txn:
        seen = txn.snapshot.write_ids(table.ref)
        assert all(seen.is_visible(holder.write_id) for holder in holders)
    assert len(holders) == 9


@pytest.mark.promise("O2")
def test_a_writer_without_lock_wait_fails_at_once_and_names_the_lock_holder(
    client: FakeClient, server: FakeMetastore, table: TableInfo, clock: ManualClock
) -> None:
    holder = begin(
        type(client)(server),
        job_terms("dag/run/holder/-1", lock_timeout_s=0, clock=clock),
        writes=[access(table, OVERWRITE)],
    )
    began_s = clock.monotonic()
    with (
        holder,
        pytest.raises(LockNotAcquiredError, match="dag/run/holder"),
        begin(client, job_terms(lock_timeout_s=0, clock=clock), writes=[access(table, UPDATE)]),
    ):
        pytest.fail("it has no lock")
    assert clock.monotonic() == began_s


def test_a_transaction_aborted_before_its_snapshot_raises_and_runs_no_body(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def vanish(step: str) -> None:
        if step == "fenced":
            client.abort_txn(client.valid_txns().open[0])

    with (
        pytest.raises(TransactionAbortedError, match="no longer lists it as open"),
        begin(client, job_terms(clock=clock, on_step=vanish), writes=[access(table, INSERT)]),
    ):
        pytest.fail("the body must not run")


def test_a_transaction_without_tables_is_refused(client: FakeClient) -> None:
    with (
        pytest.raises(ValueError, match="at least one table"),
        begin(client, job_terms()),
    ):
        pytest.fail("the body must not run")
    assert client.valid_txns().high_watermark == 0

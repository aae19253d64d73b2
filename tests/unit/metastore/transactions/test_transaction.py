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
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms
from tests.unit.metastore.transactions.conftest import Lab

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


class StopHereError(Exception):
    """A fault at a border between two steps."""


@pytest.mark.parametrize("border", STEPS)
def test_an_error_at_any_step_leaves_no_open_transaction_or_lock_and_aborts_no_commit(
    lab: Lab, border: str
) -> None:
    def stop(step: str) -> None:
        if step == border:
            raise StopHereError

    with pytest.raises(StopHereError), lab.begin(INSERT, on_step=stop):
        pass
    state = TxnState.COMMITTED if border == "committed" else TxnState.ABORTED
    assert [txn.state for txn in lab.server.txns.values()] == [state]
    assert lab.client.show_locks() == ()


@pytest.mark.promise("L9")
def test_a_dynamic_write_without_rows_leaves_no_record_in_the_metastore(
    lab: Lab, partitioned: TableInfo
) -> None:
    with lab.begin(INSERT, UPDATE, DELETE, table=partitioned) as txn:
        noted = lab.server.txns[txn.txn_id].components
        assert bool(noted) is (lab.server.generation is MetastoreGeneration.V4)
    assert lab.server.txns[txn.txn_id].components == set()
    assert lab.server.write_set == []


def test_registered_partitions_replace_the_table_in_the_metastores_record(
    lab: Lab, partitioned: TableInfo
) -> None:
    with lab.begin(INSERT, UPDATE, table=partitioned) as txn:
        txn.register_partitions(partitioned.ref, [month("1")], {INSERT, OVERWRITE})
    lines = {(w.partition, w.operation) for w in lab.server.txns[txn.txn_id].components}
    assert lines == {(month("1"), INSERT), (month("1"), UPDATE)}


def test_a_registered_aborted_write_is_invisible_even_after_the_metastore_forgets_others(
    lab: Lab, partitioned: TableInfo
) -> None:
    def write(*, is_registered: bool) -> None:
        with lab.begin(INSERT, table=partitioned) as txn:
            if is_registered:
                txn.register_partitions(partitioned.ref, [month("1")], {INSERT})
            raise StopHereError

    for is_registered in (False, True):
        with pytest.raises(StopHereError):
            write(is_registered=is_registered)
    lab.server.forget_empty_transactions()
    ref, txns = partitioned.ref, lab.client.valid_txns()
    write_ids = lab.client.valid_write_ids([ref], txns)[ref]
    assert not write_ids.is_visible(2)
    # What 3.1 makes of the other one, seen live, is why files may not be in place before.
    assert write_ids.is_visible(1) is (lab.server.generation is MetastoreGeneration.V3)


def test_a_reader_registers_its_minimum_history_on_hive_4_only(lab: Lab) -> None:
    for _ in range(3):
        lab.write()
    with lab.begin(SELECT, job_key="r") as txn:
        is_v4 = lab.server.generation is MetastoreGeneration.V4
        assert lab.server.min_history == ({txn.txn_id: {lab.table.ref: 4}} if is_v4 else {})
    assert lab.server.min_history == {}


def test_the_registered_history_of_a_reader_begins_at_the_lowest_open_write_id(lab: Lab) -> None:
    lab.write()
    lab.open_write()
    lab.write()
    with lab.begin(SELECT, job_key="r") as txn:
        is_v4 = lab.server.generation is MetastoreGeneration.V4
        assert lab.server.min_history == ({txn.txn_id: {lab.table.ref: 2}} if is_v4 else {})


def test_a_commit_of_an_earlier_writer_during_the_opening_also_causes_a_reopening(lab: Lab) -> None:
    rival, _ = lab.open_write()
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        if steps == ["opened"]:
            lab.client.commit_txn(rival)

    with lab.begin(UPDATE, on_step=overtake) as txn:
        assert steps == [*STEPS[:5], *STEPS[:5]]
        assert txn.snapshot.write_ids(lab.table.ref).is_visible(1)


def test_a_writer_that_is_overtaken_repeatedly_proceeds_after_five_reopenings(lab: Lab) -> None:
    steps: list[str] = []

    def overtake(step: str) -> None:
        steps.append(step)
        if step == "opened":
            lab.write()

    with lab.begin(UPDATE, on_step=overtake) as txn:
        assert steps.count("opened") == 6
        assert txn.txn_id == 11
        assert txn.first_txn_id == 1
    assert [t.state for t in lab.server.txns.values()].count(TxnState.OPEN) == 0


def test_a_writer_past_its_lock_timeout_does_not_reopen_its_transaction_again(lab: Lab) -> None:
    openings: list[str] = []

    def overtake(step: str) -> None:
        if step == "opened":
            openings.append(step)
            lab.write()
            lab.clock.advance(2)

    with lab.begin(UPDATE, lock_timeout_s=1, on_step=overtake):
        # The second time it is late, and goes on with what it has.
        assert len(openings) == 2


def test_a_writer_without_lock_wait_still_reopens_its_transaction_if_it_is_overtaken(
    lab: Lab,
) -> None:
    seen: list[str] = []

    def overtake(step: str) -> None:
        seen.append(step)
        if step == "opened" and seen.count("opened") == 1:
            lab.write()

    began_s = lab.clock.monotonic()
    with lab.begin(UPDATE, lock_timeout_s=0, on_step=overtake) as txn:
        assert txn.txn_id != txn.first_txn_id
    assert lab.clock.monotonic() == began_s


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
    lab: Lab, *, has_written: bool
) -> None:
    """A second rival is ahead in the queue, so the granted lock would show this much later."""
    first = start(lab.client, access(lab.table, OVERWRITE))
    second = start(lab.client, access(lab.table, OVERWRITE))
    openings: list[int] = []

    def end_first() -> None:
        if has_written:
            lab.client.commit_txn(first.txn_id)
        else:
            lab.client.abort_txn(first.txn_id)

    doings: list[Callable[[], object]] = [
        end_first,
        lambda: None,
        lambda: openings.append(len(seen)),
        lambda: lab.client.abort_txn(second.txn_id),
    ]
    seen: list[str] = []
    with lab.begin(
        UPDATE,
        lock_timeout_s=60,
        clock=BusyClock(doings),
        on_step=lambda step: seen.append(step) if step == "opened" else None,
    ):
        assert openings == [2 if has_written else 1]


def test_a_writer_in_a_long_queue_sees_all_commits_of_the_writers_before_it(lab: Lab) -> None:
    """There are more rivals than reopenings allowed to a writer that did not wait."""
    holders = [start(lab.client, access(lab.table, OVERWRITE))]

    def next_holder() -> None:
        lab.client.commit_txn(holders[-1].txn_id)
        if len(holders) < 9:
            holders.append(start(lab.client, access(lab.table, OVERWRITE)))

    doings: list[Callable[[], object]] = [next_holder] * 9
    with lab.begin(UPDATE, lock_timeout_s=600, clock=BusyClock(doings)) as txn:
        seen = txn.snapshot.write_ids(lab.table.ref)
        assert all(seen.is_visible(holder.write_id) for holder in holders)
    assert len(holders) == 9


@pytest.mark.promise("O2")
def test_a_writer_without_lock_wait_fails_at_once_and_names_the_lock_holder(lab: Lab) -> None:
    began_s = lab.clock.monotonic()
    with (
        lab.begin(OVERWRITE, job_key="dag/run/holder/-1"),
        pytest.raises(LockNotAcquiredError, match="dag/run/holder"),
        lab.begin(UPDATE, lock_timeout_s=0),
    ):
        pytest.fail("it has no lock")
    assert lab.clock.monotonic() == began_s


def test_a_transaction_aborted_before_its_snapshot_raises_and_runs_no_body(lab: Lab) -> None:
    def vanish(step: str) -> None:
        if step == "fenced":
            lab.client.abort_txn(lab.client.valid_txns().open[0])

    with (
        pytest.raises(TransactionAbortedError, match="no longer lists it as open"),
        lab.begin(INSERT, on_step=vanish),
    ):
        pytest.fail("the body must not run")


def test_a_transaction_without_tables_is_refused(client: FakeClient) -> None:
    with (
        pytest.raises(ValueError, match="at least one table"),
        begin(client, job_terms()),
    ):
        pytest.fail("the body must not run")
    assert client.valid_txns().high_watermark == 0

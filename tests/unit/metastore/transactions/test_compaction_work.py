from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import ConflictPolicy, LockType, MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs.metastore_statements import ShowLocks
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.definitions.statements import answer
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockInfo,
    lock_of_compactors,
)
from airflow_hiveacid.metastore.transactions.compaction_work import (
    end_dead_entries,
)
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.unit.metastore.transactions.conftest import Lab


def test_a_compactor_sees_commits_from_before_it_acquired_the_compactors_lock(lab: Lab) -> None:
    def meanwhile(step: str) -> None:
        if step == "snapshot":
            lab.write()

    with lab.compacting(on_step=meanwhile) as work:
        assert work.txn.snapshot.write_ids(lab.table.ref).high_watermark == 0
        assert work.snapshot.write_ids(lab.table.ref).high_watermark == 1
        assert work.write_ids.high_watermark == 1


def test_a_query_for_the_locks_of_a_table_shows_those_of_its_compactor(lab: Lab) -> None:
    with lab.compacting() as work:
        found = answer(lab.client, ShowLocks(target=str(lab.table.ref)))
        assert [row["txn_id"] for row in found] == [work.txn.txn_id] * 2


@pytest.mark.parametrize("partition", [None, PartitionName.parse("day=1")])
def test_the_log_says_which_partition_a_transaction_is_for(
    lab: Lab, caplog: pytest.LogCaptureFixture, partition: PartitionName | None
) -> None:
    """The log lines of compactions side by side can be told apart by their transactions."""
    caplog.set_level("INFO")
    with lab.compacting(partition=partition) as work:
        subject = str(lab.table.ref) if partition is None else f"{lab.table.ref}/day=1"
        opened = f"opened txn_id={work.txn.txn_id} tables={subject} job_key=dag/run/compact/-1"
        assert opened in caplog.messages


def test_on_hive_3_a_new_queue_entry_stops_our_compaction_before_it_publishes(lab: Lab) -> None:
    with lab.compacting() as work:
        assert not work.has_rival()
        lab.client.request_compaction(lab.table.ref, None, CompactionType.MINOR)
        # 4.x gives an entry to one worker, and ours has it.
        assert work.has_rival() is (lab.client.generation is MetastoreGeneration.V3)
    assert (work.refusal is None) is (lab.client.generation is MetastoreGeneration.V4)


@pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
def test_the_queue_entry_of_an_unknown_commit_is_resolved_by_the_next_run(lab: Lab) -> None:
    def cut_off(step: str) -> None:
        if step == "body_done":
            lab.lose("commit_txn", is_done=True)
            for _ in range(999):
                lab.lose("valid_txns", is_done=False)

    def state() -> CompactionState:
        (entry,) = lab.client.show_compactions(lab.table.ref)
        return entry.state

    with (
        pytest.raises(errors.CommitStateUnknownError),
        lab.compacting(on_step=cut_off),
    ):
        pass
    lab.server.faults.clear()
    assert state() is CompactionState.WORKING
    end_dead_entries(lab.client, lab.table.ref)
    assert state() is CompactionState.READY_FOR_CLEANING  # it was committed


@pytest.mark.parametrize("policy", ConflictPolicy)
def test_a_second_compactor_names_the_transaction_and_job_that_it_gives_way_to(
    lab: Lab, policy: ConflictPolicy
) -> None:
    with lab.compacting("dag/run/first/-1", policy=policy) as first:
        try:
            with lab.compacting("dag/run/second/-1", policy=policy) as second:
                text = second.refusal or ""
        except (errors.WriteConflictError, errors.LockNotAcquiredError) as error:
            text = str(error)
            assert "(lock 0)" not in text
    owner = f"transaction {first.txn.txn_id} (tester@fake, job dag/run/first/-1, open for "
    assert f"hiveacid major compaction in {owner}" in text
    assert f"end it with `hiveacid abort {first.txn.txn_id}`" in text


def compactor(lab: Lab) -> TxnId:
    """The transaction of a compactor that has the lock, or waits for it, and does nothing."""
    part = LockComponent(
        table=lock_of_compactors(lab.table.ref), lock_type=LockType.EXCLUSIVE, operation=None
    )
    return lab.hold(part, "hiveacid major compaction")


@pytest.mark.parametrize("policy", ConflictPolicy)
def test_a_compactor_does_not_give_way_to_one_that_has_ended_meanwhile(
    lab: Lab, policy: ConflictPolicy
) -> None:
    rival = compactor(lab)

    class Client(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[LockInfo, ...]:
            if ref == lock_of_compactors(lab.table.ref):
                lab.client.abort_txn(rival)
            return super().show_locks(ref, txn_id=txn_id)

    with lab.compacting(client=Client(lab.server), policy=policy) as work:
        assert work.refusal is None


@pytest.mark.parametrize("policy", ConflictPolicy)
def test_a_compactor_that_was_killed_while_it_waited_is_named(
    lab: Lab, policy: ConflictPolicy
) -> None:
    first, killed = compactor(lab), compactor(lab)
    lab.client.commit_txn(first)
    with (
        pytest.raises(errors.LockNotAcquiredError, match=f"by transaction {killed} of .*, waiting"),
        lab.compacting(policy=policy),
    ):
        pass
    locks = lab.client.show_locks(lock_of_compactors(lab.table.ref))
    assert {lock.txn_id for lock in locks} == {killed}


def test_a_compactor_gives_way_to_that_of_its_own_partition_and_names_it(lab: Lab) -> None:
    """To end the other one, which a user might do then, would not help."""

    one, two = (PartitionName.parse(f"day={day}") for day in (1, 2))
    with (
        lab.compacting("other", partition=two),
        lab.compacting("own", partition=one) as own,
        lab.compacting("late", partition=one) as late,
    ):
        assert f"in transaction {own.txn.txn_id} (" in (late.refusal or "")


def test_a_waiting_compactor_takes_its_request_back_between_its_questions(lab: Lab) -> None:
    seen: list[set[TxnId | None]] = []
    ref = lock_of_compactors(lab.table.ref)

    class Pausing(ManualClock):
        def sleep(self, seconds: float) -> None:
            seen.append({lock.txn_id for lock in lab.client.show_locks(ref)})
            super().sleep(seconds)

    first, killed = compactor(lab), compactor(lab)
    lab.client.commit_txn(first)
    with (
        pytest.raises(errors.LockNotAcquiredError),
        lab.compacting(clock=Pausing()),
    ):
        pass
    assert len(seen) > 2
    assert all(txns == {killed} for txns in seen)


def test_a_compactor_without_a_transaction_is_named_as_the_reason_to_give_way(lab: Lab) -> None:
    class Client(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[LockInfo, ...]:
            return tuple(replace(k, txn_id=None) for k in super().show_locks(ref, txn_id=txn_id))

    with (
        lab.compacting("dag/run/first/-1"),
        lab.compacting("dag/run/second/-1", client=Client(lab.server)) as work,
    ):
        assert "exclusive on default.hiveacid_compaction_of_t" in (work.refusal or "")

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from airflow_hiveacid.format.conflicts import ConflictPolicy, LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    LockNotAcquiredError,
    MetastoreUnavailableError,
    WriteConflictError,
)
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.metastore_statements import ShowLocks
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.definitions.statements import answer
from airflow_hiveacid.metastore.locks import (
    LockComponent,
    LockInfo,
    LockRequest,
    lock_of_compactors,
)
from airflow_hiveacid.metastore.transactions.compaction_work import (
    CompactionWork,
    compacting,
    end_dead_entries,
)
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms


def test_a_compactor_sees_commits_from_before_it_acquired_the_compactors_lock(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def meanwhile(step: str) -> None:
        if step == "snapshot":
            other = client.open_txn()
            client.allocate_write_id(other, table.ref)
            client.commit_txn(other)

    with compacting(
        client,
        job_terms("dag/run/compact/-1", lock_timeout_s=1, clock=clock, on_step=meanwhile),
        table=table,
        partition=None,
        compaction_type=CompactionType.MAJOR,
    ) as work:
        assert work.txn.snapshot.write_ids(table.ref).high_watermark == 0
        assert work.snapshot.write_ids(table.ref).high_watermark == 1
        assert work.write_ids.high_watermark == 1


def test_a_query_for_the_locks_of_a_table_shows_those_of_its_compactor(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    terms = job_terms("dag/run/compact/-1", lock_timeout_s=1, clock=clock)
    major = CompactionType.MAJOR
    with compacting(client, terms, table=table, partition=None, compaction_type=major) as work:
        found = answer(client, ShowLocks(target=str(table.ref)))
        assert [row["txn_id"] for row in found] == [work.txn.txn_id] * 2


@pytest.mark.parametrize("partition", [None, PartitionName.parse("day=1")])
def test_the_log_says_which_partition_a_transaction_is_for(
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    partition: PartitionName | None,
) -> None:
    """The log lines of compactions side by side can be told apart by their transactions."""
    caplog.set_level("INFO")
    with compacting(
        client,
        job_terms("dag/run/compact/-1", lock_timeout_s=1, clock=clock),
        table=table,
        partition=partition,
        compaction_type=CompactionType.MAJOR,
    ) as work:
        subject = str(table.ref) if partition is None else f"{table.ref}/day=1"
        opened = f"opened txn_id={work.txn.txn_id} tables={subject} job_key=dag/run/compact/-1"
        assert opened in caplog.messages


def test_on_hive_3_a_new_queue_entry_stops_our_compaction_before_it_publishes(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    with compacting(
        client,
        job_terms("dag/run/compact/-1", lock_timeout_s=1, clock=clock),
        table=table,
        partition=None,
        compaction_type=CompactionType.MAJOR,
    ) as work:
        assert not work.has_rival()
        client.request_compaction(table.ref, None, CompactionType.MINOR)
        # 4.x gives an entry to one worker, and ours has it.
        assert work.has_rival() is (client.generation is MetastoreGeneration.V3)
    assert (work.refusal is None) is (client.generation is MetastoreGeneration.V4)


@pytest.mark.parametrize("server", [MetastoreGeneration.V4], indirect=True)
def test_the_queue_entry_of_an_unknown_commit_is_resolved_by_the_next_run(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    def cut_off(step: str) -> None:
        if step == "body_done":
            lost = MetastoreUnavailableError(uris=("thrift://h:1",), method="x", reason="cut off")
            client.server.break_next("commit_txn", lost, is_done=True)
            for _ in range(999):
                client.server.break_next("valid_txns", lost, is_done=False)

    def state() -> CompactionState:
        (entry,) = client.show_compactions(table.ref)
        return entry.state

    with (
        pytest.raises(CommitStateUnknownError),
        compacting(
            client,
            job_terms("dag/run/compact/-1", lock_timeout_s=1, clock=clock, on_step=cut_off),
            table=table,
            partition=None,
            compaction_type=CompactionType.MAJOR,
        ),
    ):
        pass
    client.server.faults.clear()
    assert state() is CompactionState.WORKING
    end_dead_entries(client, table.ref)
    assert state() is CompactionState.READY_FOR_CLEANING  # it was committed


def work_of(
    client: FakeClient, table: TableInfo, clock: ManualClock, job: str, policy: ConflictPolicy
) -> AbstractContextManager[CompactionWork]:
    return compacting(
        client,
        job_terms(job, lock_timeout_s=1, clock=clock),
        table=table,
        partition=None,
        compaction_type=CompactionType.MAJOR,
        policy=policy,
    )


@pytest.mark.parametrize("policy", ConflictPolicy)
def test_a_second_compactor_names_the_transaction_and_job_that_it_gives_way_to(
    client: FakeClient, table: TableInfo, clock: ManualClock, policy: ConflictPolicy
) -> None:
    with work_of(client, table, clock, "dag/run/first/-1", policy) as first:
        try:
            with work_of(client, table, clock, "dag/run/second/-1", policy) as second:
                text = second.refusal or ""
        except (WriteConflictError, LockNotAcquiredError) as error:
            text = str(error)
            assert "(lock 0)" not in text
    owner = f"transaction {first.txn.txn_id} (tester@fake, job dag/run/first/-1, open for "
    assert f"hiveacid major compaction in {owner}" in text
    assert f"end it with `hiveacid abort {first.txn.txn_id}`" in text


@pytest.mark.parametrize("policy", ConflictPolicy)
def test_a_compactor_does_not_give_way_to_one_that_has_ended_meanwhile(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    policy: ConflictPolicy,
) -> None:
    rival = client.open_txn()
    compactor = LockComponent(
        table=lock_of_compactors(table.ref), lock_type=LockType.EXCLUSIVE, operation=None
    )
    client.lock(
        LockRequest(txn_id=rival, components=(compactor,), agent_info="hiveacid major compaction")
    )

    class Client(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[LockInfo, ...]:
            if ref == lock_of_compactors(table.ref):
                client.abort_txn(rival)
            return super().show_locks(ref, txn_id=txn_id)

    with work_of(Client(server), table, clock, "dag/run/compact/-1", policy) as work:
        assert work.refusal is None


@pytest.mark.parametrize("policy", ConflictPolicy)
def test_a_compactor_that_was_killed_while_it_waited_is_named(
    client: FakeClient, table: TableInfo, clock: ManualClock, policy: ConflictPolicy
) -> None:
    first, killed = client.open_txn(), client.open_txn()
    part = LockComponent(
        table=lock_of_compactors(table.ref), lock_type=LockType.EXCLUSIVE, operation=None
    )
    for txn_id in (first, killed):
        agent = "hiveacid major compaction"
        client.lock(LockRequest(txn_id=txn_id, components=(part,), agent_info=agent))
    client.commit_txn(first)
    with (
        pytest.raises(LockNotAcquiredError, match=f"by transaction {killed} of .*, waiting"),
        work_of(client, table, clock, "dag/run/compact/-1", policy),
    ):
        pass
    assert {lock.txn_id for lock in client.show_locks(lock_of_compactors(table.ref))} == {killed}


def test_a_compactor_gives_way_to_that_of_its_own_partition_and_names_it(
    client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """To end the other one, which a user might do then, would not help."""

    def of(day: str, job: str) -> AbstractContextManager[CompactionWork]:
        return compacting(
            client,
            job_terms(job, lock_timeout_s=1, clock=clock),
            table=table,
            partition=PartitionName.parse(f"day={day}"),
            compaction_type=CompactionType.MAJOR,
        )

    with of("2", "other"), of("1", "own") as own, of("1", "late") as late:
        assert f"in transaction {own.txn.txn_id} (" in (late.refusal or "")


def test_a_waiting_compactor_takes_its_request_back_between_its_questions(
    client: FakeClient, table: TableInfo
) -> None:
    seen: list[set[TxnId | None]] = []
    ref = lock_of_compactors(table.ref)

    class Pausing(ManualClock):
        def sleep(self, seconds: float) -> None:
            seen.append({lock.txn_id for lock in client.show_locks(ref)})
            super().sleep(seconds)

    first, killed = client.open_txn(), client.open_txn()
    part = LockComponent(table=ref, lock_type=LockType.EXCLUSIVE, operation=None)
    for txn_id in (first, killed):
        agent = "hiveacid major compaction"
        client.lock(LockRequest(txn_id=txn_id, components=(part,), agent_info=agent))
    client.commit_txn(first)
    with (
        pytest.raises(LockNotAcquiredError),
        work_of(client, table, Pausing(), "dag/run/compact/-1", ConflictPolicy.HIVE),
    ):
        pass
    assert len(seen) > 2
    assert all(txns == {killed} for txns in seen)


def test_a_compactor_without_a_transaction_is_named_as_the_reason_to_give_way(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    class Client(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[LockInfo, ...]:
            return tuple(replace(k, txn_id=None) for k in super().show_locks(ref, txn_id=txn_id))

    with (
        work_of(client, table, clock, "dag/run/first/-1", ConflictPolicy.HIVE),
        work_of(Client(server), table, clock, "dag/run/second/-1", ConflictPolicy.HIVE) as work,
    ):
        assert "exclusive on default.hiveacid_compaction_of_t" in (work.refusal or "")

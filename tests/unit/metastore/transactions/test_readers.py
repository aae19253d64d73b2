"""Which open transactions may read a table, judged by their locks."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.ids import AttemptId, TxnId
from airflow_hiveacid.format.records import Reader
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef
from airflow_hiveacid.metastore import locks
from airflow_hiveacid.metastore.port import TxnType
from airflow_hiveacid.metastore.transactions.fencing import ANONYMOUS, FencingToken
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore

QUERY = "etl_20261123020304_0f0e0d0c-0b0a-0908-0706-050403020100"  # as Hive calls one
T, OTHER = TableRef("default", "t"), TableRef("default", "other")
READ, CHANGE = LockType.SHARED_READ, LockType.EXCL_WRITE


def opened(
    client: FakeClient,
    *refs: TableRef,
    lock_type: LockType = READ,
    agent_info: str = QUERY,
    partition: PartitionName | None = None,
) -> TxnId:
    txn_id = client.open_txn()
    components = tuple(
        locks.LockComponent(
            table=ref, lock_type=lock_type, operation=DataOperation.SELECT, partition=partition
        )
        for ref in refs
    )
    if components:
        client.lock(locks.LockRequest(txn_id=txn_id, components=components, agent_info=agent_info))
    return txn_id


def readers(client: FakeClient) -> tuple[Reader, ...]:
    return possible_readers(client, T, client.valid_txns(), now_s=lambda: client.server.now_s() + 7)


def test_a_transaction_that_locks_the_table_a_partition_or_nothing_may_be_a_reader(
    client: FakeClient, table: TableInfo
) -> None:
    assert table.ref == T
    month = PartitionName(("month",), ("1",))
    found = [
        opened(client, T, OTHER),
        opened(client, T, partition=month),
        opened(client),
        client.open_txn(TxnType.READ_ONLY),
    ]
    opened(client, OTHER)
    opened(client, TableRef("elsewhere", "t"))
    assert [reader.txn_id for reader in readers(client)] == found


def test_a_waiting_lock_counts_like_an_acquired_lock(client: FakeClient) -> None:
    opened(client, T, OTHER, lock_type=LockType.EXCLUSIVE)
    waiting = opened(client, T)
    opened(client, OTHER)
    assert waiting in [reader.txn_id for reader in readers(client)]
    assert len(readers(client)) == 2


@pytest.mark.parametrize(("table", "db", "counts"), [(None, "DEFAULT", True), (None, "x", False)])
def test_a_lock_on_the_database_covers_its_tables(
    server: FakeMetastore, *, table: None, db: str, counts: bool
) -> None:
    class OfDatabases(FakeClient):
        def show_locks(
            self, ref: TableRef | None = None, *, txn_id: TxnId | None = None
        ) -> tuple[locks.LockInfo, ...]:
            found = super().show_locks(ref, txn_id=txn_id)
            return tuple(dataclasses.replace(lock, db=db, table=table) for lock in found)

    client = OfDatabases(server)
    opened(client, OTHER)
    assert bool(readers(client)) is counts


def test_a_reader_is_named_with_its_user_job_and_age(client: FakeClient) -> None:
    fencing_token = FencingToken(
        job_key="dag/run/task/-1",
        attempt=AttemptId.parse("2-00c0ffee0123"),
        first_txn_id=client.open_txn(),
    )
    client.abort_txn(fencing_token.first_txn_id)
    txn_id = opened(client, T, agent_info=fencing_token.agent_info)
    (found,) = readers(client)
    assert (found.txn_id, found.user, found.host) == (txn_id, client.user, "fake")
    assert (found.job_key, found.open_for_s) == ("dag/run/task/-1", 7)
    text = str(found)
    assert f"transaction {txn_id} has been open for 7 s and may read it" in text
    assert "job dag/run/task/-1" in text
    assert "shared_read lock on default.t" in text


def test_the_age_of_a_reader_is_told_in_its_largest_units() -> None:
    reader = Reader(txn_id=TxnId(5), open_for_s=3 * 86400 + 7200 + 5)
    assert str(reader) == "transaction 5 has been open for 3 d 2 h and may read it"


@pytest.mark.parametrize("agent_info", [QUERY, ANONYMOUS])
def test_with_lockless_reads_only_this_providers_locks_exclude_a_reader(
    server: FakeMetastore, client: FakeClient, agent_info: str
) -> None:
    server.settings["hive.acid.lockless.reads.enabled"] = "True"
    opened(client, OTHER, agent_info=agent_info)
    is_known = server.generation is MetastoreGeneration.V3 or agent_info == ANONYMOUS
    assert bool(readers(client)) is not is_known


def test_a_writer_of_a_different_table_is_not_a_reader(client: FakeClient) -> None:
    opened(client, OTHER, lock_type=LockType.SHARED_WRITE)
    assert readers(client) == ()


def test_a_transaction_that_ends_before_its_locks_are_listed_still_counts(
    client: FakeClient,
) -> None:
    txns_then = (txn_id := opened(client, OTHER), client.valid_txns())[1]
    client.commit_txn(txn_id)
    assert [r.txn_id for r in possible_readers(client, T, txns_then)] == [txn_id]


@pytest.mark.parametrize(
    ("agent_info", "counts"),
    [
        (QUERY, False),
        ("20261123_020304_00017_abcde", False),
        ("hiveacid major compaction", False),
        ("spark-acid", True),
        ("Unknown", True),
    ],
    ids=["Hive", "Trino", "compactor", "spark-acid", "nameless"],
)
def test_a_client_that_may_lock_tables_one_by_one_counts_as_a_reader(
    client: FakeClient, agent_info: str, *, counts: bool
) -> None:
    """It may still lock this table, and would then miss rows of its older snapshot."""
    opened(client, OTHER, agent_info=agent_info)
    assert bool(readers(client)) is counts


def test_a_working_compaction_counts_as_a_reader(client: FakeClient) -> None:
    """It locks the table only while it publishes."""
    at_work = opened(client, locks.presence_of_compactions(T), agent_info=ANONYMOUS)
    assert [reader.txn_id for reader in readers(client)] == [at_work]

"""Many clients at once, on PostgreSQL: Derby would let in one after the other."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import HiveAcidError, WriteConflictError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import PostgresDatabase
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.transactions.compaction_work import compacting
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import access, month
from tests.support.terms import job_terms

INSERT, UPDATE, DELETE = DataOperation.INSERT, DataOperation.UPDATE, DataOperation.DELETE
_COLUMNS: Final = (Column(name="id", type="bigint"),)
_MONTH: Final = (Column(name="month", type="string"),)


@pytest.fixture
def endpoint(hive_metastore_on_postgres: LocalMetastore) -> MetastoreEndpoint:
    return MetastoreEndpoint(uris=(hive_metastore_on_postgres.uri,))


@pytest.fixture
def client(endpoint: MetastoreEndpoint) -> Iterator[MetastoreClient]:
    with connect(endpoint) as made:
        yield made


def in_parallel(count: int, work: Callable[[int], object]) -> list[object]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


@pytest.mark.promise("T1")
def test_fifty_concurrent_clients_get_distinct_transaction_ids(endpoint: MetastoreEndpoint) -> None:
    def open_some(_: int) -> list[TxnId]:
        with connect(endpoint) as client:
            txn_ids = [client.open_txn(), client.open_txn()]
            for txn_id in txn_ids:
                client.abort_txn(txn_id)
        return txn_ids

    answers = in_parallel(50, open_some)
    assert all(pair == sorted(pair) for pair in answers)
    assert len({txn_id for pair in answers for txn_id in pair}) == 100


@pytest.mark.parametrize(("operation", "winners"), [(INSERT, 8), (UPDATE, 1), (DELETE, 1)])
@pytest.mark.long_cases("*.DELETE-1")
def test_eight_concurrent_inserts_all_commit_but_only_one_of_eight_changes_does(
    endpoint: MetastoreEndpoint, client: MetastoreClient, operation: DataOperation, winners: int
) -> None:
    ref = TableRef("default", f"eight_{operation.value}")
    table = client.create_table(NewTable(ref=ref, columns=_COLUMNS))
    all_have_begun = threading.Barrier(8, timeout=60)

    def write(number: int) -> str:
        try:
            with (
                connect(endpoint) as mine,
                begin(
                    mine,
                    job_terms(f"writer {number}", lock_timeout_s=60),
                    writes=[access(table, operation)],
                ),
            ):
                all_have_begun.wait()
        except WriteConflictError:
            return "lost"
        except HiveAcidError as error:
            return str(error)
        return "committed"

    outcomes = in_parallel(8, write)
    assert sorted(outcomes) == ["committed"] * winners + ["lost"] * (8 - winners)
    assert client.show_locks(ref) == ()


@pytest.mark.promise("L9")
def test_a_hundred_dynamic_partition_writes_leave_no_metastore_rows_after_compaction(
    client: MetastoreClient, hive_metastore_on_postgres: LocalMetastore
) -> None:
    ref = TableRef("default", "drained")
    table = client.create_table(NewTable(ref=ref, columns=_COLUMNS, partition_columns=_MONTH))
    client.add_partitions(table, [month("1"), month("2")])
    for number in range(100):
        with begin(
            client,
            job_terms(f"write {number}", lock_timeout_s=10),
            writes=[access(table, INSERT, UPDATE)],
        ) as txn:
            if number % 3:
                names = [month("1"), month("2")][: number % 3]
                txn.register_partitions(ref, names, {INSERT, UPDATE})
    database = hive_metastore_on_postgres.config.database
    assert isinstance(database, PostgresDatabase)
    assert lines_of(database, "drained") == {"TXN_COMPONENTS": 0, "COMPLETED_TXN_COMPONENTS": 198}
    for name in (month("1"), month("2")):
        compact(client, table, name.values[0] or "")
    assert lines_of(database, "drained") == {"TXN_COMPONENTS": 0, "COMPLETED_TXN_COMPONENTS": 0}


def compact(client: MetastoreClient, table: TableInfo, value: str) -> None:
    with compacting(
        client,
        job_terms(f"compact {value}", lock_timeout_s=10),
        table=table,
        partition=month(value),
        compaction_type=CompactionType.MAJOR,
    ) as work:
        assert work.claim is not None
    client.mark_cleaned(work.claim)


def lines_of(database: PostgresDatabase, table: str) -> dict[str, int]:
    """Counts what the server's own tables hold about one of ours."""
    columns = {"TXN_COMPONENTS": "TC_TABLE", "COMPLETED_TXN_COMPONENTS": "CTC_TABLE"}
    counts = {
        name: f'select count(*) from "{name}" where "{column}" = \'{table}\''
        for name, column in columns.items()
    }
    return {name: int(query(database, statement)) for name, statement in counts.items()}


def query(database: PostgresDatabase, statement: str) -> str:
    address = f"postgresql://{database.user}@{database.host}:{database.port}/{database.name}"
    answer = subprocess.run(
        ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "-c", statement, address],  # noqa: S607 -- wherever this machine keeps it
        env={**os.environ, "PGPASSWORD": database.password},
        capture_output=True,
        check=True,
        text=True,
    )
    return answer.stdout.strip()

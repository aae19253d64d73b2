"""What a metastore says of a confirmed entry of the ledger: true ones are borne out, others not."""

from __future__ import annotations

from dataclasses import replace

from airflow_hiveacid.format import conflicts, ids
from airflow_hiveacid.format.records import LedgerEntry, doubt_of
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from tests.contract.bench import Bench, access

INSERT = conflicts.DataOperation.INSERT


def entry_of(txn: MetastoreTransaction, table: TableInfo) -> LedgerEntry:
    return LedgerEntry(
        job_key="job",
        generation=0,
        attempt=ids.AttemptId(1, "0" * 12),
        statement={},
        table_id=table.table_id,
        txn_id=txn.txn_id,
        write_id=txn.write_ids[table.ref],
        directories=(),
        result="{}",
        recorded_s=1.0,
        retention_s=1.0,
        is_confirmed=True,
    )


def write(bench: Bench, client: MetastorePort, table: TableInfo, *, fails: bool) -> LedgerEntry:
    with bench.begin(client, None, writes=[access(table, INSERT)]) as txn:
        entry = entry_of(txn, table)
        if fails:
            txn.abandon()
    return entry


def doubt(bench: Bench, client: MetastorePort, table: TableInfo, entry: LedgerEntry) -> str:
    """What the next run of the job says of it."""
    with bench.begin(client, writes=[access(table, INSERT)]) as txn:
        found = doubt_of(entry, txn.snapshot.write_ids(table.ref), txn.snapshot.txns)
        newest = txn.newest(table.ref)
        assert found == doubt_of(entry, newest.write_ids(table.ref), newest.txns)
        txn.abandon()
    return found


def test_a_ledger_entry_of_a_committed_write_is_confirmed_after_any_later_writes(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    done = write(bench, client, table, fails=False)
    assert doubt(bench, client, table, done) == ""
    for fails in (False, True, False):
        write(bench, client, table, fails=fails)
    assert doubt(bench, client, table, done) == ""


def test_a_ledger_entry_with_ids_that_were_never_allocated_is_doubted(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    done = write(bench, client, table, fails=False)
    forged = replace(done, txn_id=ids.TxnId(999_999), write_id=ids.WriteId(999_999))
    assert "allocated transactions only up to" in doubt(bench, client, table, forged)
    forged = replace(done, write_id=ids.WriteId(999_999))
    assert "allocated write IDs of the table only up to" in doubt(bench, client, table, forged)


def test_a_ledger_entry_with_ids_of_an_open_transaction_is_doubted(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    done = write(bench, client, table, fails=False)
    other = client.open_txn()
    write_id = client.allocate_write_id(other, table.ref)
    forged = replace(done, txn_id=other, write_id=write_id)
    assert "the metastore lists it as open" in doubt(bench, client, table, forged)
    forged = replace(done, write_id=write_id)
    assert "the metastore lists it as open" in doubt(bench, client, table, forged)
    client.abort_txn(other)
    assert doubt(bench, client, table, done) == ""

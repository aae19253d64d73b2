"""What a transaction sees when it begins, whatever the metastore leaves out of its lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.metastore.transaction import begin
from contract.bench import access

if TYPE_CHECKING:
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.transaction import Transaction
    from contract.fake_client import FakeClient
    from contract.fake_metastore import FakeMetastore
    from contract.manual_clock import ManualClock

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation


def left_out(client: FakeClient, server: FakeMetastore, table: TableInfo) -> WriteId:
    """A committed write ID above that of somebody slow who opened later; 4.x does not list it."""
    early, slow = client.open_txn(), client.open_txn()
    client.allocate_write_id(slow, table.ref)
    write_id = client.allocate_write_id(early, table.ref)
    client.commit_txn(early)
    server.clean_write_ids()
    return write_id


def opened(
    client: FakeClient, table: TableInfo, clock: ManualClock, *operations: DataOperation
) -> Transaction:
    with begin(
        client,
        job_key="job",
        reads=[access(table, SELECT)] if SELECT in operations else [],
        writes=[access(table, *[o for o in operations if o is not SELECT])],
        lock_timeout_s=5,
        clock=clock,
    ) as txn:
        return txn


@pytest.mark.parametrize("operations", [[UPDATE], [DELETE], [INSERT, SELECT]])
def test_who_writes_by_what_it_reads_sees_also_what_a_short_list_leaves_out(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    operations: list[DataOperation],
) -> None:
    write_id = left_out(client, server, table)
    txn = opened(client, table, clock, *operations)
    assert txn.snapshot.write_ids(table.ref).is_visible(write_id)


def test_a_second_writer_of_a_quiet_table_begins_once(
    server: FakeMetastore, client: FakeClient, table: TableInfo, clock: ManualClock
) -> None:
    """4.x lists the first alone to who asks as if the second were open."""
    first = client.open_txn()
    client.allocate_write_id(first, table.ref)
    txn = opened(client, table, clock, UPDATE)
    assert txn.write_ids[table.ref] == 2
    assert set(txn.snapshot.write_ids(table.ref).open) == {1, 2}
    assert server.next_write_id[table.ref] == 3
    assert server.txns[first].state.value == "open"

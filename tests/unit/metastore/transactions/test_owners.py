from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.transactions.fencing import owner_text, writer_of
from tests.contract.bench import access, start
from tests.contract.fake_client import FakeClient


@pytest.mark.parametrize("committed", [0, 1])
@pytest.mark.parametrize("number", range(7))
def test_the_writer_is_found_among_other_open_transactions(
    client: FakeClient, table: TableInfo, number: int, committed: int
) -> None:
    """They are without a write ID, have one of a later number, or have aborted an earlier one."""
    aborted = client.open_txn()
    client.allocate_write_id(aborted, table.ref)
    for _ in range(committed):
        client.commit_txn(start(client, access(table, DataOperation.INSERT)).txn_id)
    txns = [client.open_txn() for _ in range(7)]
    client.abort_txn(aborted)
    writer = txns[number]
    write_id = client.allocate_write_id(writer, table.ref)
    for other in txns[::-1]:
        client.allocate_write_id(other, table.ref)
    assert writer_of(client, table.ref, write_id) == writer
    client.abort_txn(writer)
    assert writer_of(client, table.ref, write_id) is None


def test_an_unknown_transaction_is_named_by_its_number(client: FakeClient) -> None:
    assert owner_text(client, TxnId(9)).startswith("transaction 9; if its process has died")


@pytest.mark.parametrize("method", ["open_txns_info", "show_locks", "valid_write_ids"])
def test_a_server_that_refuses_the_question_changes_only_the_message(
    client: FakeClient, table: TableInfo, method: str
) -> None:
    refused = MetastoreCallError(method=method, reason="denied")
    txn_id = start(client, access(table, DataOperation.INSERT)).txn_id
    client.server.break_next(method, refused, is_done=False)
    if method == "valid_write_ids":
        assert writer_of(client, table.ref, WriteId(1)) is None
    else:
        text = owner_text(client, txn_id)
        assert text.startswith(f"transaction {txn_id}")
        assert text.endswith(f"end it with `hiveacid abort {txn_id}`")

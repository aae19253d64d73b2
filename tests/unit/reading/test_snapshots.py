"""The definitions with which a snapshot's tables are read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.errors import TableChangedError
from airflow_hiveacid.format.table import Column, TableInfo
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.reading.snapshots import held_snapshot
from tests.contract.fake_client import FakeClient
from tests.support.terms import job_terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.fake_metastore import FakeMetastore

WIDER = (Column(name="id", type="decimal(20,0)"),)


def altering(
    monkeypatch: pytest.MonkeyPatch, server: FakeMetastore, table: TableInfo, times: int
) -> None:
    """Let another client change the table while a reader waits for its lock."""
    lock: Callable[..., Any] = FakeClient.lock
    left = [WIDER, table.columns, WIDER, table.columns][:times]

    def after_alter(client: FakeClient, request: Any) -> Any:  # noqa: ANN401
        if left:
            old = server.tables[table.ref]
            server.tables[table.ref] = dataclasses.replace(old, columns=left.pop(0))
        return lock(client, request)

    monkeypatch.setattr(FakeClient, "lock", after_alter)


def test_a_reader_starts_over_if_a_table_was_changed_while_it_waited_for_the_lock(
    server: FakeMetastore, client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old type would round or lose values that were written since."""
    altering(monkeypatch, server, table, 1)
    with held_snapshot(client, [str(table.ref)], job_terms("read")) as snapshot:
        assert snapshot.tables[table.ref].columns == WIDER
        snapshot.confirm_alive()
    assert [txn.state for txn in server.txns.values()] == [TxnState.ABORTED, TxnState.COMMITTED]


def test_a_reader_of_a_table_that_changes_again_and_again_gives_up(
    server: FakeMetastore, client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    altering(monkeypatch, server, table, 4)
    with (
        pytest.raises(TableChangedError, match="columns changed"),
        held_snapshot(client, [str(table.ref)], job_terms("read")),
    ):
        pytest.fail("the definition is old")
    assert {txn.state for txn in server.txns.values()} == {TxnState.ABORTED}
    assert server.locks == {}

"""A compactor's lock hides that a table is due only while the compactor is alive."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, lock_of_compactors
from airflow_hiveacid.operators.reporting.findings import LocksNow
from airflow_hiveacid.operators.reporting.survey import MeasuredTable, survey
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from tests.contract.bench import access, start
from tests.contract.fake_client import FakeClient

_TWO = GivenThresholds(delta_count=2)


@pytest.fixture
def due(client: FakeClient, table: TableInfo, tmp_path: Path) -> TableInfo:
    client.server.tables[table.ref] = replace(table, location=f"file:{tmp_path}")
    for number in (1, 2, 3):
        writer = start(client, access(table, DataOperation.INSERT)).txn_id
        client.commit_txn(writer)
        delta = tmp_path / f"delta_{number:07d}_{number:07d}_0000"
        delta.mkdir()
        (delta / "bucket_00000").write_bytes(b"x" * 100)
    return client.server.tables[table.ref]


@pytest.fixture
def compactor(client: FakeClient, due: TableInfo) -> TxnId:
    txn_id = client.open_txn()
    lock = LockComponent(
        table=lock_of_compactors(due.ref), lock_type=LockType.EXCLUSIVE, operation=None
    )
    agent = "hiveacid major compaction"
    client.lock(LockRequest(txn_id=txn_id, components=(lock,), agent_info=agent))
    return txn_id


def heard(client: FakeClient, monkeypatch: pytest.MonkeyPatch, ago_s: float) -> None:
    txns = [replace(t, last_heartbeat_s=time.time() - ago_s) for t in client.open_txns_info()]
    monkeypatch.setattr(client, "open_txns_info", lambda: tuple(txns))


def test_while_a_compactor_is_alive_its_table_is_not_due_and_nobody_is_told_to_abort_it(
    client: FakeClient, due: TableInfo, compactor: TxnId, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard(client, monkeypatch, 1)
    measured = MeasuredTable.of(client, due, _TWO, LocksNow.of(client), names_owners=False)
    (found,) = measured.findings
    assert found.what == (
        f"a compaction is at work in transaction {compactor}"
        " (the table, hiveacid major compaction, acquired)"
    )
    assert (measured.row.state, found.remedy) == ("waiting", "")


def test_a_table_stays_due_behind_a_compactor_that_sends_no_heartbeat(
    client: FakeClient, due: TableInfo, compactor: TxnId, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard(client, monkeypatch, 3600)
    measured = MeasuredTable.of(client, due, _TWO, LocksNow.of(client))
    first, second = measured.findings
    assert measured.row.state == "due"
    assert "3 delta directories (threshold 2); a compactor without heartbeats" in first.what
    assert f"`abort {compactor}`; then run HiveAcidCompactOperator" in first.remedy
    assert f"the compaction in transaction {compactor} sends no heartbeat" in second.what
    assert f"`abort {compactor}`" in second.remedy


def test_the_locks_are_read_once_for_all_tables(
    client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(client, access(table, DataOperation.OVERWRITE))
    other = client.create_table(
        NewTable(ref=TableRef("default", "u"), columns=(Column(name="id", type="bigint"),))
    )
    calls: list[int] = []
    listed = client.show_locks()
    monkeypatch.setattr(client, "show_locks", lambda *_, **__: calls.append(1) or listed)
    found = survey(client, ["default.*"], GivenThresholds())
    locks = {one.row.table: one.details.get("locks") for one in found.numbers}
    assert len(calls) == 1
    assert len(locks) == 2
    assert locks[str(table.ref)]
    assert not locks[str(other.ref)]

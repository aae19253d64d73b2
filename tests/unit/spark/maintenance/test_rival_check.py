"""Which commits conflict with a compaction, under the policy that lets it fail for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation, WriteKind
from airflow_hiveacid.format.errors import WriteConflictError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts
from airflow_hiveacid.maintenance.compaction_planner import Window
from airflow_hiveacid.metastore.locks import LockRequest, LockResponse
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.writing import compaction
from airflow_hiveacid.writing.compaction import Compactor
from airflow_hiveacid.writing.publish import SharedNotes
from tests.contract.bench import access
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.steps import act_after
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import Rig


@pytest.mark.parametrize("first", ["list_directories", "valid_write_ids"])
def test_a_write_open_at_the_start_of_a_compaction_conflicts_once_it_commits(
    server: FakeMetastore,
    client: FakeClient,
    table: TableInfo,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    """Whichever of its two looks comes first, also for a write between them."""
    writing: list[TxnId] = []

    def publish(*_: object) -> None:
        if writing:
            return
        rival = FakeClient(server)
        writing.append(rival.open_txn())
        write_id = rival.allocate_write_id(writing[0], table.ref)
        folder = Path(table.location.removeprefix("file:"))
        (folder / f"delta_{write_id:07d}_{write_id:07d}_0000").mkdir()

    act_after(monkeypatch, compaction if first == "list_directories" else client, first, publish)
    nothing: Any = None
    compactor = Compactor(
        job=nothing,
        engine=nothing,
        client=client,
        facts=CompactionFacts(
            table=table,
            partition=PartitionInfo(name=PartitionName(), location=table.location),
            spec=CompactSpec.of_table(str(table.ref)),
            known=nothing,
        ),
        shared=SharedNotes.of(table),
        window=Window(),
    )
    look = compactor._look(WriteKind.MAJOR, ConflictPolicy.STRICT)
    FakeClient(server).commit_txn(writing[0])
    reading = access(table, DataOperation.SELECT)
    with (
        pytest.raises(WriteConflictError, match="delta_0000001_0000001_0000 was committed"),
        begin(client, job_terms(None, clock=clock), reads=[reading]) as txn,
    ):
        look(txn)


class Overtaken(FakeClient):
    """One before whose lock on a table another client commits an insert."""

    has_rival = False

    def lock(self, request: LockRequest) -> LockResponse:
        (table,) = self.server.tables.values()
        if not self.has_rival and table.ref in {c.table for c in request.components}:
            self.has_rival = True
            Rig(FakeClient(self.server), table).insert(3)
        return super().lock(request)


def test_a_write_committed_before_a_compaction_gets_its_lock_conflicts_with_it(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = Overtaken(server)
    rig = Rig(client, table)
    rig.insert(1, 2)
    with pytest.raises(WriteConflictError, match="delta_0000003_0000003_0000 was committed"):
        rig.compact(CompactionChoice.MAJOR, policy=ConflictPolicy.STRICT)
    assert client.has_rival
    assert rig.there("base_") == []
